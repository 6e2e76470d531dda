"""The table of commands, as data."""
