"""The command line: parsing, help, commands and their output."""
