"""The web workbench: `holdfast ui` serves the history to a browser on this machine."""
