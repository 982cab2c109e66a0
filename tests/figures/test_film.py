from itertools import pairwise

import gymnasium
import jax
import numpy as np
import pytest
from PIL import Image
from tiny import tiny_task

from safedsr.agent import load
from safedsr.cli import main
from safedsr.engine.evaluate import run_keys
from safedsr.engine.record import record
from safedsr.errors import UserError
from safedsr.figures import film
from safedsr.figures.film import Watched, frames_of, save_film


@pytest.fixture(scope="module")
def agent(trained):
    return load(trained("safedsr-plus"))


def test_a_recorded_episode_is_that_of_the_evaluation(agent):
    for seed in range(3):
        found = record(agent, agent.task, 0.5, seed)
        outcome = run_keys(agent, agent.task, jax.random.key(seed)[None], 0.5)
        assert (found.success, len(found.ret) - 1) == (outcome.success[0], outcome.length[0])
        assert found.ret[-1] == pytest.approx(outcome.ret[0]) and found.cost[-1] == pytest.approx(outcome.cost[0])
        assert found.positions is not None and len(found.positions) == len(found.ret)
        assert all(np.abs(one - other).max() < 2 for one, other in pairwise(found.positions))


def test_agents_are_side_by_side_until_the_longer_episode_ends(agent, tmp_path):
    episodes = [record(agent, agent.task, 1.0, seed) for seed in range(6)]
    short, long = min(episodes, key=lambda e: len(e.ret)), max(episodes, key=lambda e: len(e.ret))
    watched = [Watched("one", agent, agent.task, [short]), Watched("other", agent, agent.task, [long])]
    frames = list(frames_of(watched, rate=4))
    assert len(frames) == len(long.ret) + 4 and len({frame.size for frame in frames}) == 1
    assert frames[0].width == 2 * film.WIDTH + film.GAP
    last, before = (np.asarray(frames[n])[:, : film.WIDTH] for n in (-1, len(short.ret) - 1))
    np.testing.assert_array_equal(last, before)  # the shorter one waits
    path = save_film(iter(frames), tmp_path / "new" / "film.gif", 4)
    with Image.open(path) as image:
        assert image.size == frames[0].size and image.info["duration"] == 250 and image.info["loop"] == 0
        shown = np.asarray(image.convert("RGB"), int)
    assert np.abs(shown - np.asarray(frames[0], int)).mean() < 2  # 256 colours are enough


def test_the_panel_says_what_happens(agent, monkeypatch):
    found = record(agent, agent.task, 0.0, 0)
    spent = found._replace(cost=found.cost + 3.0, success=True)
    panel = film._Panel(Watched("title", agent, agent.task, [spent]))
    lines = panel._lines(0, len(spent.ret) - 1)
    assert lines[0] == ("title", "black") and lines[1][0].endswith(", goal reached")
    assert lines[2][0].endswith("of 1: over the budget") and lines[2][1] == film.BUDGET
    assert "goal" not in panel._lines(0, 0)[1][0]


def test_an_mp4_needs_ffmpeg(agent, tmp_path, monkeypatch, capsys, trained):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    assert main(["watch", str(trained("safedsr-plus")), "--out", str(tmp_path / "a.mp4")]) == 2
    said = capsys.readouterr().err
    assert "an MP4 needs ffmpeg, which is not installed: pip install 'safedsr[video]'" in said and said.count("\n") == 1


def test_an_mp4_is_written_if_there_is_ffmpeg(agent, tmp_path):
    try:
        film.find_ffmpeg()
    except UserError:
        pytest.skip("no ffmpeg here")
    watched = [Watched("one", agent, agent.task, [record(agent, agent.task)])]
    path = save_film(frames_of(watched, 10), tmp_path / "film.mp4", 10)
    assert path.read_bytes()[4:8] == b"ftyp"


def test_the_command_films_before_and_after(agent, tmp_path, capsys, trained):
    run = trained("safedsr-plus")
    adapted = agent.refit(tiny_task("SGC").params._replace(goal=agent.task.params.goal))
    adapted.save(tmp_path / "after")
    (tmp_path / "after" / "certificate.json").write_text("{}")
    out = tmp_path / "film.gif"
    assert main(["watch", str(run), str(tmp_path / "after"), "--out", str(out), "--episodes", "2"]) == 0
    shown = capsys.readouterr().out
    assert f"before adaptation: {run}" in shown and "after adaptation: " in shown and shown.endswith(f"film: {out}\n")
    with Image.open(out) as image:
        assert image.width == 2 * film.WIDTH + film.GAP


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "no run folder given; write for example: safedsr watch pretrained:two-rooms"),
        (["pretrained:two-rooms", "--out", "a.avi"], "give a name that ends in .gif or .mp4"),
        (["pretrained:two-rooms", "--episodes", "0"], "episodes is 0; give at least 1"),
        (["nowhere"], "holds no policy"),
        (["pretrained:two-rooms", "--live"], "is not a run folder"),
    ],
)
def test_misuse_is_told_in_one_line(args, message, capsys):
    assert main(["watch", *args]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_curves_of_a_training_in_the_terminal(trained, capsys):
    assert main(["watch", str(trained("safedsr-plus")), "--live"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("safedsr-plus, step 160 of 160, ") and "means over 2 tasks and seeds" in shown
    for title in ("safe goal rate: ", "return of an episode: ", "cost of an episode (cost), budget 1: ", "λ (cost): "):
        assert title in shown
    assert "█" in shown


class Lamp(gymnasium.Env):
    """Ten steps; the picture is as bright as the time."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012, as in Gymnasium
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode, self.time = render_mode, 0

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.full(1, self.time / 10, np.float32), 1.0, self.time == 10, False, {"cost": 0.5}

    def render(self):
        return np.full((20, 30, 3), 10 * self.time, np.uint8) if self.render_mode else None


def test_an_environment_on_the_host_draws_itself():
    from tiny import tiny_agent

    from safedsr.envs.environment import make_task
    from safedsr.envs.host import from_gymnasium
    from safedsr.runs.config import TrainConfig
    from safedsr.runs.job import Job
    from safedsr.runs.policy import TrainedPolicy
    from safedsr.runs.policy_files import policy_shape

    environment = from_gymnasium(Lamp, cost="cost", name="lamp")
    job = Job("safedqn", (make_task(environment, 2),), (0,), tiny_agent("safedqn"), environment, TrainConfig(steps=160))
    policy = jax.tree.map(lambda x: np.zeros(x.shape[2:], x.dtype), policy_shape(job))
    agent = TrainedPolicy(job, policy, 0, 0)
    found = record(agent, agent.task)
    assert [picture.mean() for picture in found.pictures] == [10 * n for n in range(11)]
    assert found.ret.tolist() == list(range(11)) and found.cost[-1].tolist() == [5.0] and found.positions is None
    frames = list(frames_of([Watched("lamp", agent, agent.task, [found])], rate=1))
    assert len(frames) == 12 and np.asarray(frames[-1])[-1, 0].tolist() == [100, 100, 100]
