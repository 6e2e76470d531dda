"""The runs of ``history list`` as a table for a terminal: one line per run, as wide as the terminal and not wider."""

from __future__ import annotations

import math
from calendar import timegm
from time import strptime

from holdfast import lifecycle
from holdfast.metrics.direction import has_best, less_is_better
from holdfast.present import terminal
from holdfast.record import Record
from holdfast.store import history_record
from holdfast.store.where.fields import HEADINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import TextIO

    from holdfast.model import Json

_GAP = 2
_NARROWEST_SCRIPT = 16
_WIDEST_TEXT = 24
# Dropped from the left, where even without metrics the table is wider than the terminal.
_OPTIONAL = ("target", "age", "duration", "name", "author")
_COLOURS = {lifecycle.COMPLETED: "32", lifecycle.FAILED: "31", lifecycle.LOST: "31", lifecycle.RUNNING: "36"}
_BOLD, _FAINT = "1", "2"
_NOT_FINITE = "NaN/Inf"


class Column(Record):
    """``styles`` has an SGR code, or nothing, for each cell."""

    title: str
    cells: tuple[str, ...]
    styles: tuple[str, ...]
    right: bool = False

    @property
    def width(self) -> int:
        return max(map(terminal.display_width, (self.title, *self.cells)))


def table(
    records: Sequence[Json],
    stream: TextIO,
    now: float,
    *,
    all_projects: bool,
    first: Sequence[str] = (),
    headings: Container[str] = HEADINGS,
) -> str:
    """``first`` names metrics that come before the others; ``all_projects`` shows run ids, as numbers repeat.

    Every title can be typed in ``--columns``, ``--sort`` and ``--where``: a heading that is not in ``headings`` means
    something else there, and the field is named instead.
    """
    width, colour = terminal.width(stream), terminal.use_colour(stream)
    fixed = _run_columns(records, now, all_projects, headings)
    columns, dropped = _fit(fixed, [*_metric_columns(records, first), *_tag_columns(records)], width)
    lines = [_line([column.title for column in columns], columns, [_FAINT] * len(columns), width, colour)]
    for number in range(len(records)):
        cells, styles = [c.cells[number] for c in columns], [c.styles[number] for c in columns]
        lines.append(_line(cells, columns, styles, width, colour))
    notes = ["* best of the last values"] if any(_BOLD in column.styles for column in columns) else []
    notes += [f"not shown: {', '.join(dropped)}; --columns shows them"] if dropped else []
    below = [terminal.clip(note, width) for note in terminal.wrap("; ".join(notes), width, 0)] if notes else []
    lines += [f"\x1b[{_FAINT}m{note}\x1b[0m" if colour else note for note in below]
    return "".join(f"{line}\n" for line in lines)


