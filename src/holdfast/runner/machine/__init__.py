"""The machine itself: facts, processes, limits, environments."""
