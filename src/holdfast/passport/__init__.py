"""A run as one signed file, for somebody who has neither the store nor a reason to believe us."""
