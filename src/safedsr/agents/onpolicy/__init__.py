"""The on-policy baselines: shared rollouts, critics and policy steps, and a table with one row for each algorithm."""
