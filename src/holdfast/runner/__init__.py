"""The one program that goes to every target: standard library only, Python 3.6 and newer.

It imports nothing of Holdfast outside this folder, because on a target there is nothing else. Paths are bytes
throughout: what came as JSON text is turned into bytes here, so that no locale can lose a name.
"""
