"""Environments: the type `Environment`, and the environments of this library."""
