"""Loading the results of many run folders, full or packed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.folder import read_config, read_manifest
from safedsr.runs.pack import READABLE, read_packed
from safedsr.runs.results import Result, read_run
from safedsr.runs.schema import MANIFEST, check_manifest
from safedsr.validation import typed


def load_results(paths: Sequence[str | Path], remarks: list[str] | None = None) -> list[Result]:
    """The results of run folders in and below `paths`; `remarks` receives what is missing or was left out."""
    remarks = [] if remarks is None else remarks
    return told_apart(read_results(paths, remarks), remarks)


def read_results(paths: Sequence[str | Path], remarks: list[str]) -> list[Result]:
    """The results of run folders in and below `paths`, which may have equal labels."""
    results: list[Result] = []
    for folder in find_runs(paths, remarks):
        try:
            results.extend(_read(folder, remarks))
        except (UserError, OSError) as error:
            told = str(error) if str(folder) in str(error) else f"{folder}: {error}"
            remarks.append(f"left out: {told}")
    return results


def without_copies(results: Sequence[Result], remarks: list[str]) -> list[Result]:
    """Each run once; a run may be there in full and packed."""
    kept: list[Result] = []
    for result in results:
        twins = (one for one in kept if (one.label, one.environment) == (result.label, result.environment))
        first = next((one for one in twins if _same(one, result)), None)
        if first is None:
            kept.append(result)
        else:
            remarks.append(f"{result.path} is a copy of the run in {first.path}: counted once")
    return kept


def find_runs(paths: Sequence[str | Path], remarks: list[str]) -> list[Path]:
    """The run folders in and below `paths`, each once; `remarks` receives the paths that contain none."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        inside = sorted(manifest.parent for manifest in path.rglob(MANIFEST))
        if not inside:
            what = "no manifest.json in or below it" if path.is_dir() else "no such folder"
            remarks.append(f"left out: {path} is no run folder ({what}); give a folder of 'safedsr train --out'")
        for folder in inside:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _read(folder: Path, remarks: list[str]) -> list[Result]:
    manifest = storage.read_json(folder / MANIFEST, ["format"])
    packed = manifest["format"] in READABLE
    manifest = check_manifest(manifest, folder) if packed else read_manifest(folder)
    config = read_config(folder)
    results = read_packed(folder) if packed else read_run(folder, remarks)
    remarks.extend(_shortcomings(folder, config, manifest["seeds"], results))
    return list(results.values())


def _shortcomings(
    folder: Path, config: Mapping[str, Any], seeds: list[int], results: Mapping[int, Result]
) -> Iterator[str]:
    """Seeds and steps that the configuration of a folder lists and its results lack."""
    for index, about in enumerate(config["tasks"]):
        there = results[index].seeds if index in results else ()
        if missing := [seed for seed in seeds if seed not in there]:
            name = ", ".join([about["name"], *about["costs"]])
            yield f"{folder}: no finished episode in {name} of {numbers('seed', missing)}: left out"
    planned = typed(int, config["train"].get("steps", 0), "train.steps")
    for steps in {result.steps for result in results.values()}:
        if steps < planned:
            yield f"{folder}: only {steps} of its {planned} steps are done"


def told_apart(results: list[Result], remarks: list[str]) -> list[Result]:
    """Make equal labels in an environment unique by adding seeds or folder; a run in two folders counts once."""
    taken: dict[tuple[str, str], Result] = {}
    said: dict[str, list[str]] = {}  # a remark on a folder's results -> its environments
    for result in results:
        first = taken.get((result.label, result.environment))
        if first and _same(first, result):
            said.setdefault(f"{result.path} is a copy of the run in {first.path}: counted once", []).append("")
            result = result if first.positions is None and result.positions is not None else first
        elif first:
            label = _free_label(result, first, taken)
            what = f"{result.path} has the label '{result.label}' of {first.path}: shown as '{label}'"
            said.setdefault(what, []).append(result.environment)
            result = result._replace(label=label)
        taken[result.label, result.environment] = result
    remarks.extend(what + f" in {'; '.join(where)}" * any(where) for what, where in said.items())
    return list(taken.values())


def _same(one: Result, other: Result) -> bool:
    """Whether two results come from the same run; one of them may be packed."""
    same = (one.seeds, one.steps, one.budgets) == (other.seeds, other.steps, other.budgets)
    return same and all(np.array_equal(one.counts[name], other.counts[name]) for name in one.counts)


def _free_label(result: Result, first: Result, taken: Mapping[tuple[str, str], Result]) -> str:
    words = [result.path.name, str(result.path)]
    if not set(first.seeds) & set(result.seeds):
        words.insert(0, numbers("seed", result.seeds))
    labels = (_with_word(result.label, word) for word in words)
    return next((label for label in labels if (label, result.environment) not in taken), str(result.path))


def _with_word(label: str, word: str) -> str:
    return f"{label[:-1]}, {word})" if label.endswith(")") else f"{label} ({word})"


def numbers(name: str, values: Sequence[int]) -> str:
    """Seeds as short text: consecutive seeds as a range."""
    if len(values) == 1:
        return f"{name} {values[0]}"
    if list(values) == list(range(values[0], values[-1] + 1)):
        return f"{name}s {values[0]}–{values[-1]}"
    return f"{name}s {', '.join(map(str, values))}"
