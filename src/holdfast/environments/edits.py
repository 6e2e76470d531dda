"""Changes to a file that declares an environment: one line each, everything else stays as it is."""

from __future__ import annotations

import re

from holdfast.amlconfig.types import Finding
from holdfast.environments.spec import Entry
from holdfast.errors import ConfigError
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.amlconfig.types import Severity

_PIP_KEY = re.compile(r"( *)-\s+[\"']?pip[\"']?\s*:\s*(#.*)?$")

_QUOTES = "\"'"


class Edit(Record):
    """Replace ``entry`` by ``new``, or remove its line if ``new`` is empty; ``to_pip`` moves it below ``pip:``.

    ``also`` are further lines of the same list.
    """

    entry: Entry
    new: str
    message: str
    severity: Severity = "warning"
    to_pip: bool = False
    also: tuple[str, ...] = ()

    @property
    def finding(self) -> Finding:
        line = f"- {self.new}" if _is_yaml(self.entry.file) else self.new
        hint = "delete this line" if not self.new else f"write {line}"
        if self.to_pip:
            hint = f"delete this line, and below - pip: write {line}"
        hint += "".join(f" and {'- ' if line.startswith('- ') else ''}{other}" for other in self.also)
        return Finding(self.severity, self.entry.file, self.entry.line, self.entry.column, self.message, hint)


def with_pip_items(text: str, items: Iterable[str]) -> str:
    """A conda file's text with items at the end of its ``pip:`` list, which is made if there is none."""
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if "\r\n" in text else "\n"
    if not any(_PIP_KEY.match(line.rstrip("\r\n")) for line in lines):
        at = next((n for n, line in enumerate(lines) if line.startswith("dependencies:")), None)
        if at is None:
            if lines:
                lines[-1] = lines[-1].rstrip("\r\n") + newline
            lines.append(f"dependencies:{newline}")
            at = len(lines) - 1
        after = lines[at + 1] if at + 1 < len(lines) else "- "
        indent = after[: len(after) - len(after.lstrip(" "))] if after.lstrip().startswith("-") else ""
        end = at + 1
        while end < len(lines) and (lines[end].strip().startswith(("-", "#")) or not lines[end].strip()):
            end += 1
        lines[end - 1] = lines[end - 1].rstrip("\r\n") + newline
        lines[end:end] = [f"{indent}- pip:{newline}"]
    _add_to_list(lines, list(items), newline)
    return "".join(lines)


def applied(text: str, edits: Iterable[Edit]) -> str:
    """``text`` of the one file that all ``edits`` are about, with each of them made."""
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if "\r\n" in text else "\n"
    ordered = sorted(edits, key=lambda edit: (edit.entry.line, edit.entry.column), reverse=True)
    moved = [line for edit in reversed(ordered) if edit.to_pip for line in (edit.new, *edit.also)]
    has_list = any(_PIP_KEY.match(line.rstrip("\r\n")) for line in lines)
    for edit in ordered:
        number = edit.entry.line - 1
        if edit.to_pip and moved and not has_list:
            indent = lines[number][: len(lines[number]) - len(lines[number].lstrip(" "))]
            _remove(lines, edit)
            lines[number:number] = [f"{indent}- pip:{newline}", *(f"{indent}  - {new}{newline}" for new in moved)]
            moved = []
        elif edit.new and not edit.to_pip:
            _replace(lines, edit)
        else:
            _remove(lines, edit)
    if has_list and moved:
        _add_to_list(lines, moved, newline)
    return "".join(lines)


def _replace(lines: list[str], edit: Edit) -> None:
    number, column = edit.entry.line - 1, max(edit.entry.column - 1, 0)
    line = lines[number] if 0 <= number < len(lines) else ""
    at = line.find(edit.entry.raw, column)
    if at < 0:
        raise _refusal(edit)
    if edit.also and not re.fullmatch(r"\s*(-\s+)?[\"']?", line[:at]):
        raise _refusal(edit)
    lines[number] = line[:at] + edit.new + line[at + len(edit.entry.raw) :]
    if edit.also:
        newline = line[len(line.rstrip("\r\n")) :] or "\n"
        lines[number] = lines[number].rstrip("\r\n") + newline
        lines[number + 1 : number + 1] = [f"{line[:at].rstrip(_QUOTES)}{other}{newline}" for other in edit.also]


def _remove(lines: list[str], edit: Edit) -> None:
    number = edit.entry.line - 1
    line = lines[number] if 0 <= number < len(lines) else ""
    # Only a line with nothing else on it is removed; in a bracketed list there are other items.
    if not re.fullmatch(rf"\s*(-\s+)?[\"']?{re.escape(edit.entry.raw)}[\"']?\s*(#.*)?", line.rstrip("\r\n")):
        raise _refusal(edit)
    del lines[number]


def _add_to_list(lines: list[str], new: list[str], newline: str) -> None:
    start, indent = next(
        (number, match[1])
        for number, line in enumerate(lines)
        if (match := _PIP_KEY.match(line.rstrip("\r\n"))) is not None
    )
    last, item_indent = start, f"{indent}  "
    for number in range(start + 1, len(lines)):
        content = lines[number].strip()
        depth = len(lines[number]) - len(lines[number].lstrip(" "))
        if content and not content.startswith("#"):
            if depth <= len(indent):
                break
            last, item_indent = number, " " * depth
    if not lines[last].endswith(("\r", "\n")):
        lines[last] += newline
    lines[last + 1 : last + 1] = [f"{item_indent}- {item}{newline}" for item in new]


def _refusal(edit: Edit) -> ConfigError:
    where = f"{edit.entry.file}:{edit.entry.line}"
    what = "this line cannot be changed without affecting other lines"
    return ConfigError(what, where=where, hint=f"{edit.finding.hint}, in an editor; the file is as it was")


def _is_yaml(file: str) -> bool:
    return file.endswith((".yml", ".yaml"))
