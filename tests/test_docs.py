"""What the documents say: names, links and paths lead somewhere, numbers are those of results/ and of the paper."""

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import docs_tables
import page_data
import pytest
from page_data import formats, sources

from safedsr.agents.onpolicy.baselines import BASELINES
from safedsr.envs.environment import Environment
from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.paper import plus_adaptation, plus_tables
from safedsr.paper.experiments import ABLATIONS
from safedsr.runs.collect import load_results
from safedsr.runs.labels import thousands
from safedsr.runs.metrics import iqm
from safedsr.runs.reference import Reference, read_references, reference_of
from safedsr.runs.results import Result
from safedsr.runs.storage import read_json

ROOT = Path(__file__).parent.parent
DOCS, RESULTS = ROOT / "docs", ROOT / "results"
NAMES = sorted(set(re.findall(r"`(safedsr\.[\w.]+)`", (DOCS / "paper-map.md").read_text(encoding="utf-8"))))
CODE_PAGE, PLUS_PAGE = "docs/code.md", "docs/safedsr-plus.md"


@pytest.mark.parametrize("name", NAMES)
def test_paper_map_names_exist(name):
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize(("kind", "last"), [("Eq", 17), ("Alg", 2), ("Table", 8), ("Fig", 23)])
def test_paper_map_has_everything_that_the_paper_numbers(kind, last):
    found = set()
    for first, state, *_ in rows_of((DOCS / "paper-map.md").read_text(encoding="utf-8")):
        if re.match(rf"{kind}s?\b", first):
            assert state, first
            for low, high in re.findall(r"(\d+)(?:–(\d+))?", first.partition(",")[0]):
                found |= set(range(int(low), int(high or low) + 1))
    assert found == set(range(1, last + 1))


def test_the_citation_has_the_version_of_the_package():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert version and f"\nversion: {version[1]}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_workflow_for_forks_runs_the_commands_of_ci():
    """Each line of .ci/run that makes something is in the workflow, which has them with its own Python."""
    commands = re.findall(r"^make \S+", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert commands and not [command for command in commands if f"- run: {command} PYTHON=python" not in workflow]


def test_the_readme_names_the_command_of_the_demonstration_and_that_of_the_tests():
    checks, shown = ((ROOT / path).read_text(encoding="utf-8").splitlines() for path in (".ci/run", "README.md"))
    for command in ("make demo", "make test"):
        assert command in checks and any(re.match(rf"    {command}\s+#", line) for line in shown)


def test_diagrams_name_what_their_modules_have():
    text = (DOCS / "diagrams.md").read_text(encoding="utf-8")
    found = re.findall(r"((?:`\w+`[\w ,]*?)+),? in \[\w+\.py\]\(([^)]+)\)", text)
    assert len(found) > 15
    for names, target in found:
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"def {name}\b|\b{name}=", (DOCS / target).read_text(encoding="utf-8")), (
                f"{name} in {target}"
            )


