"""Where commands run: this machine, or a machine over SSH."""
