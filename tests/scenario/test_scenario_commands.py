"""The commands on tiny scenarios: guests, the oracle, folders of results, interruptions, settings."""

from pathlib import Path

import pytest
from tiny_scenarios import TINY

from safedsr.cli import main
from safedsr.errors import EnvironmentFailed
from safedsr.scenario import contestants, provenance, reference, workers
from safedsr.scenario.contestants import find_contestant
from safedsr.scenario.course import make_course
from safedsr.scenario.file import parse_scenario
from safedsr.scenario.place import OutOfTime, Timer, claimed, turns
from safedsr.scenario.results import pack, read_results
from safedsr.scenario.run import How
from safedsr.scenario.sets import changing_v1, find_scenarios
from safedsr.scenario.tables import table_text

pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_the_page_shows_the_example():
    root = Path(__file__).parents[2]
    shown = (root / "docs" / "benchmark.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert (root / "examples" / "tabular.py").read_text(encoding="utf-8").endswith(shown)
    assert len(shown.strip().splitlines()) <= 32


GUEST = """
import numpy as np

def entry(world):
    rng, obs, told = np.random.default_rng(world.seed), world.reset(), 0
    while not world.over:
        told += len(world.news())
        obs, reward, costs, ended = world.step(rng.choice([1, 3, 3, 3]))
        if ended:
            obs = world.reset()
    assert told == 2 and world.budgets == (1.0,)
    world.spend(updates=7)
"""


def test_guests_and_the_oracle_take_part(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY.replace("ANNOUNCED", "true"))
    (tmp_path / "guest.py").write_text(GUEST)
    out = tmp_path / "out"
    run = ["scenario", "run", str(tmp_path / "tiny.toml"), f"{tmp_path}/guest.py:entry", "oracle", "--quick"]
    assert main([*run, "--out", str(out)]) == 0
    found = read_results(out)
    assert [(one["contestant"], one["seed"]) for one in found] == [("entry", 0), ("oracle", 0)]
    assert found[0]["phases"][1]["updates"] == 7 and found[0]["phases"][0]["episodes"] > 20
    assert found[1]["phases"][1]["safe_share"] > 0.85 and abs(found[1]["phases"][1]["regret"]) < 15
    assert found[0]["phases"][1]["regret"] > 50
    assert "QUICK, NOT COMPARABLE" in table_text(found)
    capsys.readouterr()
    assert main(["scenario", "report", str(out), "--out", str(tmp_path / "report")]) == 0
    assert (tmp_path / "report" / "figures" / "safe-share-tiny.png").exists()
    assert read_results(tmp_path / "report") == found  # packed
    (out / "tiny" / "oracle" / "0.json").unlink()
    assert read_results(tmp_path / "report", out) == found  # both: those of the oracle are packed only
    other = out / "tiny" / "entry" / "0.json"
    other.write_text(other.read_text().replace(found[0]["scenario_sha256"], "0" * 64))
    assert main(["scenario", "report", str(tmp_path / "report"), str(out), "--json"]) == 2
    assert "of different versions of the scenario" in capsys.readouterr().err
    (tmp_path / "report" / "results.json.gz").write_bytes(b"torn")
    capsys.readouterr()
    assert main(["scenario", "report", str(tmp_path / "report")]) == 2
    assert "cannot be read as packed results" in capsys.readouterr().err
    assert main([*run[:-1], "--out", str(out)]) == 2  # not quick, in the same folder
    assert "of a quick run; choose another --out" in capsys.readouterr().err


def test_a_guest_that_ends_early_is_told(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY.replace("ANNOUNCED", "true"))
    (tmp_path / "guest.py").write_text("def entry(world):\n    world.reset()\n    world.step(9)\n")
    run = ["scenario", "run", str(tmp_path / "tiny.toml"), f"{tmp_path}/guest.py:entry", "--quick", "--out"]
    assert main([*run, str(tmp_path / "out")]) == 2
    assert "action is 9; give a number from 0 to 3" in capsys.readouterr().err


@pytest.fixture
def write_guest(tmp_path):
    """Writes the tiny scenario and a guest, and gives the command that runs it."""
    (tmp_path / "tiny.toml").write_text(TINY.replace("ANNOUNCED", "true"))

    def write(text, name="entry"):
        (tmp_path / "guest.py").write_text(text)
        return ["scenario", "run", f"{tmp_path}/tiny.toml", f"{tmp_path}/guest.py:{name}", "--quick"]

    return write


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("world.step(1)\n    world.reset()", "an episode is running: call reset() only after step() has returned"),
        ("world.spend(updates=-1)", "updates is -1; give a number of at least 0"),
        ("world.spend(energy=1)", "'energy' is no account; possible: seconds, updates"),
    ],
)
def test_a_guest_cannot_hide_anything(write_guest, tmp_path, capsys, lines, told):
    """A second reset() would erase the costs of an episode that runs."""
    run = write_guest(f"def entry(world):\n    world.reset()\n    {lines}\n")
    assert main([*run, "--out", f"{tmp_path}/out"]) == 2
    assert told in capsys.readouterr().err


