"""The SQLite index over the run folders: derived, and rebuilt whenever it is missing."""
