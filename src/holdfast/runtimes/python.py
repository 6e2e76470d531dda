"""A script run by an interpreter of the target."""

from __future__ import annotations


class PythonRuntime:
    def __init__(self, interpreter: str) -> None:
        self._interpreter = interpreter

    def argv(self, script: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return (self._interpreter, f"./{script}" if script.startswith("-") else script, *arguments)
