"""Small copies of the tables of 'safedsr reproduce transfer' and of SFT-CoP's agents, for results/transfer.

python scripts/pack_transfer.py FOLDER… --out results/transfer --figures docs/images/results

Agents that have a small table in --out already, and none in the folders, keep it, and are drawn from it.
"""

import argparse
import sys
from pathlib import Path

from safedsr.errors import UserError
from safedsr.figures.transfer import draw_all
from safedsr.transfer.summary import in_order, pack, read_courses


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figures", type=Path, help="draw the figures there")
    parser.add_argument("--tasks", type=int, help="only so many tasks, of the trials that have them")
    args = parser.parse_args()
    courses = read_courses(args.folders, args.tasks)
    if not courses:
        raise UserError(f"no agent in these folders has {args.tasks} tasks; nothing was written")
    for path in pack(courses, args.out):
        print(path)
    if args.figures:
        new = {course.agent for course in courses}
        kept = [course for course in read_courses([args.out]) if course.agent not in new]
        for path in draw_all(in_order([*courses, *kept]), args.figures):
            path.with_suffix(".pdf").unlink()  # pages show the PNG
            print(path)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
