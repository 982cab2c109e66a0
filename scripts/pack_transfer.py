"""Small copies of the tables of 'safedsr reproduce transfer' and of SFT-CoP's agents, for results/transfer.

python scripts/pack_transfer.py FOLDER… --out results/transfer --figures docs/images/results
"""

import argparse
from pathlib import Path

from safedsr.figures.transfer import draw_all
from safedsr.transfer.summary import pack, read_courses


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figures", type=Path, help="draw the figures there")
    parser.add_argument("--tasks", type=int, help="only so many tasks, of the trials that have them")
    args = parser.parse_args()
    courses = read_courses(args.folders, args.tasks)
    for path in pack(courses, args.out):
        print(path)
    if args.figures:
        for path in draw_all(courses, args.figures):
            path.with_suffix(".pdf").unlink()  # pages show the PNG
            print(path)


if __name__ == "__main__":
    main()
