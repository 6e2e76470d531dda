"""Notebooks: kernels on targets, and records of cells."""
