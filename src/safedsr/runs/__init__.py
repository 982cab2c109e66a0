"""Run folders: what a training writes, and everything that is read from them."""
