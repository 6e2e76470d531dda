"""A script run by an interpreter of the target or of an environment, or another program."""

from __future__ import annotations

from holdfast.ports import PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.ports import RuntimeParts


class PythonRuntime:
    def __init__(self, parts: RuntimeParts) -> None:
        self._interpreter = parts.python

    def argv(self, script: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return (self._interpreter, f"./{script}" if script.startswith("-") else script, *arguments)

    def command(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return (self._interpreter, *argv[1:]) if argv[0] == PYTHON else argv
