"""What this user has confirmed, and who owns a file."""
