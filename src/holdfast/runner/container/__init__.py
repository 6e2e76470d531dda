"""The script in a container: command line, engines, images, monitor, first process."""
