"""A run as one signed file that can be verified without the store."""
