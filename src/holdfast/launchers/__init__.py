"""What starts the runner on a target."""
