"""The algorithms, one a folder with its settings, and the registry that knows them by name."""
