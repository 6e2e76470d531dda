"""Pictures of lines and words, as SVG or as PNG, by the standard library alone."""
