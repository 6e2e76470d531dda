"""What can be done with runs that exist."""
