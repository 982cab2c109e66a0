"""Tables that compare run folders with the paper, and the files of a report."""
