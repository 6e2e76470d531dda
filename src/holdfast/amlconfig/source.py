"""Decodes a file, repairs common mistakes, and chooses the YAML reader for it.

Mistakes with one obvious meaning are repaired here with a warning, so that the readers see plain YAML:
tabs, a missing space after a known key's colon, a lone ``...`` copied from the guide. Other damage (conflict markers,
binary data) is refused with its position. Repairs move columns; ``Source.at`` undoes that.
"""

from __future__ import annotations

import os

from holdfast.amlconfig.flow import Flow
from holdfast.amlconfig.nodes import Mapping, UncertainError, no_entries
from holdfast.amlconfig.plain import read_plain
from holdfast.amlconfig.types import Finding
from holdfast.runner import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TypeVar

    from holdfast.amlconfig.flow import Slips
    from holdfast.amlconfig.nodes import Node
    from holdfast.amlconfig.types import Severity

    Value = TypeVar("Value")

MAX_BYTES = 1 << 20
# Bounds the number of values, and with it the time any reader takes.
MAX_SIGNS = 20_000
LONGEST_MESSAGE = 300


class Source:
    """A file being read: its lines, its map, and what there is to say about it.

    ``root`` is ``None`` exactly when there is an error finding. ``keys`` are the top-level keys a missing
    blank is mended for, ``maps`` those whose entries are names too.
    """

    def __init__(
        self, path: str, shown: str, keys: Collection[str], maps: Collection[str] = (), *, data: bytes | None = None
    ) -> None:
        self.path = path
        self.shown = shown
        self.findings: list[Finding] = []
        self.lines: list[str] = []
        self.moved: dict[int, tuple[int, int]] = {}
        self.root: Mapping | None = None
        self.data = self._read() if data is None else data
        text = self._text()
        if text is None:
            return
        if text.count("\n") + text.count(":") + text.count(",") > MAX_SIGNS:
            self._refuse("this file is too long for a configuration file")
            return
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if not self._refuse_conflict(text):
            self._mend(keys, maps)
            self.root = self._tree()

    def warn(self, line: int, column: int, message: str, hint: str = "") -> None:
        self._find("warning", line, column, message, hint)

    def error(self, line: int, column: int, message: str, hint: str = "") -> None:
        self._find("error", line, column, message, hint)

    def result(self, value: Value) -> tuple[Value | None, list[Finding]]:
        """What a reader answers: the value unless there is an error, and the findings from top to bottom."""
        self.findings.sort(key=_place)
        failed = any(finding.severity == "error" for finding in self.findings)
        return (None if failed else value), self.findings

    def at(self, line: int, column: int) -> tuple[int, int]:
        """The position in the file of a position in the repaired text, counted from 0."""
        start, by = self.moved.get(line, (0, 0))
        return line, (column - by if column > start else column)

    def _find(self, severity: Severity, line: int, column: int, message: str, hint: str) -> None:
        line, column = self.at(line, column)
        self.findings.append(Finding(severity, self.shown, line + 1, column + 1, _printable(message), _printable(hint)))

    def _refuse(self, message: str, hint: str = "") -> None:
        self.findings.append(Finding("error", self.shown, 0, 0, message, hint))

    def _read(self) -> bytes:
        try:
            return untrusted.read_file(self.path, MAX_BYTES, _project_of(self.path, self.shown))
        except IsADirectoryError:
            self._refuse("this is a folder, not a file")
        except untrusted.Untrusted as error:
            self._refuse(*refused(error, MAX_BYTES, "for a target of all your projects: holdfast attach --user"))
        except OSError as error:
            self._refuse(f"this file cannot be read: {error.strerror}")
        return b""

    def _text(self) -> str | None:
        if self.findings:
            return None
        encoding, mark = codec(self.data)
        data = self.data[len(mark) :]
        try:
            return data.decode(encoding)
        except UnicodeDecodeError as error:
            before = data[: error.start].decode(encoding, "replace").split("\n")
            message = f"this file is not {encoding[:6].rstrip('-').upper()} text"
            self.error(len(before) - 1, len(before[-1]), message, "save the file as UTF-8")
            return None

    def _refuse_conflict(self, text: str) -> bool:
        if "<<<<<<<" not in text and ">>>>>>>" not in text:
            return False
        for number, line in enumerate(self.lines):
            if line.startswith(("<<<<<<<", ">>>>>>>")):
                self.error(number, 0, "a git conflict marker", "keep one side and delete the marker lines")
                return True
        return False

    def _mend(self, keys: Collection[str], maps: Collection[str]) -> None:
        above = ""
        for number, line in enumerate(self.lines):
            content = line.strip()
            if not content or content[0] == "#":
                self.lines[number] = "" if line.startswith("\t") else line
                continue
            if line.rstrip() == "...":
                self.lines[number] = ""
                self.warn(number, 0, "a line of three dots (in the guide: 'more lines here') is skipped", "delete it")
                continue
            if not above and content[0] in "{[":
                return
            if not above and content == "---":
                self.lines[number] = ""
                continue
            mended = self._mend_tabs(number, above) if "\t" in line else line
            if mended[0] not in " -":
                above = mended
                self._mend_colon(number, mended, keys)
            elif mended[0] == " " and above.partition(":")[0].strip("\"' ") in maps:
                self._mend_colon(number, mended, None)

    def _mend_tabs(self, number: int, above: str) -> str:
        line = self.lines[number]
        content = line.lstrip(" \t")
        indent = line[: len(line) - len(content)]
        if "\t" in indent:
            # Below an open 'key:' an indented line is its child; below anything else the tab means nothing.
            mended = indent.replace("\t", "    ") if above.rstrip().endswith(":") else ""
            self.warn(number, 0, "a tab is used as indentation", "indent with spaces")
            self.moved[number] = (-1, len(mended) - len(indent))
            indent = mended
        key, colon, rest = content.partition(":")
        if rest[:1] == "\t":
            value = rest.lstrip("\t ")
            rest = " " * (len(rest) - len(value)) + value
        self.lines[number] = (indent + key + colon + rest).rstrip("\t")
        return self.lines[number]

    def _mend_colon(self, number: int, line: str, keys: Collection[str] | None) -> None:
        """``Framework:Python``, as the original's own pages have it."""
        colon = line.find(":")
        if colon < 0 or line[colon + 1 : colon + 2] in ("", " "):
            return
        word = line[:colon].strip(" \"'")
        if word in keys if keys is not None else word.isidentifier() and line[colon + 1 : colon + 3] != "//":
            mended = f"{line[: colon + 1]} {line[colon + 1 :]}"
            self.warn(number, colon + 1, "no space after the colon", f"write '{word}: ', then the value")
            self.moved[number] = (colon + 1, 1 + self.moved.get(number, (0, 0))[1])
            self.lines[number] = mended

    def _tree(self) -> Mapping | None:
        slips: Slips = []
        root = self._root(slips)
        for line, column, message, hint in slips:
            self.warn(line, column, message, hint)
        if root is None or isinstance(root, Mapping):
            return root
        self.error(root.line, root.column, "this is not a list of 'key: value' lines", "write one 'key: value' a line")
        return None

    def _root(self, slips: Slips) -> Node | None:
        start = next((number for number, line in enumerate(self.lines) if line.strip()), None)
        if start is None:
            return no_entries()
        try:
            if self.lines[start].lstrip()[0] == "{":
                return _json(self.lines, start, slips)
            return read_plain(self.lines)
        except UncertainError:
            slips.clear()
        return self._full(slips)

    def _full(self, slips: Slips) -> Node | None:
        from holdfast.amlconfig.full import RefusedError, read_full

        try:
            return read_full(self.lines) or no_entries()
        except RefusedError as refused:
            try:
                return read_plain(self.lines, slips)
            except UncertainError:
                slips.clear()
            self.error(refused.line, refused.column, refused.message, refused.hint)
            return None


