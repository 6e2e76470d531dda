"""A folder with the runs of several stores: read, written, merged and verified."""
