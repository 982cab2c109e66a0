"""Run folders: how training writes them, and how results and policies are read from them."""
