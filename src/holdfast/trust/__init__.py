"""What a project may decide, what this user has confirmed, and who owns a file."""
