"""Reading what scripts logged."""
