"""Runs as a table for a notebook, in HTML and as text."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from holdfast.present.terminal import human_duration, show

if TYPE_CHECKING:
    from holdfast.api.history import RunList

_FIXED = {
    "run_number": "run",
    "name": "name",
    "script_name": "script",
    "target": "target",
    "status": "status",
    "created_utc": "created",
    "duration": "duration",
}
_METRICS = "metrics."
_MOST_METRICS = 6


class RunTable:
    """What ``%runs`` shows; ``runs`` has the runs themselves."""

    def __init__(self, runs: RunList) -> None:
        self.runs = runs

    def rows(self) -> list[list[str]]:
        """The titles, then the cells of each run."""
        columns = self.runs.to_columns()
        metrics = [name for name in columns if name.startswith(_METRICS)][:_MOST_METRICS]
        titles = [title for name, title in _FIXED.items() if any(columns[name])]
        kept = [name for name in _FIXED if any(columns[name])] + metrics
        cells = [[_text(name, value) for value in columns[name]] for name in kept]
        return [[*titles, *(name[len(_METRICS) :] for name in metrics)], *map(list, zip(*cells, strict=True))]

    def __repr__(self) -> str:
        if not self.runs:
            return "no runs"
        rows = [[show(cell) for cell in row] for row in self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        if not self.runs:
            return "<p>no runs</p>"
        titles, *rows = self.rows()
        lines = [_line("th", titles), *(_line("td", row) for row in rows)]
        return f"<table>{''.join(lines)}</table>"


def _line(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(show(cell))}</{tag}>' for cell in cells)}</tr>"


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "created_utc":
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if name == "duration":
        return human_duration(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
