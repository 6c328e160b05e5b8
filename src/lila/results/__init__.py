"""What a person gets from a run: plots, a report, exported code."""
