import pytest
from make_pretrained import AGENTS

import safedsr
from safedsr.cli import main
from safedsr.engine.evaluate import evaluate
from safedsr.errors import UserError
from safedsr.runs.shipped import FILES, pretrained_folder, pretrained_names
from safedsr.runs.storage import read_json

MOST_BYTES = 3_000_000


@pytest.mark.parametrize("name", AGENTS)
def test_it_is_small_and_has_the_settings_of_the_script(name):
    folder = pretrained_folder(name)
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MOST_BYTES
    card, job = (read_json(folder / file) for file in ("card.json", "policy.json"))
    assert card["settings"] == {"algorithm": "safedsr-plus", **AGENTS[name], "seed": 0}
    (task,) = job["job"]["tasks"]
    assert (task["name"], task["costs"], task["budgets"]) == (name, ["diamond"], [5.0])
    assert job["job"]["train"]["steps"] == AGENTS[name]["steps"]


def test_all_of_them_are_known():
    assert pretrained_names() == sorted(AGENTS)
    with pytest.raises(UserError, match=r"unknown pretrained agent 'two-room'; did you mean 'two-rooms'\?"):
        safedsr.pretrained("two-room")


def test_it_reaches_what_its_card_says_and_can_adapt():
    agent, card = safedsr.pretrained("one-room"), read_json(pretrained_folder("one-room") / "card.json")
    found = evaluate(agent, episodes=300)
    told = card["evaluation"]["safe_goal_rate"]
    assert told["value"] > 0.95 and found.safe_goal_rate.high >= told["low"]
    assert agent.experience is not None
    small = agent.refit("small-diamond")
    assert evaluate(small, small.task, episodes=300).safe_goal_rate.value > 0.9


def test_commands_take_its_name(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["evaluate", "pretrained:one-room", "--episodes", "50"]) == 0
    assert "one-room, diamond" in capsys.readouterr().out
    assert main(["evaluate", "pretrained:elsewhere"]) == 2
    assert "known: one-room, two-rooms" in capsys.readouterr().err
