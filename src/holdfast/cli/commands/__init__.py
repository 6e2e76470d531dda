"""The commands, one module per group; each function runs one command."""
