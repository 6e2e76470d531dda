"""``holdfast history compare``"""

from __future__ import annotations

import os
import sys

from holdfast.cli import pick
from holdfast.engine.runs.compare import compare
from holdfast.errors import UsageError
from holdfast.present import metric_chart
from holdfast.present.files import write_file
from holdfast.present.output import as_json, emit
from holdfast.present.terminal import is_tty, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.engine.runs.compare import Comparison
    from holdfast.model import Json

_ENDINGS = {".html": "html", ".htm": "html", ".json": "json"}


def compare_runs(parsed: Parsed) -> int:
    """Exit code 0 whether they differ or not: that two runs differ is no mistake."""
    to = parsed.text("to")
    form = _form(parsed, to)
    home, chosen = pick.runs_named(parsed)
    if len(chosen) < 2:
        raise UsageError("two or more runs are needed", hint="holdfast history compare -r 12 -r 13")
    result = compare(home, chosen)
    for logged in result.logged:
        for problem in logged.problems:
            sys.stderr.write(f"WARNING: {show(problem)}\n")
    show_all = parsed.flag("all")
    if form == "html":
        from holdfast.present.pages.compare_page import page

        _put(to, page(result, show_all=show_all))
    elif to is not None:
        _put(to, as_json(result.to_json()).encode())
    elif form in ("json", "jsonc", "yaml") or parsed.text("query") is not None:
        emit(result.to_json(), fmt=form, query=parsed.text("query"))
    else:
        _show(parsed, result, form, show_all=show_all)
    return 0


def _form(parsed: Parsed, to: str | None) -> str:
    output = parsed.text("output")
    if to is None:
        return output or ("table" if is_tty(sys.stdout) and parsed.text("query") is None else "json")
    named = _ENDINGS.get(os.path.splitext(to)[1].lower())
    if named is None or output not in (None, named):
        raise UsageError(f"--to {to}: a comparison is written as .html or .json", hint="--to compare.html")
    return named


def _put(to: str | None, data: bytes) -> None:
    if to is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    write_file(to, data)
    sys.stdout.write(f"{show(to)}\n")


def _show(parsed: Parsed, result: Comparison, form: str, *, show_all: bool) -> None:
    from holdfast.present.pages.compare_page import shown

    names = [metric_chart.label(run) for run in result.runs]
    rows: list[Json] = []
    for section in result.sections:
        for row in section.rows:
            if row.differs or show_all:
                cells = dict(zip(names, map(shown, row.values), strict=True))
                rows.append({"differs": "*" if row.differs else "", "of": section.title, "what": row.name, **cells})
    columns = (*(("differs",) if show_all else ()), "of", "what", *names)
    emit(rows, fmt=form, columns=columns, capitals=parsed.compatible)
    for section in result.sections:
        if section.note:
            sys.stderr.write(f"{section.title}: {show(section.note)}\n")
    same = sum(not row.differs for section in result.sections for row in section.rows)
    if same and not show_all:
        sys.stderr.write(f"{same} more are equal; --all shows them\n")
