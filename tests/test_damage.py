"""Every reader under damage: it works and says the same as before, or one line says what is wrong (exit code 2)."""

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from damage import (
    STRANGE,
    WORDS,
    as_json,
    damaged_arrays,
    damaged_bytes,
    damaged_json,
    damaged_line,
    damaged_text,
)
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.adapt.costs import changed_scene
from safedsr.agent import load
from safedsr.agents.registry import ALGORITHMS
from safedsr.cli import main
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.config import GridConfig, OracleConfig
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.errors import UserError, one_line
from safedsr.runs import storage
from safedsr.runs.arrays import to_arrays
from safedsr.runs.collect import load_results
from safedsr.runs.config import TrainConfig
from safedsr.runs.folder import load_run, load_trajectories
from safedsr.runs.job import job_from_dict
from safedsr.runs.pack import pack
from safedsr.runs.writer import resume_run
from safedsr.validation import from_dict

pytestmark = pytest.mark.usefixtures("compile_quickly")
FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
NOT_A_TABLE = (pyarrow.ArrowException, ValueError)  # arrays that Parquet cannot hold
KEPT = json.loads((Path(__file__).parent / "fixtures" / "damage.json").read_text())  # what once failed


def many(count: int) -> Any:
    """So many examples, without a database, so that each run of the tests is the same."""
    return settings(max_examples=count, deadline=None, suppress_health_check=FIXTURES, derandomize=True, database=None)


def told(error: UserError) -> None:
    """An error says something in one line."""
    line = one_line(error)
    assert line and line.isprintable() and len(line) < 3000


