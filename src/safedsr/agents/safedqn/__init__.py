"""SafeDQN (Alg. 1)."""
