"""The stand-in for ``run_gpus`` on a machine without GPUs: the same methods, at no cost."""

import os

MYPY = False
if MYPY:
    from typing import Any

    from ..plan import Plan

_DRIVERS = (b"/dev/nvidiactl", b"/dev/nvidia0", b"/dev/dxg", b"/dev/nvmap")


def concerns(plan: "Plan") -> "bool":
    """Whether a run is to be watched: it asks for GPUs, or there is a driver that it may use unasked."""
    return plan.gpu is not None or any(os.path.exists(path) for path in _DRIVERS)


class NoHold:
    wants = False
    chosen = None  # type: Any
    sources = ()  # type: tuple[int, ...]

    def keep(self) -> "None":
        """Nothing is held."""

    def take(self, _events: "Any", _rest: "Any") -> "bool":
        return True

    def variables(self) -> "dict[bytes, bytes]":
        return {}

    def check(self, _events: "Any", _found: "Any") -> "None":
        """Nothing is needed."""

    def begin(self) -> "None":
        """Nothing is watched."""

    def times(self) -> "list[float]":
        return []

    def hear(self, _events: "Any") -> "None":
        """There are no messages."""

    def mind(self, _events: "Any", _now: "float") -> "str":
        return ""

    def finish(self, _events: "Any") -> "dict[str, Any]":
        return {}

    def verdict(self, _found: "dict[str, Any]", _code: "int") -> "str":
        return ""
