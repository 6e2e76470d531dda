"""Metrics from what a script prints, on request (``--scalars``): lines like ``loss: 0.23`` or ``step=10 acc=0.9``.

Each ``name: number`` or ``name=number`` of a line is a value. A number without a point under one of the names in STEPS
is the step of the other values in its line and of the lines that follow; without any, the values of a name are counted.
A word like ``Train`` or ``val`` before a name belongs to it. A name with two values in one line has none of them.
A line of a file (``train.py:45``) and a port of a host (``localhost:6006``) are no values, nor are the numbers in a
warning of Python's and in the message of a built-in exception.
"""

import builtins
import os
import re

from .. import untrusted
from ..decoding import readable

MYPY = False
if MYPY:
    from re import Match
    from typing import Any

STEPS = ("step", "global_step", "iteration", "iter", "epoch")  # the first one that a line has counts
_PAIR = re.compile(
    r"""
    (?:^|(?<=[\s,;|(\[{]))
    (?:(?P<part>train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?|eval(?:uation)?|dev)[ \t]+)?
    (?P<quote>['"]?) (?P<name>[A-Za-z_][\w./@-]{0,99}) (?P=quote) [ \t]*[:=][ \t]*
    (?:(?:tensor|(?:np\.|numpy\.)?(?:float|int)\d*)\()?  # tensor(0.25, device='cuda:0'), np.float64(0.25)
    (?P<number>[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf))
    (?:%(?!\||[ \t]+\d+/\d+[ \t]*\[))?  # not the percentage of a progress bar
    (?=$|[\s;|)\]}]|,(?!\d))  # a comma before a digit is part of a number that is not understood
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PLACE = re.compile(
    r"""
    .*\.(?:py[xi]?|ipynb|c|cc|cpp|cxx|cu|cuh|h|hh|hpp|inl|rs|go|js|ts|java|kt|swift|jl|lua|rb|pl|sh|R|scala):\d+$
    |(?:localhost|[\w-]+(?:\.[\w-]+)*\.(?:local|lan|internal|com|org|net|io|edu|gov)|[\w.-]*\.cluster\.local):\d{2,5}$
    |\S*@\S+\.\S+:\d+$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LOGGING = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]*:")  # the default format of logging
_WARNING = re.compile(r"^\S.{0,500}:\d+: \w{0,100}Warning: ")
_SOURCE = re.compile(rb"  \S")  # a warning ends with the line of its source, which is indented by two spaces
_WARNING_LINES = 12  # of a warning whose source cannot be read
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LONGEST = 4096  # bytes of a line; the rest is not looked at
_LONGEST_STEP = 18  # digits; more do not fit into 64 bits
_MOST_NAMES = 500


def numbers_in(line: "bytes") -> "list[tuple[str, float]]":
    """The names and numbers that a line of a log prints, in their order."""
    if b":" not in line and b"=" not in line:
        return []
    text = _LOGGING.sub("", _text(line))
    if _WARNING.match(text):
        return []
    return [(_name(pair), _number(pair.group("number"))) for pair in _PAIR.finditer(text) if _is_value(pair)]


def _text(line: "bytes") -> "str":
    if len(line) > _LONGEST:
        line = b"".join(line[:_LONGEST].rsplit(None, 1)[:-1])  # the last word may be half a number
    return _ESCAPE.sub("", readable(line))


def _is_value(pair: "Match[str]") -> "bool":
    named = getattr(builtins, pair.group("name"), None)
    is_exception = isinstance(named, type) and issubclass(named, BaseException)  # KeyError: 5
    return not is_exception and not _is_place(pair)


def _is_place(pair: "Match[str]") -> "bool":
    """Whether it is a place in a source file or the address of a server: nothing is between name, colon and digits."""
    joined = "%s:%s" % (pair.group("name"), pair.group("number"))
    return joined in pair.group() and _PLACE.match(joined) is not None


def _name(pair: "Match[str]") -> "str":
    name = pair.group("name").rstrip("./-")
    return "%s_%s" % (pair.group("part"), name) if pair.group("part") else name


def _number(text: "str") -> "float":
    """An int where the text has neither a point nor an exponent: only such a number can be a step."""
    digits = text.replace(",", "")
    is_whole = untrusted.whole_number(digits.lstrip("+-"), _LONGEST_STEP) is not None
    return int(digits) if is_whole else float(digits)


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
        self._warning_left = 0  # lines that may still belong to a warning

    def feed(self, block: "bytes") -> "None":
        """Take more output; an empty block is its end."""
        lines = (self._rest + block).replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()[: _LONGEST + 1]  # one more says that the line goes on
        if not block:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            if not self._is_of_warning(line):
                self._take(line)

    def _is_of_warning(self, line: "bytes") -> "bool":
        """Whether it is a line of a warning. One that begins with a value is not taken for its message."""
        if b"Warning: " in line and _WARNING.match(_text(line)):
            self._warning_left = _WARNING_LINES
            return True
        if not self._warning_left:
            return False
        self._warning_left = 0 if _SOURCE.match(line) else self._warning_left - 1
        return _PAIR.match(_text(line)) is None

    def _take(self, line: "bytes") -> "None":
        pairs = numbers_in(line)
        numbers = dict(pairs)
        for name, value in pairs:
            if name in numbers and str(numbers[name]) != str(value):
                del numbers[name]
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
