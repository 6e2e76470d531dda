"""Data sets on this machine: kept by content, verified, held by runs."""
