"""GPUs of a target: reading, reserving, watching and probing them."""
