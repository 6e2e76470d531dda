"""The pages of the web workbench, one module per screen; each handler answers one route."""
