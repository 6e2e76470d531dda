"""Files of the store on a target: objects, run files, locks."""
