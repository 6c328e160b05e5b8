"""Data: what the passes read examples from."""
