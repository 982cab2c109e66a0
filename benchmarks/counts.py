"""Do two versions learn the same? Goals without costs and safe goals with them, and how likely such a difference is.

    python benchmarks/counts.py results/timed --beside results/baselines/{safedsr-cut,safedqn,pdo,p3o,*po*}

Runs of the same algorithm in the same environment are compared, whatever their settings: give those that should agree.
Runs of the same seeds begin alike, which makes a small p rarer than one in twenty.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import mannwhitneyu

from safedsr.errors import UserError
from safedsr.runs.collect import find_runs, load_results
from safedsr.runs.metrics import iqm
from safedsr.runs.results import Result

UNLIKELY = 0.05


@dataclass(frozen=True)
class Pair:
    """One environment's counts in two runs."""

    folder: Path
    environment: str
    now: np.ndarray  # [S]
    then: np.ndarray

    @cached_property
    def chance(self) -> float:
        """Of a difference at least as large if both were the same (Mann-Whitney, both sides)."""
        return float(mannwhitneyu(self.now, self.then).pvalue)


def counts(result: Result) -> np.ndarray:
    """What the paper counts: safe goals, which are all goals where nothing costs anything."""
    return result.counts["safe goal count"]


def pairs(now: list[Path], then: list[Path], remarks: list[str]) -> Iterator[Pair]:
    """What both have, folder by folder."""
    known: dict[tuple[str, str], Result] = {}
    for result in load_results(then, remarks):
        if other := known.get((result.algorithm, result.environment)):
            both = f"{other.path} and {result.path} both have {result.algorithm} in {result.environment}"
            raise UserError(f"{both}; give one of them after --beside")
        known[result.algorithm, result.environment] = result
    for folder in find_runs(now, remarks):
        for result in load_results([folder], remarks):
            if other := known.get((result.algorithm, result.environment)):
                yield Pair(folder, result.environment, counts(result), counts(other))
            else:
                remarks.append(f"left out: nothing to compare {folder} in {result.environment} with")


def main() -> None:
    """One row a run folder and environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("now", nargs="+", type=Path, help="run folders, or folders of them")
    parser.add_argument("--beside", nargs="+", type=Path, required=True, help="those to compare with")
    args = parser.parse_args()
    remarks: list[str] = []
    try:
        found = list(pairs(args.now, args.beside, remarks))
    except UserError as error:
        parser.error(str(error))
    for remark in remarks:
        print(remark, file=sys.stderr)
    if not found:
        parser.error("the two have no algorithm and environment in common")
    table = Table("run folder", "environment", "then, IQM", "now, IQM", "p")
    for pair in found:
        middles = (f"{float(iqm(x)):,.0f}" for x in (pair.then, pair.now))
        table.add_row(
            pair.folder.name, pair.environment, *middles, f"{pair.chance:.2f}{' !' * (pair.chance < UNLIKELY)}"
        )
    Console().print(table)
    print(f"{sum(pair.chance < UNLIKELY for pair in found)} of {len(found)} below {UNLIKELY}")


if __name__ == "__main__":
    main()
