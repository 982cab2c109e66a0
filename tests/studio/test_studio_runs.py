"""What the studio does with runs: folders it may open, curves, other environments, hazards that move, limits."""

import asyncio
import gc
import json
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.monitoring
import numpy as np
import pytest
from climber import Climber
from starlette.websockets import WebSocketDisconnect
from test_studio import OWN, PORT, RUN, Talk, TestClient, painted, wall_across
from tiny import tiny_agent

import safedsr
from safedsr.adapt.follow import UPDATES, follow
from safedsr.engine.trails import trails
from safedsr.engine.train import train
from safedsr.envs.environment import make_task
from safedsr.envs.host import from_gymnasium
from safedsr.errors import UserError
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job
from safedsr.runs.metrics import within
from safedsr.studio.curves import curves_of
from safedsr.studio.desk import Desk
from safedsr.studio.messages import View, unpacked
from safedsr.studio.outbox import MOST, Outbox
from safedsr.studio.roots import Roots
from safedsr.studio.server import Access, make_app
from safedsr.studio.tab import Tab, Work


def served(desk: Desk) -> TestClient:
    return TestClient(make_app(desk.roots, lambda: desk, Access(PORT)), base_url=f"http://127.0.0.1:{PORT}")


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[TestClient]:
    with served(Desk(Roots((RUN,)), tmp_path_factory.mktemp("saved"))) as found:
        yield found


def test_runs_inside_a_given_folder_can_be_opened_and_no_others(trained, tmp_path):
    shutil.copytree(trained("safedqn"), tmp_path / "given" / "deep" / "one")
    shutil.copytree(trained("safedqn"), tmp_path / "secret")
    (tmp_path / "given" / "link").symlink_to(tmp_path / "secret")
    roots = Roots((tmp_path / "given",))
    inside = str(tmp_path / "given" / "deep" / "one")
    assert list(roots.runs()) == [inside] and str(roots.find("")) == inside
    for name in (str(tmp_path / "secret"), f"{inside}/../../../secret", str(tmp_path / "given" / "link")):
        with pytest.raises(UserError, match="unknown run"):
            roots.find(name)
    with pytest.raises(UserError, match="no run folder"):
        Roots((tmp_path / "given" / "deep" / "one" / "checkpoint",))


def test_a_map_is_shown_before_jax_is_loaded():
    code = """
import sys
from pathlib import Path
import safedsr.studio.server
from safedsr.studio.about import greeting
from safedsr.studio.messages import View
from safedsr.studio.roots import Roots
assert greeting(Roots((Path("pretrained:one-room"),)), View())["width"] == 11
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_that_trains_has_curves_before_it_has_a_policy(trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained("safedqn"), run)
    (run / "policy.json").unlink()
    text = (run / "progress.csv").read_text().splitlines(keepends=True)
    (run / "progress.csv").write_text("".join(text[:5]) + text[5][:9])  # a row is being written
    with served(Desk(Roots((run,)), tmp_path)) as client, client.websocket_connect("/talk", headers=OWN) as socket:
        talk = Talk(socket)
        hello = talk.ask("open", "hello")
        assert not hello["trained"] and hello["seeds"] == [0, 1] and hello["kind"] == "map"
        early = talk.ask("curves", "curves", view={"run": str(run), "seed": 1})
        assert early["step"] == 40 and early["planned"] == 160 and not early["ended"]
        assert "its training has not finished" in talk.ask("look", "picture", view=painted(np.zeros((1, 1, 3))))["text"]
    cost = next(chart for chart in curves_of(trained("safedqn"), 0, 1)["charts"] if chart["title"].startswith("λ"))
    assert [line["name"] for line in cost["lines"]] == ["mean of 2 seeds", "seed 1"]
    assert cost["lines"][0]["steps"][-1] == 160
    assert curves_of(RUN, 0, None) == {"planned": 0, "step": 0, "charts": []}


def slippery(obs, action, next_obs, reward, info, least=3.0):
    """1 in each step that ends at a height of at least `least`."""
    return float(next_obs[0] >= least)


class Drawn(Climber):
    """Stairs that draw themselves."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> np.ndarray:
        return np.full((40, 60, 3), 7, np.uint8)


