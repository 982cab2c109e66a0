"""What the documents say: names, links and paths lead somewhere, numbers are those of results/ and of the paper."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import docs_tables
import numpy as np
import pytest
from page_data import formats, plus, readings

import safedsr
from safedsr.agents.onpolicy.baselines import BASELINES
from safedsr.cli import main
from safedsr.envs.environment import Environment
from safedsr.paper import plus_tables
from safedsr.paper.experiments import EXPERIMENTS, WHOLE
from safedsr.runs.collect import load_results
from safedsr.runs.metrics import iqm
from safedsr.runs.reference import read_references, reference_of
from safedsr.runs.results import Result

ROOT = Path(__file__).parent.parent
DOCS, RESULTS = ROOT / "docs", ROOT / "results"
NAMES = sorted(set(re.findall(r"`(safedsr\.[\w.]+)`", (DOCS / "paper-map.md").read_text(encoding="utf-8"))))
CODE_PAGE = "docs/code.md"


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


def rows_of(text: str) -> list[list[str]]:
    """The cells of the tables in a text, line by line, heads included."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.fullmatch(r"[|\- ]+", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def published() -> dict[tuple[str, str, tuple[str, ...]], Result]:
    """Results by folder, map and costs."""
    found = load_results([RESULTS / "baselines", RESULTS / "plus"])
    return {(result.path.name, result.layout, result.costs): result for result in found}


def test_the_page_on_safedsr_plus_counts_as_the_run_folders_do():
    """Of three cells of its tables, from the data by another way than that of the page."""
    found = published()[WHOLE, "two-rooms", ("diamond",)].counts["safe goal count"]
    middle = np.sort(found)[2:8]  # the IQM of ten is about their mean, and the page has the exact one
    text = plus.plus_results()
    (row,) = [row for row in rows_of(text) if row[0] == "**diamond**"]
    shown = row[2].replace(" ", "")
    assert abs(int(shown.partition("(")[0]) - middle.mean()) < 10
    assert shown.split(";")[1] == str(int(found.min()))
    reference = reference_of(
        published()[WHOLE, "two-rooms", ("diamond",)], read_references(RESULTS / "plus"), plus_tables.ORACLE
    )
    assert reference and float(shown.split(";")[2]) == round(float(iqm(found)) / reference.safe_goal_count, 2)


def test_every_reading_has_words():
    run = {row.folder(one) for row in EXPERIMENTS["readings"] for one in row.algorithms}
    assert set(readings.CHANGES) == {*readings.PUBLISHED, *(one for one in run if not one.endswith(readings.FRESH))}


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
    groups = {row.folder(one): row for row in EXPERIMENTS["plus"] for one in row.algorithms}
    for (folder, layout, costs), result in published().items():
        if folder in ("safedqn", "safedsr-absorb", "safedsr-cut", *BASELINES) and costs in (("none",), ("diamond",)):
            assert result.seeds == tuple(range(10)), (folder, layout)
        if folder == "safedsr-cut-three-rooms":
            assert result.seeds == tuple(range(10, 60)), layout
        if folder.startswith("safedsr-plus"):
            row = groups[folder]
            assert result.seeds == tuple(range(row.first_seed, row.first_seed + row.seeds)), (folder, layout)
    assert (groups[WHOLE].first_seed, groups[WHOLE].seeds) == (70, 10)


COMMAND = re.compile(r"(?:^|[\s`;&|])safedsr ([a-z-]+)((?: [^`|#;&\n]*)?)")
WITH_OWN_FLAGS = ("train", "reproduce", "scenario")  # their next word chooses the flags


def documented_flags() -> dict[tuple[str, ...], set[str]]:
    """The flags of every command on a page: (train, safedqn) → {--layout, …}."""
    found: dict[tuple[str, ...], set[str]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        blocks = [line for line in text.splitlines() if line.startswith("    ")]
        for line in [*blocks, *re.findall(r"`[^`\n]+`", text)]:
            for name, rest in COMMAND.findall(line):
                second = re.match(r" ([a-z][a-z0-9-]*)(?= |$)", rest)
                if name not in WITH_OWN_FLAGS or second:  # else ALGORITHM stands there
                    words = (name, second[1]) if name in WITH_OWN_FLAGS and second else (name,)
                    found.setdefault(words, set()).update(re.findall(r"(?<= )--[a-z][a-z-]*", rest))
    return {words: flags - {"--help"} for words, flags in found.items() if flags - {"--help"}}


def test_every_flag_on_a_page_exists(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    documented = documented_flags()
    assert len(documented) > 20 and "--costs" in documented["adapt",]
    for words, flags in documented.items():
        assert main([*words, "--help"]) == 0, words
        shown = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
        assert flags <= shown, (words, flags - shown)


def test_every_exported_name_is_on_an_api_page():
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    assert not [name for name in safedsr.__all__ if not re.search(rf"\b{name}\b", text)]
