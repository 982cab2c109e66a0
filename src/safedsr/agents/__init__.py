"""The algorithms, one folder for each family with its settings, and the registry of their names."""