def stairs_run(algorithm: str, folder: Path) -> tuple[Desk, Path]:
    environment = from_gymnasium(Drawn, name="stairs", cost=slippery)
    train_for = TrainConfig(steps=60, chunk=20)
    job = Job(algorithm, (make_task(environment, 5.0),), (0,), tiny_agent(algorithm), environment, train_for)
    run = train(job, folder / "run")
    return Desk(Roots((run,)), folder, lambda run: environment), run


LOW = {"budgets": [5.0], "args": {"least": 1.0}}


def test_other_environments_have_cost_parameters_and_films(tmp_path):
    desk, run = stairs_run("safedqn", tmp_path)
    with served(desk) as client, client.websocket_connect("/talk", headers=OWN) as socket:
        talk = Talk(socket)
        hello = talk.ask("open", "hello")
        assert (hello["kind"], hello["args"], hello["names"]) == ("other", {"least": 3.0}, ["slippery"])
        film = talk.ask("film", "film", view=LOW)
        assert len(film["now"]["frames"]) == len(film["now"]["steps"]) >= 2
        assert "has no cost weights" in film["adaptable"] and len(film["before"]["costs"][0]) == 1
        assert "unknown parameter" in talk.ask("film", "film", view={**LOW, "args": {"last": 1.0}})["text"]
        assert talk.ask("curves", "curves", view={"run": str(run)})["step"] == 60
        with pytest.raises(UserError, match="not trained on a map"):
            desk.beside(View(against=str(run)), desk.trained(View()))


@pytest.mark.slow
def test_agents_in_other_environments_adapt_to_other_cost_parameters(tmp_path):
    desk, _ = stairs_run("safedsr-plus", tmp_path)
    with served(desk) as client, client.websocket_connect("/talk", headers=OWN) as socket:
        found = Talk(socket).ask("adapt", "adapted", view=LOW, level="cost")
        assert found["policy"] and found["environment"] == "stairs (least=1), slippery"


def test_m_follows_a_hazard_that_moves():
    agent = safedsr.pretrained("one-room")
    task = agent.refit(wall_across()).task._replace(budgets=(1.0,))
    start = agent.refit(wall_across()).changed(task=task)
    later, updates = follow(start, task)
    assert 0 < updates < UPDATES
    later, _ = follow(later, task, 1)
    rates = [within_budget(one, task) for one in (agent, start, later)]
    assert rates[0] < 0.2 and rates[2] > 0.5 and rates[2] >= rates[1]


def within_budget(agent: Any, task: Any) -> float:
    found = trails(agent, task, 64, 300)
    return float((found.success & within(found.cost, task.budgets)).mean())


def test_a_page_that_follows_gets_pictures_with_a_newer_m(client):
    with client.websocket_connect("/talk", headers=OWN) as socket:
        view = painted(wall_across(), budgets=[1.0])
        counts = []
        for number in (1, 2):
            socket.send_text(json.dumps({"type": "look", "id": number, "view": view, "follow": True}))
            first, second = socket.receive_json(), socket.receive_json()
            assert second["searched"]
            counts += [first["updates"], second["updates"]]
        assert counts[0] == 0 and counts[1] == counts[2] > 0 and counts[3] > counts[2]
        stopped = Talk(socket).ask("look", "picture", view={**view, "lam": "trained"})
        assert stopped["updates"] == 0  # the hazard was stopped: the trained M again


def test_an_adaptation_stops_while_m_learns(client):
    with client.websocket_connect("/talk", headers=OWN) as socket:
        impossible = np.ones((1, 11, 11), np.float32)  # no level passes, so that M is trained for all its rounds
        view = painted(impossible, budgets=[0.0])
        socket.send_text(json.dumps({"type": "adapt", "id": 7, "level": "auto", "view": view}))
        stopped = False
        while (found := socket.receive_json())["type"] != "adapted":
            if not stopped and found.get("what") == "training M from the replay memory":
                socket.send_text(json.dumps({"type": "stop"}))
                stopped = True
            if found["type"] == "progress" and stopped:
                assert found["what"] != "simulating episodes for the certificate"
        assert stopped and found["stopped"] and found["policy"]
        assert [rung["level"] for rung in found["rungs"]] == ["cost", "penalty"]  # what was reached before is kept


