"""HTML pages that commands write to a file."""