def refused(error: untrusted.Untrusted, limit: int, advice: str = "") -> tuple[str, str]:
    """Why a file of the project is not used, and what to do about it."""
    if isinstance(error, untrusted.OutsideError):
        hint = "copy the link's target into the project"
        return "this file is, or is below, a symbolic link that leads out of the project", _joined(hint, advice)
    if isinstance(error, untrusted.SpecialFileError):
        return "this is not a regular file, but a device, FIFO or socket", "replace it with a regular file"
    if isinstance(error, untrusted.TooLargeError):
        return f"this file is too large: at most {limit >> 20} MiB are read", "remove unrelated content"
    return f"this file cannot be used: {_printable(str(error))}", "replace it with a regular file"


def _joined(hint: str, advice: str) -> str:
    return f"{hint}; {advice}" if advice else hint


def _project_of(path: str, shown: str) -> str | None:
    """The folder that links of this file may not leave: that of its project. A file of the user alone has none."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.basename(folder) == "aml_config":
        return os.path.dirname(folder)
    named_within = shown != path and not os.path.isabs(shown) and path.endswith(os.sep + shown)
    return path[: -len(shown)] if named_within else None


def codec(data: bytes) -> tuple[str, bytes]:
    """The encoding of a file and the byte order mark it begins with."""
    if data.startswith(b"\xef\xbb\xbf"):
        return "utf-8", data[:3]
    # Windows PowerShell's '>' writes UTF-16.
    if data.startswith(b"\xff\xfe"):
        return "utf-16-le", data[:2]
    if data.startswith(b"\xfe\xff"):
        return "utf-16-be", data[:2]
    return "utf-8", b""


def _json(lines: list[str], start: int, slips: Slips) -> Node:
    flow = Flow(lines, start, len(lines[start]) - len(lines[start].lstrip()), slips)
    node = flow.value()
    if lines[flow.line][flow.column :].strip() or any(line.strip() for line in lines[flow.line + 1 :]):
        raise UncertainError
    return node


def _printable(text: str) -> str:
    """What a file says must not write to the terminal more than words, nor more than a few."""
    shown = text if text.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in text)
    return shown if len(shown) <= LONGEST_MESSAGE else f"{shown[: LONGEST_MESSAGE - 1]}…"


def _place(finding: Finding) -> tuple[int, int]:
    return finding.line, finding.column
