"""What SafeDQN, SafeDSR and SafeDSR-plus share."""
