"""The on-policy baselines: one rollout, one pair of critics, one toolkit, and a table with a row an algorithm."""
