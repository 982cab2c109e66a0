"""How trainings and episodes are run: compiled programs over seeds and environments, the training loop, evaluation."""
