"""The paper as data: its printed tables, its experiments, and the command that runs them."""
