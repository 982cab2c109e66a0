"""Training and evaluation: the compiled program over seeds and tasks, the training loop, simulated episodes."""
