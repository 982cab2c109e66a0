"""Run folders as tables: rows beside the paper's, and the files of a report."""
