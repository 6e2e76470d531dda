"""What the command line of a script looks like."""
