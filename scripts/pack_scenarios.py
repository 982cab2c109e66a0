"""A small copy of results of the benchmark of changing constraints, and its figures for the docs.

python scripts/pack_scenarios.py FOLDER… --out results/changing-v1 --figures docs/images/results
"""

import argparse
from pathlib import Path

from safedsr.figures.scenarios import draw_all
from safedsr.runs.storage import write_text
from safedsr.scenario.results import pack, read_results
from safedsr.scenario.target import report_text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figures", type=Path, help="draw the figures there")
    args = parser.parse_args()
    results = read_results(*args.folders)
    print(pack(results, args.out))
    write_text(args.out / "table.md", report_text(results))
    if args.figures:
        args.figures.mkdir(parents=True, exist_ok=True)
        for path in draw_all(results, args.figures):
            path.with_suffix(".pdf").unlink()  # pages show the PNG
            print(path)


if __name__ == "__main__":
    main()
