"""A benchmark of changing constraints: scenarios as files, contestants, metrics (docs/benchmark.md).

`file` reads scenarios, `course` makes their environments and tasks, `sets` generates the set changing-v1. `learners`,
`adaptive`, `oracles` and `guests` are the contestants; `contestants` names them, `run` runs them, `results` judges.
"""
