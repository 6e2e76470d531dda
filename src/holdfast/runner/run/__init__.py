"""One run on a target: start, supervise, control, end."""
