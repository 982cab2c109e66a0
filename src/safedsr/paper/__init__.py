"""The paper as data: its tables of results and its experiments, with the code that runs them."""
