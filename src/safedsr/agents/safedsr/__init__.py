"""SafeDSR (Alg. 2)."""
