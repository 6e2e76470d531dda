"""Windows into a log of any size: lines at a byte or a line number, and a search through all of it.

Nothing is indexed beforehand. Files are read in blocks, so that a log of a gigabyte holds no other answer up.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_left
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from holdfast.present.terminal import EscapeFilter
from holdfast.runner.decoding import readable

if TYPE_CHECKING:
    from io import FileIO
    from typing import BinaryIO

_BLOCK = 4 << 20
_COUNTED = 1 << 18
_MOST_KNOWN = 8
_known: OrderedDict[tuple[int, int], array[int]] = OrderedDict()
_counting = Lock()
_LONGEST_LINE = 16_384  # bytes of a line that are shown; the text file has all of them
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_MOVES = re.compile(r"\x1b\[[0-9;:]*[ABCDGK]")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

Piece = tuple[str, str]  # class, text


class Lines(NamedTuple):
    """Lines from byte ``start`` to byte ``end`` of a log that has ``size`` bytes; ``ends_line``: the last is whole."""

    start: int
    end: int
    size: int
    lines: list[tuple[int, list[Piece]]]
    ends_line: bool = True


def at_byte(path: str, offset: int, count: int) -> Lines:
    """About ``count`` bytes of whole lines from the line that holds this byte; a negative offset is the end."""
    with open(path, "rb") as source:
        size = source.seek(0, os.SEEK_END)
        wanted = max(0, size - count) if offset < 0 else min(offset, size)
        start = _line_start(source, wanted)
        source.seek(start)
        data = source.read(max(count, wanted - start + 1) if offset >= 0 else size - start)
        if start + len(data) < size:
            whole = data.rfind(b"\n") + 1
            data = data[:whole] if whole else data
    return Lines(start, start + len(data), size, shown(data, start), data.endswith(b"\n"))


def before_byte(path: str, end: int, count: int) -> Lines:
    """The lines that end before this byte, which begins a line."""
    with open(path, "rb") as source:
        size = source.seek(0, os.SEEK_END)
        end = min(end, size)
        start = _line_start(source, max(0, end - count))
        source.seek(start)
        data = source.read(end - start)
    return Lines(start, end, size, shown(data, start))


def byte_of_line(path: str, number: int) -> int:
    """Where a line begins, the first being 1; the end of the log where it has fewer."""
    left = number - 1
    if left <= 0:
        return 0
    with open(path, "rb", buffering=0) as source:
        sums = _newlines(source, left)
        at = bisect_left(sums, left)
        source.seek(at * _COUNTED)
        block = source.read(_COUNTED)
        left -= sums[at - 1] if at else 0
        if block.count(b"\n") < left:  # only the last block can have fewer
            return at * _COUNTED + len(block)
        return at * _COUNTED + _nth(block, left) + 1


def _newlines(source: FileIO, enough: int) -> array[int]:
    """How many newlines there are up to the end of each whole block, until there are enough.

    What was counted is remembered: logs only grow.
    """
    with _counting:
        status = os.fstat(source.fileno())
        sums = _known.setdefault((status.st_dev, status.st_ino), array("Q"))
        while len(_known) > _MOST_KNOWN:
            _known.popitem(last=False)
        if len(sums) * _COUNTED > status.st_size:
            del sums[:]
        source.seek(len(sums) * _COUNTED)
        while not sums or sums[-1] < enough:
            block = source.read(_COUNTED)
            if len(block) < _COUNTED:
                break
            # Cutting a block of this size into lines takes two thirds of the time of bytes.count.
            sums.append((sums[-1] if sums else 0) + len(block.split(b"\n")) - 1)
        return sums


def search(path: str, text: str, start: int, most: int) -> tuple[list[int], int | None]:
    """Bytes of the lines that contain this text from ``start`` on, and where to continue; None at the end."""
    wanted = text.encode("utf-8", "surrogatepass")
    result: list[int] = []
    with open(path, "rb") as source:
        at = source.seek(start)
        carried = b""
        while block := source.read(_BLOCK):
            data = carried + block
            position = data.find(wanted)
            while position >= 0:
                if len(result) == most:
                    return result, result[-1] + 1
                result.append(at - len(carried) + position)
                end = data.find(b"\n", position)
                position = data.find(wanted, end) if end >= 0 else -1
            at += len(block)
            carried = data[-(len(wanted) - 1) :] if len(wanted) > 1 else b""
    return result, None


def shown(data: bytes, start: int) -> list[tuple[int, list[Piece]]]:
    """Lines with their offsets, as a terminal would show them: progress bars folded, colours as classes."""
    lines = []
    at, style = start, ""
    for line in data.split(b"\n"):
        if at - start < len(data):
            pieces, style = _pieces(line[:_LONGEST_LINE], style)
            if len(line) > _LONGEST_LINE:
                pieces.append(("faint", f" … {len(line) - _LONGEST_LINE} more bytes"))
            lines.append((at, pieces))
        at += len(line) + 1
    return lines


def _pieces(line: bytes, style: str) -> tuple[list[Piece], str]:
    filtering = EscapeFilter()
    text = readable(filtering.feed(line)) + readable(filtering.finish()).removesuffix("\x1b[0m")
    text = _folded(_MOVES.sub("", text))
    pieces, at = [], 0
    for match in _SGR.finditer(text):
        if match.start() > at:
            pieces.append((style, text[at : match.start()]))
        style, at = _style(style, match[1]), match.end()
    if at < len(text):
        pieces.append((style, text[at:]))
    return pieces, style


def _folded(text: str) -> str:
    """What is left of a line that was written over with carriage returns and backspaces."""
    parts = [part for part in text.split("\r") if part]
    text = parts[-1] if parts else ""
    while (at := text.find("\b")) >= 0:
        text = text[: max(0, at - 1)] + text[at + 1 :]
    return text


def _style(style: str, codes: str) -> str:
    chosen = set(style.split())
    for code in codes.replace(":", ";").split(";"):
        number = int(code) if code.isascii() and code.isdigit() and len(code) < 4 else 0
        if number == 0:
            chosen = set()
        elif number == 1:
            chosen.add("bold")
        elif 30 <= number <= 37 or 90 <= number <= 97:
            chosen = {name for name in chosen if not name.startswith("fg-")} | {f"fg-{_COLOURS[number % 10]}"}
        elif number == 39:
            chosen = {name for name in chosen if not name.startswith("fg-")}
    return " ".join(sorted(chosen))


def _line_start(source: BinaryIO, at: int) -> int:
    """The beginning of the line that holds this byte; not further back than a line is shown."""
    back = max(0, at - _LONGEST_LINE)
    source.seek(back)
    newline = source.read(at - back).rfind(b"\n")
    return back + newline + 1 if newline >= 0 else back


def _nth(block: bytes, count: int) -> int:
    """The position of the nth newline of a block that has as many."""
    low = 0
    step = len(block)
    while step > 4096:  # halves, by counting: much quicker than to find one after another
        step = (step + 1) // 2
        inside = block.count(b"\n", low, low + step)
        if inside < count:
            count -= inside
            low += step
    position = low - 1
    for _ in range(count):
        position = block.find(b"\n", position + 1)
    return position
