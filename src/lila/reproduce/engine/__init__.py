"""What an experiment is, how its jobs are run, and what it leaves."""
