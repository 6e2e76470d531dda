"""Metrics from what a script prints, on request (``--scalars``): lines like ``loss: 0.23`` or ``step=10 acc=0.9``.

Each ``name: number`` or ``name=number`` of a line is a value. A number without a point under one of the names in STEPS
is the step of the other values in its line and of the lines that follow; without any, the values of a name are counted.
"""

import os
import re

from ..decoding import readable

MYPY = False
if MYPY:
    from typing import Any

STEPS = ("step", "global_step", "iteration", "iter", "epoch")  # the first one that a line has counts
_PAIR = re.compile(
    r"""
    (?:^|(?<=[\s,;|(\[{]))
    (?P<quote>['"]?) (?P<name>[A-Za-z_][\w./-]{0,99}) (?P=quote) [ \t]*[:=][ \t]*
    (?:(?:tensor|(?:np\.|numpy\.)?(?:float|int)\d*)\()?  # tensor(0.25, device='cuda:0'), np.float64(0.25)
    (?P<number>[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf))
    (?:%(?!\||[ \t]+\d+/\d+[ \t]*\[))?  # not the percentage of a progress bar
    (?=$|[\s;|)\]}]|,(?!\d))  # a comma before a digit is part of a number that is not understood
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LONGEST = 4096  # bytes of a line; the rest is not looked at
_MOST_NAMES = 500


def numbers_in(line: "bytes") -> "list[tuple[str, float]]":
    """The names and numbers that a line of a log prints, in their order."""
    if b":" not in line and b"=" not in line:
        return []
    text = _ESCAPE.sub("", readable(line[:_LONGEST]))
    return [(pair.group("name").rstrip("./-"), _number(pair.group("number"))) for pair in _PAIR.finditer(text)]


def _number(text: "str") -> "float":
    """An int where the text has neither a point nor an exponent: only such a number can be a step."""
    digits = text.replace(",", "")
    return int(digits) if digits.lstrip("+-").isdigit() else float(digits)


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
            step = numbers.get(name)
            if isinstance(step, int):
                self._step = step
                del numbers[name]
                break
        known = {name: float(value) for name, value in numbers.items() if name in self._names or self._add(name)}
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