def test_links_between_documents_lead_somewhere():
    root = DOCS.parent
    for page in [root / "README.md", root / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}.*?$(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    assert found, f"{page} has no section '{heading}'"
    return found[1]


def defined_in(path: Path) -> set[str]:
    """The names that a module defines at its top."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_where_things_are_is_where_they_are():
    """Each path as it is shown, each link, and each name in the file that it is said to be in."""
    text = section(CODE_PAGE, "Where things are") + section(CODE_PAGE, "Layers")
    links = re.findall(r"\[`?([^]`]+)`?\]\(([^)]+)\)", text)
    assert len(links) > 20
    for shown, target in links:
        assert (DOCS / target).exists(), target
        assert target in (shown, f"../src/safedsr/{shown}") or f"[{shown}](" in text, f"{shown} leads to {target}"
    named = re.findall(r"`(\w+)` in \[`?[^]]+\]\(([^)]+)\)", text)
    assert {name for name, _ in named} >= {"land", "BASELINES", "safe"}
    for name, target in named:
        assert name in defined_in(DOCS / target), f"{name} in {target}"
    ((parts, target),) = re.findall(r"((?:`\w+`(?:, | and |: ))+)\[`[^`]+`\]\(([^)]+)\)", text)
    for name in re.findall(r"`(\w+)`", parts):
        assert name in defined_in(DOCS / target) or name in Environment.__annotations__, f"{name} in {target}"


class Cell(NamedTuple):
    """A cell of a table, and the numbers that it should have."""

    where: str
    text: str
    values: tuple[float, ...]

    def numbers(self) -> list[str]:
        """The numbers in it, as they are written: 13 686, −0.5."""
        plain = self.text.replace("*", "")
        return re.findall(r"−?\d{1,3}(?: \d{3})+|−?\d+(?:\.\d+)?", plain)

    def wrong(self) -> Iterator[str]:
        """Numbers that are not the value, rounded to the digits shown. Halves may go either way here."""
        numbers = self.numbers()
        if len(numbers) != len(self.values):
            yield f"{self.where}: '{self.text}' should have {len(self.values)} numbers"
        for number, value in zip(numbers, self.values, strict=False):
            unit = 10.0 ** -len(number.partition(".")[2])
            if abs(float(number.replace(" ", "").replace("−", "-")) - value) > unit / 2 + 1e-6:
                yield f"{self.where}: {number} should be {value:.4f}"

    def halves_down(self) -> Iterator[str]:
        """Counts that lie between two numbers and are not rounded up, as tables of ours do."""
        for number, value in zip(self.numbers(), self.values, strict=False):
            up = thousands(value).replace("\N{NARROW NO-BREAK SPACE}", " ")
            if value % 1 == 0.5 and "." not in number and number != up:
                yield f"{self.where}: {number} should be {up}"


def rows_of(text: str) -> list[list[str]]:
    """The cells of the tables in a text, line by line, heads included."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.fullmatch(r"[|\- ]+", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def published() -> dict[tuple[str, str, tuple[str, ...]], Result]:
    """Results by folder, map and costs."""
    found = load_results([RESULTS / "baselines", RESULTS / "plus"])
    return {(result.path.name, result.layout, result.costs): result for result in found}


def counted(folder: str, layout: str, *costs: str) -> tuple[float, float]:
    """IQM of goals and of safe goals."""
    found = published()[folder, layout, costs].counts
    return float(iqm(found["goal count"])), float(iqm(found["safe goal count"]))


def safe_and_least(folder: str, layout: str, *costs: str) -> tuple[float, float]:
    """IQM of safe goals, and the least of all seeds."""
    found = published()[folder, layout, costs].counts["safe goal count"]
    return float(iqm(found)), float(found.min())


def oracle(folder: str, layout: str, *costs: str) -> Reference:
    """The oracle that accounts for random actions."""
    found = reference_of(published()[folder, layout, costs], read_references(RESULTS / "plus"), plus_tables.ORACLE)
    assert found
    return found


Numbers = Callable[[str], tuple[float, ...]]  # of a map


def test_pages_show_what_the_published_data_say(capsys):
    assert docs_tables.main(["--check"]) == 0, capsys.readouterr().out


@pytest.fixture
def page(tmp_path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(f"Safe goals: {PLACE}1 234<!-- end --> of PDO.\n", encoding="utf-8")
    return path


PLACE = "<!-- = safe-goals pdo one-room diamond -->"


def test_a_number_that_differs_from_the_data_is_named_and_left_alone_by_a_check(page, capsys):
    before = page.read_text(encoding="utf-8")
    assert docs_tables.main(["--check", str(page)]) == 1
    told = capsys.readouterr().out
    assert all(word in told for word in (str(page), "safe-goals pdo one-room diamond", "1 234", "9 744"))
    assert page.read_text(encoding="utf-8") == before


def test_a_page_is_rewritten_and_nothing_else_in_it_changes(page):
    assert docs_tables.main([str(page)]) == 0
    assert page.read_text(encoding="utf-8") == f"Safe goals: {PLACE}9 744<!-- end --> of PDO.\n"
    assert docs_tables.main(["--check", str(page)]) == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("It is <!-- = goal pdo -->1<!-- end -->.", "no text has the name 'goal'"),
        ("It is <!-- = goals pdo one-room -->1<!-- end -->.", "cannot be made"),
        ("It is <!-- = goals pdo nowhere none -->1<!-- end -->.", "cannot be made"),
        ("It is <!-- = goals pdo one-room none -->1.", "without its '<!-- end -->'"),
        ("- <!-- = goals pdo one-room none -->1<!-- end --> goals", "begins a line"),
    ],
)
def test_a_place_that_cannot_be_filled_is_refused(page, capsys, text, told):
    page.write_text(text, encoding="utf-8")
    assert docs_tables.main([str(page)]) == 2
    assert told in capsys.readouterr().err and page.read_text(encoding="utf-8") == text


