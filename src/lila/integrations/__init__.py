"""Adapters to other people's libraries."""
