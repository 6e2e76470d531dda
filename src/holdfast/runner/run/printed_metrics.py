"""Metrics from what a script prints, on request (``--scalars``): lines like ``loss: 0.23`` or ``step=10 acc=0.9``.

Each ``name: number`` or ``name=number`` of a line is a value. A whole number under one of the names in STEPS is the
step of the other values in its line and of the lines that follow; without any, the values of a name are counted.
"""

import os
import re

from ..decoding import readable

MYPY = False
if MYPY:
    from typing import Any

STEPS = ("step", "global_step", "iteration", "iter", "epoch")  # the first one that a line has counts
_PAIR = re.compile(
    r"(?:^|(?<=[\s,;|([{]))([A-Za-z_][\w./-]{0,99})[ \t]*[:=][ \t]*"
    r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf))%?(?=$|[\s,;|)\]}])",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LONGEST = 4096  # bytes of a line; the rest is not looked at
_MOST_NAMES = 500


def numbers_in(line: "bytes") -> "list[tuple[str, float]]":
    """The names and numbers that a line of a log prints, in their order."""
    if b":" not in line and b"=" not in line:
        return []
    text = _ESCAPE.sub("", readable(line[:_LONGEST]))
    return [(name.rstrip("./-"), float(number)) for name, number in _PAIR.findall(text)]


class PrintedMetrics:
    """Takes a script's output block by block and writes its numbers as the script's own ``holdfast.log`` would."""

    def __init__(self, folder: "bytes", site: "bytes") -> "None":
        """``folder`` is where the metrics of the run are, ``site`` the folder with the module that scripts import."""
        self._folder = folder
        self._site = site
        self._rest = b""
        self._step = None  # type: int | None
        self._names = set()  # type: set[str]
        self._writer = None  # type: Any

    def feed(self, block: "bytes") -> "None":
        """Take more output; an empty block is its end."""
        lines = (self._rest + block).replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()[-_LONGEST:]
        if not block:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._take(line)

    def _take(self, line: "bytes") -> "None":
        numbers = dict(numbers_in(line))
        for name in STEPS:
            if numbers.get(name, 0.5) % 1 == 0:
                self._step = int(numbers.pop(name))
                break
        known = {name: value for name, value in numbers.items() if name in self._names or self._add(name)}
        if known:
            self._open().write(tuple(known.items()), self._step)

    def _add(self, name: "str") -> "bool":
        if len(self._names) >= _MOST_NAMES:
            return False
        self._names.add(name)
        return True

    def _open(self) -> "Any":
        if self._writer is None:
            track = _load("_holdfast_track", os.path.join(self._site, b"holdfast.py"))
            track._values = _load("_holdfast_values", os.path.join(self._site, b"_holdfast_values.py"))
            self._writer = track._Writer(os.fsdecode(self._folder))
        return self._writer


def _load(name: "str", path: "bytes") -> "Any":
    from importlib import util

    spec = util.spec_from_file_location(name, os.fsdecode(path))
    assert spec is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module
