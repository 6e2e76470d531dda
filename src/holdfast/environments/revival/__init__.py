"""Packages of old projects: what replaces them, for which scripts, and with which GPU they work."""
