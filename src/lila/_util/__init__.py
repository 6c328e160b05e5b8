"""Helpers that know nothing of the method."""
