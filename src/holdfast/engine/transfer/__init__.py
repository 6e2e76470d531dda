"""Runs, images and reports on their way in and out."""
