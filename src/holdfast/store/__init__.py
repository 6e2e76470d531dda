"""The store on this machine: run folders, index, locks, trash."""
