"""The protocol of the studio, without a browser: messages, pictures, adaptation, and who may talk to it."""

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.websockets import WebSocketDisconnect

import safedsr
from safedsr.cli import main
from safedsr.errors import UserError
from safedsr.studio.desk import Desk, Shelf
from safedsr.studio.messages import MOST_BYTES, Painted, View, packed, read, unpacked
from safedsr.studio.roots import Roots
from safedsr.studio.server import PAGE, Access, make_app

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer versions of Starlette want another HTTP client
    from starlette.testclient import TestClient

PORT = 8420
RUN = Path("pretrained:one-room")
ROOTS = Roots((RUN,))
HOST = {"host": f"127.0.0.1:{PORT}"}
OWN = {**HOST, "origin": f"http://127.0.0.1:{PORT}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(
        make_app(ROOTS, lambda: Desk(ROOTS, folder), Access(PORT)), base_url=f"http://127.0.0.1:{PORT}"
    ) as found:
        yield found


class Talk:
    """A page that waits for answers of some type."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.number = socket, 0

    def ask(self, kind: str, wanted: str, **more: Any) -> dict[str, Any]:
        self.number += 1
        self.socket.send_text(json.dumps({"type": kind, "id": self.number, **more}))
        while True:
            found = self.socket.receive_json()
            if found["type"] in (wanted, "error") and found["id"] == self.number and not found.get("searched"):
                return found


@pytest.fixture
def talk(client: TestClient) -> Iterator[Talk]:
    with client.websocket_connect("/talk", headers=OWN) as socket:
        yield Talk(socket)


def painted(layers: np.ndarray, **more: Any) -> dict[str, Any]:
    costs = [{"name": f"c{j}", "values": packed(layer)} for j, layer in enumerate(layers)]
    return {"costs": costs, "budgets": [5.0] * len(costs), **more}


def wall_across() -> np.ndarray:
    """A costly column with a gap at the top; the trained agent passes below the diamond, so now through it."""
    layers = np.zeros((1, 11, 11), np.float32)
    layers[0, 3:, 4:7] = 1
    return layers


def test_the_page_and_its_parts_come_from_the_server_alone(client):
    page = client.get("/")
    assert page.status_code == 200 and "default-src 'self'" in page.headers["content-security-policy"]
    parts = re.findall(r'(?:href|src)="(/page/[^"]+)"', page.text)
    assert len(set(parts)) == len(list(PAGE.iterdir())) - 1  # all but the page itself
    for part in set(parts) - {"/page/icon.svg"}:
        found = client.get(part)
        assert found.status_code == 200 and "http://" not in found.text and "https://" not in found.text
    assert client.get("/page/../server.py").status_code == 404


def test_other_hosts_and_other_sites_are_refused(client):
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403
    for headers in (
        {**HOST, "origin": "http://evil.example"},
        HOST,
        {"host": "evil.example", "origin": "http://evil.example"},
    ):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/talk", headers=headers):
            pass


def test_a_token_is_needed_where_others_can_reach_it(folder):
    access = Access(PORT, "secret")
    with TestClient(make_app(ROOTS, lambda: Desk(ROOTS, folder), access), base_url="http://10.0.0.1:1") as client:
        own = {"host": "10.0.0.1:1", "origin": "http://10.0.0.1:1"}
        for query in ("", "?token=guess"):
            with pytest.raises(WebSocketDisconnect), client.websocket_connect(f"/talk{query}", headers=own):
                pass
        with client.websocket_connect("/talk?token=secret", headers=own) as socket:
            assert Talk(socket).ask("open", "hello")["runs"] == [str(RUN)]


def test_a_stroke_moves_the_walks_and_an_adaptation_makes_them_safe(talk, folder):
    hello = talk.ask("open", "hello")
    assert (hello["height"], hello["width"], hello["trained"]) == (11, 11, True)
    own = {"costs": hello["costs"], "budgets": hello["budgets"]}
    first = talk.ask("look", "picture", view=own)
    assert first["now"]["safe"] == first["before"]["safe"] == 1 and first["adaptable"] is None
    view = painted(wall_across(), budgets=[1.0], lam="trained")
    second = talk.ask("look", "picture", view=view)
    assert second["before"]["safe"] < 0.5
    assert second["now"]["paths"] != second["before"]["paths"]
    found = talk.ask("adapt", "adapted", view=view, level="auto")
    assert found["passed"] and found["safe_goal_rate"]["bound"] >= 0.9
    third = talk.ask("look", "picture", view={**view, "policy": found["policy"]})
    assert third["now"]["safe"] >= 0.9 > second["before"]["safe"]
    saved = talk.ask("save", "saved", view={**view, "policy": found["policy"]}, text="moved")
    assert Path(saved["folder"]) == folder / "moved"
    agent = safedsr.load(folder / "moved")
    assert np.array_equal(agent.task.params.costs, wall_across()) and agent.task.budgets == (1.0,)
    again = talk.ask("save", "saved", view={**view, "policy": found["policy"]}, text="moved")
    assert again["type"] == "error" and "exists already" in again["text"]


def test_values_are_those_of_the_library(talk):
    view = painted(wall_across(), lam="own", lams=[2.0], leverage=True)
    found = talk.ask("look", "picture", view=view)
    agent = safedsr.pretrained("one-room").refit(wall_across())
    n = found["subcells"]
    q = unpacked(found["layers"]["q"], "q").reshape(11 * n, 11 * n)
    lam = found["lam"][0]
    assert lam == pytest.approx(2 * found["unit"][0])
    point = (np.array([4, 7]) + 0.5) / n
    values = agent.values(point / 11)
    best = int(np.argmax(np.asarray(values.q) - lam * np.asarray(values.k)[:, 0]))
    assert q[7, 4] == pytest.approx(float(values.q[best]), rel=1e-4)
    occupancy = unpacked(found["layers"]["occupancy"], "occupancy")
    assert occupancy.sum() == pytest.approx(found["now"]["steps"] + 1, rel=1e-4)
    assert np.isfinite(unpacked(found["layers"]["leverage"], "leverage")).all()


def test_another_run_can_be_compared_with(tmp_path):
    safedsr.pretrained("one-room").refit(wall_across()).save(tmp_path / "moved")
    runs = (RUN, tmp_path / "moved", Path("pretrained:two-rooms"))
    desk = Desk(Roots(runs), tmp_path)
    trained = desk.trained(View())
    assert desk.beside(View(), trained) is trained
    assert desk.beside(View(against=str(runs[1])), trained).task.cost_names == ("cost-0",)
    with pytest.raises(UserError, match="only costs can change"):
        desk.beside(View(against=str(runs[2])), trained)


def test_lambda_is_searched_after_a_stroke(talk):
    talk.socket.send_text(json.dumps({"type": "look", "id": 1, "view": painted(wall_across(), budgets=[0.0])}))
    quick, searched = talk.socket.receive_json(), talk.socket.receive_json()
    assert not quick.get("searched") and searched["searched"]
    assert searched["now"]["safe"] >= quick["now"]["safe"]


def test_two_costs_go_out_as_text_and_come_back_the_same(talk):
    layers = np.zeros((2, 11, 11), np.float32)
    layers[0, 2, 3:6], layers[1, 8, 8] = 1, 2.5
    out = talk.ask("export", "exported", view=painted(layers, epsilon=0.1))
    assert "safedsr adapt pretrained:one-room --costs map.txt --budget 5,5 --epsilon 0.1" in out["command"]
    back = talk.ask("import", "imported", text=out["text"])
    assert [cost["name"] for cost in back["costs"]] == ["c0", "c1"]
    assert np.array_equal([unpacked(cost["values"], "") for cost in back["costs"]], layers.reshape(2, -1))


def test_an_adaptation_stops_when_it_is_told_to(talk):
    view = painted(wall_across(), budgets=[0.0])
    talk.socket.send_text(json.dumps({"type": "adapt", "id": 7, "level": "memory", "view": view}))
    talk.socket.send_text(json.dumps({"type": "stop"}))
    while (found := talk.socket.receive_json())["type"] != "adapted":
        assert found["type"] == "progress"
    assert found["stopped"] and found["policy"] is None


WRONG = {
    "not JSON": ("{", "not JSON"),
    "a number": ("3", "give an object"),
    "unknown type": ('{"type": "shell"}', "possible: open, look"),
    "unknown field": ('{"type": "look", "path": "/etc"}', "unknown setting of Request 'path'"),
    "ε": ('{"type": "look", "view": {"epsilon": 2}}', "between 0 and 1"),
    "a folder above": ('{"type": "save", "text": "../x"}', "use letters"),
    "too long": (" " * (MOST_BYTES + 1), "send at most"),
}


@pytest.mark.parametrize("text, words", WRONG.values(), ids=WRONG.keys())
def test_wrong_messages_are_answered_in_words(text, words):
    with pytest.raises(UserError, match=words):
        read(text)


def test_wrong_views_are_answered_and_the_connection_stays(talk):
    wrong = [
        ({"run": "/etc"}, "unknown run"),
        ({"budgets": [1]}, "one for each of the 0 costs"),
        ({"policy": "beef"}, "no longer on the server"),
        (painted(np.zeros((1, 5, 5), np.float32)), "give 121"),
        (painted(np.full((1, 11, 11), -1, np.float32)), "at least 0"),
        ({"costs": [{"name": "<b>", "values": "!"}], "budgets": [1]}, "not float32"),
    ]
    for view, words in wrong:
        assert words in talk.ask("look", "picture", view=view)["text"]
    other_map = talk.ask("import", "imported", text="S.G")
    assert "only costs can change" in other_map["text"]
    assert talk.ask("open", "hello")["map"] == "one-room"


def test_of_many_strokes_the_last_one_counts(talk):
    layers = wall_across()
    for number in range(1, 31):
        layers[0, 0, 0] = number
        talk.socket.send_text(json.dumps({"type": "look", "id": number, "view": painted(layers, lam="trained")}))
    answered = []
    while not answered or answered[-1] != 30:
        answered.append(talk.socket.receive_json()["id"])
    assert len(answered) < 15


def test_a_shelf_forgets_what_was_not_used_for_longest():
    shelf: Shelf[int] = Shelf(2)
    for name in "aba":
        shelf.keep(name, 1)
    shelf.keep("c", 1)
    assert list(shelf) == ["a", "c"]


def test_costs_have_names_of_their_own():
    same = (Painted("a", ""), Painted("a", ""))
    with pytest.raises(UserError, match="a name of its own"):
        View(costs=same, budgets=(1.0, 1.0))


@pytest.mark.parametrize("flags, words", [(["--port", "99999"], "0 to 65535"), (["nowhere"], "is no folder")])
def test_wrong_command_lines_end_with_code_2(flags, words, capsys):
    assert main(["studio", "--no-open", *flags]) == 2
    assert words in capsys.readouterr().err
