"""Types and samples of the inputs of a web service."""
