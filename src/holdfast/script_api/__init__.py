"""What a training script imports to log values: standard library only, no cost outside a run."""
