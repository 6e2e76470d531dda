"""Web services of the original, of which only the schema of inputs is written."""
