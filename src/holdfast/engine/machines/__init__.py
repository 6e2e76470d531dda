"""What can be done with machines: attach, check, clean, inspect GPUs, detach."""
