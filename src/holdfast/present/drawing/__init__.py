"""Pictures of lines and text, as SVG or, with Pillow, as PNG."""