def digest(value: Any) -> Any:
    """What readers say, in a form that can be compared."""
    if isinstance(value, dict):
        return {key: digest(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return value.dtype.kind, value.shape, value.tobytes()
    return value


def read_results(folder: Path) -> Any:
    remarks: list[str] = []
    found = load_results([folder], remarks)
    if not found:
        raise UserError("; ".join(remarks) or "nothing")
    return [(one.label, one.environment, one.seeds, one.steps, digest(one.counts), digest(one.series)) for one in found]


def read_policy(folder: Path) -> Any:
    agent = load(folder)
    assert agent.experience is None or len(agent.experience.steps.action)
    return agent.seed, digest(to_arrays(agent.policy))


def read_checkpoint(folder: Path) -> Any:
    with resume_run(folder) as (writer, config):
        job = job_from_dict(config)
        found = writer.restore()
        return None if found is None else (job.to_dict(), digest(found[0]), found[1])


def read_tables(folder: Path) -> Any:
    run = load_run(folder)
    return digest(run.episodes), digest(run.curves), digest(load_trajectories(folder))


READERS: dict[str, tuple[Callable[[Path], Any], ...]] = {
    "config.json": (read_results, read_checkpoint),
    "manifest.json": (read_results, read_checkpoint),
    "policy.json": (read_policy,),
    "policy.safetensors": (read_policy,),
    "memory.safetensors": (read_policy,),
    "episodes.parquet": (read_tables,),
    "curves.parquet": (read_tables,),
    "trajectories.safetensors": (read_tables,),
    "state": (read_checkpoint,),
}


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory, trained):
    """A folder to damage, and what its readers said before."""
    folder = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(trained("safedsr"), folder)
    said = {reader: reader(folder) for readers in READERS.values() for reader in readers}
    return folder, said


def file_in(folder: Path, name: str) -> Path:
    return next((folder / "checkpoint").glob("state-*")) if name == "state" else folder / name


@contextlib.contextmanager
def damaged(path: Path, content: bytes | None):
    """A file with other content, which then comes back."""
    before = path.read_bytes()
    try:
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        yield
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("name", READERS)
@many(60)
@given(data=st.data())
def test_damaged_files(kept_run, name, data):
    folder, said = kept_run
    path = file_in(folder, name)
    content = data.draw(damaged_bytes(path.read_bytes()))
    with damaged(path, content):
        for reader in READERS[name]:
            try:
                found = reader(folder)
            except UserError as error:
                told(error)
            else:
                gone = content is None and name in ("memory.safetensors", "curves.parquet", "episodes.parquet", "state")
                assert gone or found == said[reader]


@pytest.mark.parametrize(
    "name", ["policy.safetensors", "memory.safetensors", "episodes", "curves", "trajectories", "state"]
)
@many(60)
@given(data=st.data())
def test_damaged_arrays(kept_run, name, data):
    """Files that are whole, with a right checksum, and hold other arrays than they should."""
    folder, _ = kept_run
    path = next(folder.glob(f"{name}*")) if name != "state" else file_in(folder, name)
    reader = {"policy.safetensors": read_policy, "memory.safetensors": read_policy, "state": read_checkpoint}.get(name)
    table = path.suffix == ".parquet"
    arrays, about = storage.read_table(folder / name) if table else storage.read_tensors(path)  # type: ignore[misc]
    if data.draw(st.integers(0, 9)) == 0:
        about = {key: data.draw(st.sampled_from(["", "x", "-1", "99", "1e9"])) for key in about}
    arrays = data.draw(damaged_arrays(arrays))
    with damaged(path, path.read_bytes()), contextlib.suppress(UserError, *NOT_A_TABLE):
        (storage.write_table(folder / name, arrays, about) if table else storage.write_tensors(path, arrays, about))
        for read in (reader,) if reader else (read_tables, read_results):
            with contextlib.suppress(UserError):
                read(folder)


def unsigned(path: Path) -> Any:
    return {key: value for key, value in json.loads(path.read_text()).items() if key != "sha256"}


@pytest.mark.parametrize("name", ["config.json", "manifest.json", "policy.json"])
@many(150)
@given(data=st.data())
def test_damaged_json_without_a_checksum(kept_run, name, data):
    """The types, ranges and names of every field are checked: no reader gets further with what it cannot use."""
    folder, _ = kept_run
    content = as_json(data.draw(damaged_json(unsigned(folder / name)))).encode()
    with damaged(folder / name, content):
        for reader in READERS[name]:
            with contextlib.suppress(UserError):
                reader(folder)


@pytest.mark.parametrize("case", KEPT["json"], ids=lambda case: case["why"])
def test_kept_json(kept_run, case):
    folder, _ = kept_run
    data = unsigned(folder / case["file"])
    *way, last = case["at"]
    parent = data
    for key in way:
        parent = parent[key]
    parent[last] = case["value"]
    with damaged(folder / case["file"], as_json(data).encode()):
        for reader in READERS[case["file"]]:
            with pytest.raises(UserError, match=case["says"]):
                reader(folder)


def test_deeply_nested_json(kept_run):
    folder, _ = kept_run
    with (
        damaged(folder / "config.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        pytest.raises(UserError, match="nested too deeply"),
    ):
        read_checkpoint(folder)


@many(40)
@given(data=st.data())
def test_damaged_packed_folders(tmp_path_factory, kept_run, data):
    folder = tmp_path_factory.mktemp("packed") / "run"
    pack(kept_run[0], folder)
    said = read_results(folder)
    path = folder / data.draw(st.sampled_from(sorted(file.name for file in folder.iterdir())))
    content = data.draw(damaged_bytes(path.read_bytes()))
    with damaged(path, content):
        try:
            found = read_results(folder)
        except UserError as error:
            told(error)
        else:
            assert found == said or (content is None and path.stem == "positions")


LAYER = "cost noise\n. . . . .\n. . 0.5 . .\n. . . . .\n. . . . .\n"
MAP = f"#####\n#S.A#\n#.BG#\n#####\n\nA = fire 1\nB = fire 1, water 2.5\n\n{LAYER}"


@many(1500)
@given(text=damaged_text(MAP) | damaged_text("S.C.G") | st.text(max_size=60))
def test_damaged_maps(text):
    try:
        scene = parse_scene(text, "map")
    except UserError as error:
        return told(error)
    again = parse_scene(format_scene(scene), "map")
    assert all(np.array_equal(one, other) for one, other in zip(scene.layout, again.layout, strict=True))
    assert again.cost_names == scene.cost_names


CONFIGS = [
    *(algorithm.default for algorithm in {one.config: one for one in ALGORITHMS.values()}.values()),
    *(GridConfig(), OracleConfig(), TrainConfig(), CertificateConfig(), ClimbConfig()),
]


@many(1500)
@given(data=st.data())
def test_damaged_settings(data):
    config = data.draw(st.sampled_from(CONFIGS))
    found = data.draw(damaged_json(json.loads(json.dumps(asdict(config)))))
    try:
        made = from_dict(type(config), found)
    except UserError as error:
        return told(error)
    assert from_dict(type(config), json.loads(json.dumps(asdict(made)))) == made


@many(800)
@given(value=st.sampled_from([*STRANGE, *WORDS]), kind=st.sampled_from(["costs", "budget", "obs", "epsilon"]))
def test_arguments_of_python(agent, value, kind):
    try:
        if kind == "costs":
            changed_scene(scene_of(agent.task), value)
        elif kind == "budget":
            assert all(budget >= 0 for budget in agent.adapt_budgets(value))
        else:
            obs, epsilon = ([0.1, 0.1], value) if kind == "epsilon" else (value, 0.0)
            assert agent.act(obs, epsilon) in range(4)
    except UserError as error:
        told(error)


@many(300)
@given(
    obs=st.lists(st.floats(width=32) | st.integers(), max_size=3)
    | st.lists(st.lists(st.floats(), max_size=3), max_size=3)
)
@example(obs=[float("nan"), 0.1])
@example(obs=[5.0, 5.0])
@example(obs=[])
def test_observations(agent, obs):
    """An action comes only for places on the map; the fallback comes for everything else, and is counted."""
    count = agent.fallbacks
    action = agent.act(obs, fallback=3)
    try:
        assert np.array_equal(agent.act(obs), action)
        assert agent.fallbacks == count
    except UserError as error:
        told(error)
        assert agent.fallbacks > count and np.any(np.asarray(action) == 3)


@pytest.fixture(scope="module")
def agent(trained):
    found = load(trained("safedsr"))
    from safedsr.adapt.costs import task_of

    found.adapt_budgets = lambda value: task_of(found, None, value).budgets  # type: ignore[attr-defined]
    return found


LINES = [
    ["show", "one-room", "--costs", "diamond,2*square"],
    ["envs", "--json"],
    ["train", "safedqn", "--layout", "one-room", "--costs", "diamond", "--budget", "5", "--seeds", "2", "--out", "OUT"],
    ["train", "safedsr-plus", "--costs", "square", "--steps", "5000", "--gamma", "0.9", "--out", "OUT", "--resume"],
    [
        "train",
        "ppo-lag",
        "--costs",
        "none",
        "--steps-per-epoch",
        "100",
        "--steps",
        "1000",
        "--hidden",
        "8",
        "--out",
        "OUT",
    ],
    ["certify", "RUN", "--episodes", "10", "--confidence", "0.9"],
    ["evaluate", "RUN", "--episodes", "10", "--epsilon", "0.1", "--seed", "0", "--json"],
    ["adapt", "RUN", "--out", "OUT", "--costs", "FILE", "--budget", "3", "--level", "cost"],
    ["report", "RUN", "--json"],
    ["pack", "RUN", "--out", "OUT"],
]


@pytest.fixture
def computes_nothing(monkeypatch):
    """Commands that reach their work end there: what is tested is how they get there."""

    def done(*args: Any, **settings: Any) -> None:
        raise SystemExit(0)

    for name in (
        "safedsr.engine.train.train", "safedsr.engine.train.resume", "safedsr.agent.load", "safedsr.agent.evaluate_run",
        "safedsr.report.tables.report", "safedsr.runs.pack.pack_all", "safedsr.engine.lanes.use_cores",
    ):  # fmt: skip
        monkeypatch.setattr(name, done if "use_cores" not in name else lambda lanes: None)


@many(250)
@given(data=st.data())
def test_damaged_command_lines(capfd, computes_nothing, kept_run, tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    names = {"OUT": str(tmp_path / "out"), "RUN": str(kept_run[0]), "FILE": "map.txt"}
    words: list[str] = data.draw(damaged_line(data.draw(st.sampled_from(LINES))))
    line = [names.get(word, word) for word in words]
    code = main(line)
    printed = capfd.readouterr()
    assert code in (0, 2) and "Traceback" not in printed.err
    if code == 2 and line:
        (told_line,) = printed.err.splitlines()
        assert told_line.startswith("safedsr: ") and told_line.isprintable()


@pytest.mark.parametrize("line", KEPT["lines"], ids=lambda line: " ".join(line)[:40])
def test_kept_command_lines(capfd, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    assert main(line) == 2
    (told_line,) = capfd.readouterr().err.splitlines()
    assert told_line.startswith("safedsr: ") and told_line.isprintable() and len(told_line) < 1000


def test_a_name_with_markup_is_only_a_name(capfd, tmp_path, write_map):
    path = write_map("SAG\n\nA = [/x] 1", "map.txt")
    assert main(["show", path]) == 0
    assert "[/x] 1" in capfd.readouterr().out
    assert load_scene(path).cost_names == ("[/x]",)
