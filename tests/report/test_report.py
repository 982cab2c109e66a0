import csv
import io
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from folders import Place, some_episodes, write_run
from scipy import stats

from safedsr.agent import load_all
from safedsr.agents.onpolicy.config import PRESETS
from safedsr.cli import main
from safedsr.cli.report import draw
from safedsr.engine.evaluate import evaluate
from safedsr.errors import UserError
from safedsr.paper.tables import Reported, reported
from safedsr.report.files import comma_separated, markdown, own_comma_separated, page
from safedsr.report.own import EVALUATION, TRAINING
from safedsr.report.tables import Evaluating, report, verdict
from safedsr.runs import storage
from safedsr.runs.metrics import Summary
from safedsr.runs.reference import Level, Reference, key_of

SIX = [Place(layout, (costs,)) for layout in ("one-room", "two-rooms", "three-rooms") for costs in ("none", "diamond")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The paper's algorithm on the paper's tasks, and rows that are not in the paper."""
    root = tmp_path_factory.mktemp("runs")
    episodes = {(i, seed): some_episodes(10 * i + seed, 9_000) for i in range(6) for seed in range(10)}
    write_run(root / "dqn", episodes, SIX, seeds=range(10))
    absorb = {"algorithm": "safedsr", "settings": {"terminal": "absorb"}}
    write_run(root / "absorb", {(0, 3): episodes[1, 3]}, [SIX[1]], seeds=[3], **absorb)
    double = {(0, seed): episodes[3, seed] for seed in range(10)}
    write_run(root / "double", double, [Place(costs=("2*diamond",))], seeds=range(10), algorithm="ppo-lag")
    return root, episodes


@pytest.fixture(scope="module")
def found(runs):
    return report([runs[0]], paper=True)


def row_of(found, number, environment, label):
    (row,) = [r for r in found.rows if (r.table.number, r.environment, r.label) == (number, environment, label)]
    return row


@pytest.mark.parametrize(
    ("number", "environment", "of"),
    [
        (3, 4, lambda e: e.success.sum()),
        (4, 1, lambda e: e.success.sum()),
        (5, 3, lambda e: (e.success & (e.cost[:, 0] <= 5)).sum()),
        (6, 1, lambda e: e.ret[-1]),
        (7, 5, lambda e: e.cost[-1, 0]),
    ],
)
def test_cells_are_those_of_numpy_and_scipy(runs, found, number, environment, of):
    values = np.array([of(runs[1][environment, seed]) for seed in range(10)], np.float64)
    place = SIX[environment]
    row = row_of(found, number, f"{place.layout}, {place.costs[0]}", "safedqn")
    expected = {
        "mean": np.mean(values),
        "std": np.std(values, ddof=1),
        "p25": np.percentile(values, 25),
        "iqm": stats.trim_mean(values, 0.25),
        "p75": np.percentile(values, 75),
    }
    for name, value in expected.items():
        assert getattr(row.found, name) == pytest.approx(value), name
    assert row.seeds == 10 and row.found.low <= row.found.iqm <= row.found.high
    assert row.paper == reported(row.table.key, place.layout, "safedqn")
    assert row.paper is not None and row.ratio == pytest.approx(row.found.iqm / row.paper.iqm)


def test_tables_have_the_environments_they_are_about(found):
    for row in found.rows:
        assert row.environment.endswith("none") is (row.table.number == 3)
    environments = [row.environment for row in found.rows if row.table.number == 4]
    assert environments == [
        *("one-room, 2*diamond", "one-room, diamond", "one-room, diamond"),
        *("two-rooms, diamond", "three-rooms, diamond"),
    ]


def test_rows_that_are_not_in_the_paper_have_no_paper_value(found):
    for label, environment in (("safedsr (absorb)", "one-room, diamond"), ("ppo-lag", "one-room, 2*diamond")):
        row = row_of(found, 5, environment, label)
        assert (row.paper, row.ratio, row.verdict) == (None, None, "")
    assert row_of(found, 4, "one-room, diamond", "safedsr (absorb)").seeds == 1


@pytest.mark.parametrize(("preset", "beside"), [("omnisafe", True), ("paper", True), ("repaired", False)])
def test_paper_values_are_shown_for_settings_that_the_authors_may_have_used(tmp_path, preset, beside):
    write_run(tmp_path, {(0, 0): some_episodes(0, 900)}, seeds=[0], algorithm="pdo", settings=PRESETS[preset])
    assert {row.paper is not None for row in report([tmp_path], paper=True).rows} == {beside}


@pytest.mark.parametrize(
    ("iqm", "interval", "quartiles", "expected"),
    [
        (100.0, (90, 110), (80, 120), "agrees"),
        (500.0, (99, 900), (450, 600), "agrees"),  # in a wide interval
        (106.9, (105, 109), (105, 109), "agrees"),  # seven per cent
        (108.0, (105, 109), (105, 109), "ranges overlap"),
        (120.0, (115, 125), (112, 130), "differs"),
        (80.0, (75, 85), (70, 91), "ranges overlap"),
        (80.0, (75, 85), (70, 89.9), "differs"),
    ],
)
def test_verdicts(iqm, interval, quartiles, expected):
    ours = Summary(mean=0, std=0, p25=quartiles[0], iqm=iqm, p75=quartiles[1], low=interval[0], high=interval[1])
    assert verdict(ours, Reported(mean=0, std=0, p25=90, iqm=100, p75=110)) == expected


def test_the_papers_numbers_are_rounded():
    ours = Summary(mean=0, std=0, p25=0.04, iqm=0.04, p75=0.04, low=0.04, high=0.04)
    assert verdict(ours, Reported(0, 0, 0.0, 0.0, 0.0)) == "agrees"
    assert verdict(ours, Reported(0, 0, 0.2, 0.2, 0.2)) == "differs"


def test_a_ratio_to_nothing_is_none(tmp_path):
    write_run(tmp_path / "run", {(0, 0): some_episodes(0, 900)}, [Place("three-rooms")], seeds=[0], algorithm="p3o")
    (row,) = [row for row in report([tmp_path]).rows if row.table.number == 5]
    assert row.paper is not None and row.paper.iqm == 0 and row.ratio is None and row.verdict == "differs"


def test_mixtures_and_missing_seeds_are_said(tmp_path):
    for name, options in {
        "a": {},
        "b": {"places": [Place(budgets=(10.0,))]},
        "c": {"steps": 40_000},
        "d": {"places": [Place("two-rooms", ("diamond", "square"), (5.0, 5.0))], "algorithm": "cpo"},
    }.items():
        costs = len(options.get("places", [Place()])[0].costs)
        write_run(tmp_path / name, {(0, s): some_episodes(s, 900, costs) for s in range(3)}, seeds=range(3), **options)
    found = report([tmp_path, tmp_path / "nowhere"], paper=True)
    assert [remark for remark in found.remarks if not remark.startswith("left out")] == [
        "different budgets (5, 10): in separate rows; only rows with 5 have the paper's values",
        "different numbers of steps (40000, 500000): in separate rows; only rows with 500000 have the paper's values",
        "safedqn in one-room, diamond: 3 seeds; the paper has 10",
    ]
    goals = {row.label: row.paper is not None for row in found.rows if row.table.number == 4}
    assert goals == {"safedqn": True, "safedqn (budget 10)": False, "safedqn (40k steps)": False, "cpo": False}
    costs = [row.environment for row in found.rows if row.table.number == 7 and row.label == "cpo"]
    assert costs == ["two-rooms, diamond, square: cost diamond", "two-rooms, diamond, square: cost square"]


def test_comma_separated_rows_have_every_digit(found):
    rows = list(csv.DictReader(io.StringIO(comma_separated(found))))
    assert len(rows) == len(found.rows)
    for text, row in zip(rows, found.rows, strict=True):
        assert float(text["iqm"]) == row.found.iqm and float(text["high"]) == row.found.high
        assert (text["verdict"], text["algorithm"]) == (row.verdict, row.label)
        assert text["paper_iqm"] == (str(row.paper.iqm) if row.paper else "")


def test_markdown_shows_the_rows_and_what_they_mean(found):
    text = markdown(found)
    row = row_of(found, 5, "two-rooms, diamond", "safedqn")
    assert f"{row.found.iqm:.1f} ({row.found.low:.1f} … {row.found.high:.1f}) | {row.found.p75:.1f} | 97.5 |" in text
    assert text.startswith("# Results beside the paper's tables\n") and " | p75 | paper | ratio | " in text
    assert "- **agrees**: " in text and "## Table 7: " in text and r"one-room, 2\*diamond" in text
    assert text.index("even costs") > text.index("## Table 7")
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("|")}
    assert widths == {9}


def test_the_page_needs_nothing_else(found, tmp_path):
    (tmp_path / "dot.png").write_bytes(b"\x89PNG dot")
    text = page(found._replace(remarks=["<b>odd</b>"]), [("Fig. <4>", tmp_path / "dot.png")])
    assert "data:image/png;base64,iVBORyBkb3Q=" in text and "Fig. &lt;4&gt;" in text and "&lt;b&gt;odd" in text
    assert (
        not re.findall(r'(?:src|href)="(?!data:)', text) and "http" not in text and "color-scheme: light dark" in text
    )
    assert text.count("<tr") == text.count("</tr>") and text.count("<table>") == 1 * 3 + 4 * 4


def test_the_command_writes_files_and_goes_on_without_figures(capsys, monkeypatch, tmp_path, runs):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setitem(sys.modules, "safedsr.figures.paper", None)
    assert main(["report", str(runs[0]), str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "Table 5: Safe goal count, environments with costs; two-rooms, diamond" in shown
    assert "remark: left out: " in shown and "remark: no figures: " in shown
    assert shown.endswith(f"page: {tmp_path / 'out' / 'index.html'}\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["index.html", "tables.csv", "tables.md"]
    assert "no figures" in (tmp_path / "out" / "tables.md").read_text()


def test_figures_are_taken_as_they_come(monkeypatch, tmp_path, found):
    drawn = [("Fig. 1", tmp_path / "one.png")]
    fake = SimpleNamespace(figures_of=lambda results, folder: drawn if results else [])
    monkeypatch.setitem(sys.modules, "safedsr.figures.paper", fake)
    assert draw(found, tmp_path) == drawn

    def fail(results, folder):
        raise UserError("no map")

    monkeypatch.setitem(sys.modules, "safedsr.figures.paper", SimpleNamespace(figures_of=fail))
    remarks: list[str] = []
    assert draw(found._replace(remarks=remarks), tmp_path) == [] and remarks == ["no figures: no map"]


def test_the_command_for_machines(capsys, runs):
    assert main(["report", str(runs[0] / "dqn"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["remarks"] == [] and len(found["rows"]) == 3 + 4 * 3
    first = found["rows"][0]
    assert (first["table"], first["environment"], first["paper"]["iqm"]) == (3, "one-room, none", 22749.5)


@pytest.mark.parametrize(
    ("args", "message"), [([], "no run folder given"), (["nowhere"], "nothing to report: left out")]
)
def test_nothing_to_report(capsys, args, message):
    assert main(["report", *args]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and message in shown.err and shown.err.count("\n") == 1


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Runs in two environments that are not the grid; in one of them episodes cannot succeed."""
    root = tmp_path_factory.mktemp("others")
    every = {(0, seed): some_episodes(seed, 9_000) for seed in range(3)}
    every = {place: one._replace(success=np.ones(len(one.end_step), bool)) for place, one in every.items()}
    cart, where = {"name": "CartPole-v1", "success": False}, [Place("CartPole-v1", ("angle",))]
    for name in ("safedqn", "ppo-lag"):
        write_run(root / name, every, where, seeds=range(3), algorithm=name, environment=cart)
    mean = {"budget_kind": "discounted-mean"}
    write_run(root / "mean", every, where, seeds=range(3), environment=cart, more=mean)
    some = {(0, seed): some_episodes(seed, 9_000, 2) for seed in range(3)}
    place = Place("up", ("slippery", "noisy"), (5.0, 1.0))
    write_run(root / "stairs", some, [place], seeds=range(3), environment={"name": "stairs"})
    return root, every, some


def test_other_environments_have_tables_of_their_own(others):
    root, every, some = others
    found = report([root])
    assert found.rows == [] and found.doubled is None
    assert {remark.partition(":")[0].split(" in ")[0] for remark in found.remarks} == {
        "no final evaluation of safedqn",
        "no final evaluation of ppo-lag",
    }  # these folders have no policy
    tables = {table.environment: table for table in found.own}
    cart = tables["CartPole-v1, angle; budget 5"]
    assert [row.label for row in cart.rows] == ["ppo-lag", "safedqn"] and cart.kind == TRAINING
    columns = cart.rows[1].found
    assert list(columns) == ["episodes", "safe episodes", "last return", "last cost (angle)"]
    assert cart.budgets == {"last cost (angle)": 5.0}
    runs = [every[0, seed] for seed in range(3)]
    assert columns["episodes"].value == pytest.approx(np.mean([len(e.ret) for e in runs]))
    assert columns["safe episodes"].value == pytest.approx(np.mean([(e.cost <= 5).mean() for e in runs]))
    assert columns["last return"].value == pytest.approx(np.mean([e.ret[-1] for e in runs]))
    (stairs,) = tables["stairs: up, slippery, noisy; budget 5, 1"].rows
    assert list(stairs.found) == ["goals", "safe goals", "last return", "last cost (slippery)", "last cost (noisy)"]
    assert stairs.found["goals"].value == pytest.approx(np.mean([e.success.sum() for e in some.values()]))
    (mean,) = tables["CartPole-v1, angle; budget 5 (discounted-mean)"].rows
    assert "last discounted cost (angle)" in mean.found


def test_files_of_ones_own_runs_do_not_speak_of_the_paper(others):
    found = report([others[0]])
    text, whole = markdown(found), page(found)
    assert text.startswith("# Comparison of runs\n\n## CartPole-v1, angle; budget 5\n") and "agrees" not in text
    assert "paper" not in text.lower() and "paper" not in whole.lower() and whole.count("<table>") == 3
    assert "| run | seeds | episodes | safe episodes | last return | last cost (angle), budget 5 |" in text
    rows = list(csv.DictReader(io.StringIO(own_comma_separated(found))))
    assert len(rows) == 3 * 4 + 5 and {row["table"] for row in rows} == {TRAINING}
    assert {row["budget"] for row in rows if row["metric"] == "last cost (noisy)"} == {"1.0"}


def test_the_commands_for_other_environments(capsys, monkeypatch, tmp_path, others, runs):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["report", str(others[0]), "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "CartPole-v1, angle" in shown and "safe episodes" in shown and "agrees" not in shown
    assert len(list((tmp_path / "figures").glob("learning-*.png"))) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "tables.md", "runs.csv", "figures"}
    both = [str(others[0] / "stairs"), str(runs[0] / "absorb")]
    assert main(["report", *both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "rows" not in found and {table["environment"] for table in found["runs"]} == {
        "stairs: up, slippery, noisy; budget 5, 1",
        "one-room, diamond; budget 5",
    }
    assert main(["report", *both, "--paper", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] and len(found["runs"]) == 1


def test_a_budget_of_the_mean_is_not_the_papers_experiment(tmp_path, runs):
    paid = {(0, seed): runs[1][1, seed] for seed in range(10)}
    write_run(tmp_path, paid, [SIX[1]], seeds=range(10), more={"budget_kind": "discounted-mean"})
    assert report([tmp_path]).rows == []
    found = report([tmp_path], paper=True)
    assert found.rows and all(row.paper is None for row in found.rows)
    assert {row.label for row in found.rows} == {"safedqn (discounted-mean)"}


@pytest.mark.parametrize(
    ("names", "expected"), [(["dqn"], True), (["dqn", "absorb"], True), (["absorb"], False), (["double"], False)]
)
def test_the_papers_tables_are_for_experiments_of_the_paper(runs, names, expected):
    found = report([runs[0] / name for name in names])
    assert bool(found.rows) is expected and bool(found.own) is not expected


def test_a_run_of_reproduce_is_an_experiment_of_the_paper(tmp_path):
    write_run(tmp_path / "run", {(0, 0): some_episodes(0, 900)}, seeds=[0], steps=10_000)
    assert not report([tmp_path]).rows
    manifest = storage.read_json(tmp_path / "run" / "manifest.json")
    storage.write_json(tmp_path / "run" / "manifest.json", {**manifest, "command": "safedsr reproduce plus --quick"})
    assert report([tmp_path]).rows


def test_trained_agents_are_evaluated_at_the_acting_epsilon(trained):
    run = trained("safedsr-plus")
    (evaluation, training) = report([run], how=Evaluating(epsilon=0.3, episodes=50)).own
    assert (evaluation.kind, training.kind) == (EVALUATION, TRAINING) and "ε = 0.3" in evaluation.note
    (row,) = evaluation.rows
    agents = [agent for (_, _), agent in sorted(load_all(run).items())]
    each = [evaluate(agent, episodes=50, epsilon=0.3) for agent in agents]
    assert row.seeds == 2 and row.found["steps"].value == pytest.approx(np.mean([one.length.value for one in each]))
    assert row.found["cost (cost)"].value == pytest.approx(np.mean([one.cost[0].value for one in each]))
    assert row.found["safe goal rate"].low <= row.found["safe goal rate"].value <= row.found["safe goal rate"].high
    assert evaluation.budgets == {"cost (cost)": 1.0}


def test_the_oracle_is_a_row_at_its_epsilon(trained):
    levels = [Level(epsilon, 1.0, 0.75, reward=0.5, cost=(0.25,)) for epsilon in (0.25, 0.0)]
    known = Reference(160, 9.0, 8.0, *levels)
    asked = []

    def oracle(results):
        asked.extend(results)
        return {key_of(results[0]): known}

    (table, _) = report([trained("safedsr-plus")], how=Evaluating(episodes=20, oracle=oracle)).own
    assert len(asked) == 1 and [row.label for row in table.rows] == ["safedsr-plus", "oracle"]
    assert table.rows[1].found["safe goal rate"] == (0.75, 0.75, 0.75) and "The oracle" in table.note
    (table, _) = report([trained("safedsr-plus")], how=Evaluating(0.1, 20, oracle=oracle)).own
    assert len(table.rows) == 1
