"""Code that SafeDQN, SafeDSR and SafeDSR-plus share."""