def age(seconds: float) -> str:
    """How long ago, in the largest unit: "just now", "42 s ago", "3 min ago", "5 h ago", "2 days ago"."""
    if seconds < 5:
        return "just now"
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)} {unit} ago"
    days = int(seconds // 86400)
    return "1 day ago" if days == 1 else f"{days} days ago"


def _run_columns(
    records: Sequence[Json], now: float, all_projects: bool, headings: Container[str]
) -> dict[str, Column]:
    titles = {title: title if title in headings else field for title, field in HEADINGS.items()}
    key, title = ("run_id", "run_id") if all_projects else ("run_number", titles["run"])
    states = [_status(record) for record in records]
    plain = ("",) * len(records)
    names = tuple(_text(record.get("name")) for record in records)
    users = tuple(_text(record.get("user")) for record in records)
    return {
        "run": Column(title, tuple(_text(record.get(key)) for record in records), plain, not all_projects),
        **({"name": Column("name", names, plain)} if any(names) else {}),
        **({"author": Column(titles["author"], users, plain)} if len(set(users)) > 1 else {}),
        "age": Column(titles["age"], tuple(_age(record, now) for record in records), plain),
        "duration": Column("duration", tuple(duration(record) for record in records), plain, right=True),
        "status": Column("status", tuple(states), tuple(_COLOURS.get(state, "33") for state in states)),
        "target": Column("target", tuple(_text(record.get("target")) for record in records), plain),
        "script": Column(titles["script"], tuple(map(_script, records)), plain),
    }


def _tag_columns(records: Sequence[Json]) -> list[Column]:
    tags = [own if isinstance(own := record.get("tags"), dict) else {} for record in records]
    names = sorted({name for own in tags for name in own})
    plain = ("",) * len(records)
    return [Column(f"tags.{terminal.show(name)}", tuple(_tag(own.get(name)) for own in tags), plain) for name in names]


def _tag(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else _text(value)


def _metric_columns(records: Sequence[Json], first: Sequence[str]) -> list[Column]:
    """Metrics that differ between runs, by their last values; where only one run has a metric, that one too."""
    records = [
        {name: _last(value) for name, value in record.items() if name not in history_record.FIXED} for record in records
    ]
    names = {name for record in records for name, value in record.items() if _is_metric(name, value)}
    order = sorted(
        names, key=lambda name: (first.index(name) if name in first else len(first), not has_best(name), name)
    )
    columns = []
    for name in order:
        values = [record.get(name) for record in records]
        present = [value for value in values if _is_metric(name, value)]
        if len(present) < 2 or any(value != present[0] for value in present[1:]):
            columns.append(_metric_column(name, values))
    return columns


def _metric_column(name: str, values: Sequence[object]) -> Column:
    numbers = [value for value in values if _is_number(value)]
    best: object = None
    if len(set(numbers)) > 1 and has_best(name):
        best = min(numbers) if less_is_better(name) else max(numbers)  # type: ignore[type-var]
    is_best = [best is not None and _is_number(value) and value == best for value in values]
    mark = {True: "*", False: " " if best is not None else ""}
    cells = tuple(_text(value) + mark[marked] for value, marked in zip(values, is_best, strict=True))
    title = terminal.show(name) + mark[False]
    return Column(title, cells, tuple(_BOLD if marked else "" for marked in is_best), right=bool(numbers))


def _fit(fixed: dict[str, Column], metrics: list[Column], width: int) -> tuple[list[Column], list[str]]:
    """The columns that fit, the script's as wide as is left for it, and the titles of those that do not fit."""
    script = fixed["script"]
    narrowest = min(script.width, _NARROWEST_SCRIPT)
    first = _GAP + metrics[0].width if metrics else 0  # the first metric says more than any of the optional columns
    dropped: list[str] = []
    for name in _OPTIONAL:
        if name in fixed and _total([*fixed.values()]) - script.width + narrowest + first > width:
            column = fixed.pop(name)
            dropped.append(column.title)
    free = width - (_total([*fixed.values()]) - script.width)
    shown: list[Column] = []
    for column in metrics:
        if _GAP + column.width <= free - narrowest:
            shown.append(column)
            free -= _GAP + column.width
        else:
            dropped.append(column.title.rstrip())
    cells = tuple(terminal.clip(_without_folders(cell, free), max(free, 1)) for cell in script.cells)
    fixed["script"] = script._replace(cells=cells)
    return [*fixed.values(), *shown], dropped


def _without_folders(script: str, width: int) -> str:
    """The script and its arguments; without the script's folders where that is too wide."""
    name, space, arguments = script.partition(" ")
    if terminal.display_width(script) <= width or "/" not in name:
        return script
    return f"…/{name.rpartition('/')[2]}{space}{arguments}"


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _line(cells: Sequence[str], columns: Sequence[Column], styles: Sequence[str], width: int, colour: bool) -> str:
    """Cells in their columns. A line that is still too long, on a very narrow terminal, is cut and not coloured."""
    parts = []
    for cell, column in zip(cells, columns, strict=True):
        blanks = " " * (column.width - terminal.display_width(cell))
        parts.append(blanks + cell if column.right else cell + blanks)
    plain = (" " * _GAP).join(parts).rstrip()
    if not colour or terminal.display_width(plain) > width:
        return terminal.clip(plain, width)
    styled = (f"\x1b[{style}m{part}\x1b[0m" if style else part for part, style in zip(parts, styles, strict=True))
    return (" " * _GAP).join(styled).rstrip()


def _is_metric(name: str, value: object) -> bool:
    return bool(name.strip()) and isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _last(value: object) -> object:
    """The last value of a series; anything else as it is. A record has None for what is not finite."""
    last = value[-1] if isinstance(value, list) and value else value
    return _NOT_FINITE if last is None else last


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _status(record: Json) -> str:
    return "outputs incomplete" if history_record.is_incomplete(record) else terminal.show(str(record.get("status")))


def _script(record: Json) -> str:
    arguments = record.get("arguments")
    parts = [record.get("script_name") or "", *(arguments if isinstance(arguments, list) else [])]
    return terminal.show(" ".join(str(part) for part in parts))


def _age(record: Json, now: float) -> str:
    created = str(record.get("created_utc") or record.get("start_time_utc") or "")
    try:
        return age(now - timegm(strptime(created[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return ""


def duration(record: Json) -> str:
    """``h:mm:ss.ffffff`` of a record as people write it."""
    try:
        hours, minutes, seconds = str(record.get("duration")).split(":")
        return terminal.human_duration(int(hours) * 3600 + int(minutes) * 60 + float(seconds))
    except ValueError:
        return ""


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    return terminal.clip(terminal.show(str(value)), _WIDEST_TEXT) if isinstance(value, (int, str)) else ""
