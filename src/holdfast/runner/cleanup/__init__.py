"""Freeing disk space on a target."""