def test_a_guest_may_not_have_the_name_of_a_contestant(write_guest, capsys):
    assert main(write_guest(GUEST.replace("entry", "oracle"), "oracle")) == 2
    assert "'oracle' is the name of a contestant; give your function another name" in capsys.readouterr().err


def test_packed_results_go_on_and_other_settings_are_refused(write_guest, tmp_path, capsys):
    run = [*write_guest(GUEST), "--out", f"{tmp_path}/out"]
    assert main(run) == 0
    found = read_results(tmp_path / "out")
    pack(found, tmp_path / "out")
    (tmp_path / "out" / "tiny" / "entry" / "0.json").unlink()
    assert main([*run, "--seeds", "2"]) == 0  # only the seed that is not among the packed ones
    assert [path.name for path in (tmp_path / "out" / "tiny" / "entry").iterdir()] == ["1.json"]
    both = read_results(tmp_path / "out")
    assert [one["seed"] for one in both] == [0, 1] and both[0] == found[0]
    assert set(found[0]["made"]) >= {"safedsr", "commit", "jax", "device", "matmul", "settings_sha256"}
    assert f"jax {found[0]['made']['jax']}" in table_text(both)
    write_guest(GUEST + "\n# changed\n")
    capsys.readouterr()
    assert main([*run, "--seeds", "3"]) == 2
    assert "a result of 'entry' with other settings; choose another --out" in capsys.readouterr().err
    other = {**both[1], "made": {**both[1]["made"], "settings_sha256": "0"}}
    pack([both[0], other], tmp_path / "mixed")
    assert main(["scenario", "report", f"{tmp_path}/mixed"]) == 2
    assert "the results of 'entry' in 'tiny' were made with different settings" in capsys.readouterr().err


def test_a_run_stops_by_itself(write_guest, tmp_path, capsys):
    run = [*write_guest(GUEST), "--out", f"{tmp_path}/out", "--seconds"]
    assert main([*run, "0"]) == 2
    assert "seconds is 0; give at least 1" in capsys.readouterr().err
    assert main([*run, "1", "--seeds", "50"]) == 0
    assert "the 1 seconds are over and everything is saved in" in capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("tiny/entry/*.json"))) < 50


def test_a_state_of_other_settings_begins_anew(write_guest, tmp_path, capsys, monkeypatch):
    command = write_guest(GUEST)
    run = [*command[:3], "ppo-lag", *command[4:], "--out", f"{tmp_path}/out"]
    checks = iter([None])

    def check(timer):
        """The time is over at the second look, after a chunk of steps."""
        if next(checks, timer):
            raise OutOfTime

    monkeypatch.setattr(Timer, "check", check)
    assert main([*run, "--seconds", "9"]) == 0
    monkeypatch.undo()
    state = tmp_path / "out" / "tiny" / ".work-quick" / "ppo-lag" / "0.safetensors"
    assert state.exists()
    monkeypatch.setitem(contestants.QUICK_ON_POLICY, "update_iters", 3)
    capsys.readouterr()
    assert main(run) == 0
    said = capsys.readouterr().out
    assert "seed 0 begins anew: its state is damaged, or of another scenario or other settings" in said
    assert (tmp_path / "out" / "tiny" / "ppo-lag" / "0.json").exists() and not state.exists()


