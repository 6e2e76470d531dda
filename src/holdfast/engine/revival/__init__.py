"""Old projects: what in them no longer works, what replaces it, and whether their scripts run."""
