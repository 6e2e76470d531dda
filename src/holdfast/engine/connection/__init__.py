"""The connection to a target: the runner bundle, streams, deadlines, reconnecting."""