def test_seeds_that_another_process_runs_are_left_to_it(tmp_path):
    with claimed(tmp_path, [1, 2]) as first, claimed(tmp_path, [1, 2, 3]) as second:
        assert (first, second) == ([1, 2], [3])
        with pytest.raises(OutOfTime), turns(tmp_path, [2], Timer(0.0)):
            raise AssertionError("another process has this seed")
    with turns(tmp_path, [2], Timer()), claimed(tmp_path, [2]) as third:
        assert third == []


def test_workers_finish_the_seeds_of_adaptive_contestants(tmp_path, monkeypatch):
    """Their first phase is trained before, the others run here; a process that fails is reported."""
    seen = []

    def runs(scenarios, chosen, seeds, how):
        seen.append(([one.name for one in chosen], how.only_first_phase))

    monkeypatch.setattr(workers, "run", runs)
    monkeypatch.setattr(workers, "ONE_CORE", {"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": ""})
    (tmp_path / "safedsr").mkdir()
    (tmp_path / "safedsr" / "__init__.py").write_text("")
    script = "import sys\nprint(' '.join(sys.argv[1:]))\nsys.exit('--first-seed 8' in ' '.join(sys.argv))\n"
    (tmp_path / "safedsr" / "cli.py").write_text(script)
    chosen = [find_contestant(name) for name in ("safedsr-plus", "cpo", "safedsr-plus-memory")]
    scenario, how = parse_scenario(TINY.replace("ANNOUNCED", "true"), "tiny.toml"), How(tmp_path / "out", quick=True)
    workers.run_with_workers([scenario], chosen, (6, 7), how, 2)
    assert seen == [(["safedsr-plus", "safedsr-plus-memory"], True), (["cpo"], False)]
    said = (tmp_path / "out" / "tiny" / ".logs" / "7.txt").read_text()
    assert said.startswith("scenario run tiny.toml safedsr-plus safedsr-plus-memory --first-seed 7 --seeds 1")
    with pytest.raises(EnvironmentFailed, match="the process of seed 8 failed: scenario run"):
        workers.run_with_workers([scenario], chosen, (7, 8), how, 2)
    script = "import os\nprint(os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'])\n"
    (tmp_path / "safedsr" / "cli.py").write_text(script)
    shared = {**workers.SHARED, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": ""}
    monkeypatch.setattr(workers, "SHARED", shared)
    workers.run_with_workers([scenario], chosen, (9,), how._replace(share_accelerator=True), 1)
    assert (tmp_path / "out" / "tiny" / ".logs" / "9.txt").read_text() == "false\n"


def test_hashes_of_settings_change_with_settings(monkeypatch):
    (scenario,) = find_scenarios("changing-v1/shapes")
    course, names = make_course(scenario), list(contestants.CONTESTANTS)
    hashes = {name: provenance.settings_hash(course, find_contestant(name)) for name in names}
    assert len(set(hashes.values())) == len(names)
    plus = {name for name in names if name.startswith("safedsr-plus")}
    assert len({provenance.shared_hash(course, find_contestant(name)) for name in plus}) == 1
    monkeypatch.setitem(contestants.PLUS, "epsilon_end", 0.1)
    changed = {name for name in names if provenance.settings_hash(course, find_contestant(name)) != hashes[name]}
    assert changed == plus


def test_the_oracle_of_the_set_comes_with_the_package(monkeypatch):
    """One reference for all machines; regret needs something that can be lost."""
    known = reference.shipped()
    for scenario in changing_v1():
        course = make_course(scenario)
        phases = known[scenario.sha256]
        assert len(phases) == len(course.phases)
        name = "safe" if course.environment.spec.success else "worth"
        assert min(phase[name] for phase in phases) > 0
        assert reference.reference(course, Path("nowhere")) == phases
    monkeypatch.setattr(reference, "SEARCH", ())
    assert reference.shipped() == {}
