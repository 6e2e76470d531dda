"""The program that runs on every target: standard library only, Python 3.6 and newer.

It imports nothing of Holdfast outside this folder, because nothing else is installed on a target. Paths are bytes:
JSON text is converted to bytes here, so that names survive in any locale.
"""
