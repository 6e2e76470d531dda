"""Files of a project that pages show and change: their text, and forms for those with a known shape."""