def test_numbers_on_pages_are_rounded_half_up():
    assert [formats.count(x) for x in (0.5, 4294.5, 13_686.3)] == ["1", "4 295", "13 686"]
    assert [formats.fixed(x, 2) for x in (0.125, 0.495, -0.004, -1.005)] == ["0.13", "0.50", "0.00", "−1.01"]
    assert [formats.change(x) for x in (0.64, 1.02, 1.001)] == ["−36 %", "+2 %", "0 %"]
    assert [formats.factor(x) for x in (0.857, 1.46, 11.39, 1910.75)] == ["0.86", "1.5", "11", "1 911"]


def test_the_readme_is_about_the_seeds_that_it_names():
    for (folder, layout, costs), result in published().items():
        if folder in ("safedqn", "safedsr-absorb", "safedsr-cut", *BASELINES) and costs in (("none",), ("diamond",)):
            assert result.seeds == tuple(range(10)), (folder, layout)
        if folder == "safedsr-cut-three-rooms":
            assert result.seeds == tuple(range(10, 60)), layout
    assert {int(row["seed"]) for row in sources.rows("plus-fresh/training.csv")} == set(range(20, 30))


def test_the_oracle_without_random_actions_of_the_page_on_safedsr_plus_is_the_stored_one():
    (row,) = [row for row in rows_of(section(PLUS_PAGE, "Results")) if row[0].startswith("oracle that reckons")]
    right = [page_data.TEXTS["oracle-safe-goals"](layout, "diamond") for layout in ROOM_NAMES]
    assert [Cell("", text, ()).numbers()[1] for text in row[1:]] == right


PLUS = "safedsr-plus"
WANTED = {"diamond": (12_000, 6_000, 3_200), "none": (22_000, 11_000, 7_000)}  # set before the runs were made
OTHER_COSTS = {
    "square": (PLUS, ("square",)),
    "small-diamond": (PLUS, ("small-diamond",)),
    "inverse-diamond": (PLUS, ("inverse-diamond",)),
    "diamond and square at once, budgets 5 and 10": (f"{PLUS}-two-costs", ("diamond", "square")),
    "diamond, budget 2": (f"{PLUS}-tight", ("diamond",)),
}


def final_rates(layout: str) -> tuple[float, float]:
    """The safe goal rate at the end: mean over seeds, and the least."""
    rates = plus_tables.final_rate(published()[PLUS, layout, ("diamond",)])
    return float(rates.mean()), float(rates.min())


PLUS_ROWS: list[tuple[str, Numbers]] = [
    ("SafeDSR-plus, diamond: safe goals", lambda layout: safe_and_least(PLUS, layout, "diamond")),
    ("wanted", lambda layout: (WANTED["diamond"][ROOM_NAMES.index(layout)],)),
    # of the other oracle nothing is stored: see above
    ("oracle that reckons with ε", lambda layout: (oracle(PLUS, layout, "diamond").safe_goal_count,)),
    (
        "the paper's agent / with an absorbing goal",
        lambda layout: tuple(counted(f"safedsr-{name}", layout, "diamond")[1] for name in ("cut", "absorb")),
    ),
    ("SafeDQN", lambda layout: counted("safedqn", layout, "diamond")[1:]),
    ("safe goal rate over the last 20 000 steps (least)", final_rates),
    ("– oracle that reckons with ε", lambda layout: (oracle(PLUS, layout, "diamond").exploring.safe_goal_rate,)),
    ("SafeDSR-plus, no costs: goals", lambda layout: safe_and_least(PLUS, layout, "none")),
    ("wanted", lambda layout: (WANTED["none"][ROOM_NAMES.index(layout)],)),
    ("– oracle", lambda layout: (oracle(PLUS, layout, "none").safe_goal_count,)),
]


