"""Helpers that do not depend on the method: files, memory, choices, processes."""
