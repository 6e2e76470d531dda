"""From the options of a submit to a running script."""