def test_the_oracle_shows_its_way(client):
    with client.websocket_connect("/talk", headers=OWN) as socket:
        view = painted(wall_across(), budgets=[0.0], lam="trained", oracle=True)
        found = Talk(socket).ask("look", "oracle", view=view)
        assert found["safe"] == 1
        path = unpacked(found["paths"][0], "").reshape(-1, 2)
        assert path[:, 1].min() < 3  # through the gap at the top
        columns, rows = np.floor(path).astype(int).T
        assert not wall_across()[0, rows, columns].any()


def test_shapes_of_the_catalog_are_painted_by_the_library(client):
    with client.websocket_connect("/talk", headers=OWN) as socket:
        found = Talk(socket).ask("shape", "imported", text="square")
        wanted = safedsr.pretrained("one-room").refit("square").task.params.costs
        assert np.array_equal(unpacked(found["costs"][0]["values"], "").reshape(1, 11, 11), wanted)
        assert "unknown cost shape" in Talk(socket).ask("shape", "imported", text="heart")["text"]


def test_two_tabs_do_not_disturb_each_other(client):
    with (
        client.websocket_connect("/talk", headers=OWN) as one,
        client.websocket_connect("/talk", headers=OWN) as other,
    ):
        here, there = painted(wall_across(), lam="trained"), painted(np.zeros((1, 11, 11)), lam="trained")
        alone = Talk(one).ask("look", "picture", view=here)["now"]
        one.send_text(json.dumps({"type": "adapt", "id": 9, "level": "memory", "view": here}))
        for _ in range(3):
            assert Talk(other).ask("look", "picture", view=there)["now"]["cost"] == [0.0]
        other.send_text(json.dumps({"type": "stop"}))  # stops nothing of the other tab
        while (found := one.receive_json())["type"] != "adapted":
            pass
        assert not found["stopped"]
        assert Talk(one).ask("look", "picture", view=here)["now"] == alone


def test_strokes_compile_nothing_and_keep_nothing(client):
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration_secs, **kwargs: compiled.append(event) if "backend_compile" in event else None
    )
    rng = np.random.default_rng(0)
    with client.websocket_connect("/talk", headers=OWN) as socket:
        talk = Talk(socket)

        def strokes(count: int) -> int:
            for _ in range(count):
                layers = (rng.random((1, 11, 11)) < 0.2).astype(np.float32)
                talk.ask("look", "picture", view=painted(layers, lam="own", lams=[1.0]))
            gc.collect()
            return len(jax.live_arrays())

        before = strokes(5)
        compiled.clear()
        tracemalloc.start()
        assert strokes(40) <= before
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept < 500_000  # bytes; the pictures of these strokes are 3 MB
        assert not compiled


def test_a_page_that_does_not_read_gets_the_latest_picture():
    async def talked() -> list[dict[str, Any]]:
        box = Outbox()
        for number in range(1000):
            box.put({"type": "picture", "id": number})
            box.put({"type": "error", "id": number})
        return [await box.get() for _ in range(MOST)]

    found = asyncio.run(talked())
    assert [one["id"] for one in found if one["type"] == "picture"] == [999]
    assert found[-1] == {"type": "error", "id": 999}


def test_a_flood_of_requests_is_refused_in_words():
    async def flooded() -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        tab = Tab(Desk(Roots((RUN,)), Path("out")), Work(), told.append)
        for _ in range(200):
            tab.receive(json.dumps({"type": "open"}))
        waiting = len(tab.asked)
        await asyncio.gather(*tab.asked)
        assert waiting < 20
        return told

    told = asyncio.run(flooded())
    assert sum("too many requests" in one.get("text", "") for one in told) > 150


def test_the_command_serves_others_only_with_a_token_and_a_warning(monkeypatch, capsys):
    import safedsr.studio.server as server
    from safedsr.cli import main

    seen: list[Any] = []

    def serve(app: Any, host: str, port: int, ready: Any) -> None:
        seen.append((app, host, port))
        ready()

    monkeypatch.setattr(server, "run_server", serve)
    assert main(["studio", "--no-open", "--port", "0", "--host", "0.0.0.0"]) == 0
    out = capsys.readouterr().out
    assert "warning: everyone who can reach 0.0.0.0" in out and "/?token=" in out
    client = TestClient(seen[0][0], base_url=f"http://10.0.0.1:{seen[0][2]}")
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/talk", headers=OWN):
        pass
    assert main(["studio", "--no-open", "--port", "0"]) == 0
    assert "token" not in capsys.readouterr().out
