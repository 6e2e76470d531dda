"""Solves, installs and verifies environments; a separate program.

A program for a Python that has uv and py-rattler beside it, started as ``python -I .../builder/__main__.py``. It
imports nothing of Holdfast, for it also runs where Holdfast is not installed. One JSON request comes on stdin; JSON
lines go to stdout: any number of ``{"event": "progress", ...}``, then one ``{"event": "done", ...}`` or
``{"event": "failed", "kind": ..., "what": ..., "where": ..., "hint": ..., "tail": [...]}``.
"""
