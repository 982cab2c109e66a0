"""The paper's continuous grid world: maps, text files, physics, its Gymnasium face and the oracle."""