def plus_cells() -> Iterator[Cell]:
    """Of every table whose numbers are in results/plus."""
    lines = rows_of(section(PLUS_PAGE, "Results"))[1:]
    for (label, numbers), (shown, *cells) in zip(PLUS_ROWS, lines[: len(PLUS_ROWS)], strict=True):
        assert shown.replace("*", "").partition(" / that does not")[0] == label
        for layout, text in zip(ROOM_NAMES, cells, strict=True):
            text = text.partition("/")[0] if "that does not" in shown else text
            yield Cell(f"{label}, {layout}", text, numbers(layout))
    others = lines[len(PLUS_ROWS) + 1 :]
    assert [label for label, *_ in others] == list(OTHER_COSTS)
    for label, *cells in others:
        folder, costs = OTHER_COSTS[label]
        for layout, text in zip(ROOM_NAMES, cells, strict=True):
            values = *safe_and_least(folder, layout, *costs), oracle(folder, layout, *costs).safe_goal_count
            yield Cell(f"{label}, {layout}", text, values)
    taken = rows_of(section(PLUS_PAGE, "Without one part at a time"))[1:]
    assert {name for label, *_ in taken for name in re.findall(r"`(.+)`", label)} == set(ABLATIONS)
    for label, *cells in taken:
        folder = "-".join([PLUS, *re.findall(r"`(.+)`", label)])
        for layout, text in zip(ROOM_NAMES, cells, strict=True):
            yield Cell(f"{label}, {layout}", text, safe_and_least(folder, layout, "diamond"))


def test_the_tables_of_the_page_on_safedsr_plus_are_those_of_the_published_runs():
    found = list(plus_cells())
    assert len(found) == 3 * (len(PLUS_ROWS) + len(OTHER_COSTS) + 1 + len(ABLATIONS))
    assert not [wrong for cell in found for wrong in cell.wrong()]


@pytest.mark.parametrize("layout", ROOM_NAMES)
def test_every_published_seed_of_safedsr_plus_reaches_what_was_wanted(layout):
    for costs, wanted in WANTED.items():
        assert safe_and_least(PLUS, layout, costs)[1] > wanted[ROOM_NAMES.index(layout)]
    assert final_rates(layout)[1] > 0.9


def test_the_adaptation_table_of_the_page_on_safedsr_plus_is_that_of_the_published_agents():
    folder = RESULTS / "plus" / plus_adaptation.FOLDER
    rates = {costs: row["safe_goal_rate"] for costs, row in read_json(folder / "oracle.json").items()}
    ours = plus_adaptation.adaptation_table(folder / PLUS, rates).rows
    shown = [[cell.replace("*", "") for cell in row] for row in rows_of(section(PLUS_PAGE, "Adaptation"))[1:]]
    for (costs, r2, nothing, refit, lam, memory, oracles, seconds), row in zip(shown, ours, strict=True):
        assert row[:3] == (costs, "10", r2) and (lam, memory, seconds) == (row[5], row[6], row[8])
        assert [cell.partition(" ")[0] for cell in row[3:5]] == [nothing, refit]
        stronger = oracle(PLUS, "two-rooms", costs).exploring.safe_goal_rate
        assert oracles == f"{row[7]} / {stronger:.3f}"


def test_counts_between_two_numbers_are_rounded_up_on_the_page_on_safedsr_plus():
    assert not [wrong for cell in plus_cells() for wrong in cell.halves_down()]
