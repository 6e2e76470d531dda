"""A run on one screen: what it was, how it ended, its metrics as pictures, its outputs, where everything is."""

from __future__ import annotations

import math

from holdfast.engine.runs import gpu_diagnosis
from holdfast.metrics import reader
from holdfast.present import gpu_card, ledger_card, run_table, spark_card, terminal, terminal_plot, unkept_files
from holdfast.store import history_record, output_manifest, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.metrics.values import Series
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_LABELS = (
    ("run", "run_id"),
    ("name", "name"),
    ("script", "script_name"),
    ("target", "target"),
    ("status", "status"),
    ("reason", "reason"),
    ("started", "start_time_utc"),
    ("duration", "duration"),
    ("exit code", "exit_code"),
    ("host", "host"),
    ("program", "program"),
    ("parent", "parent_run_id"),
    ("note", "description"),
)
_SHOWN = 12
_INDENT = 11
_SPARK = 24
_WORD = 40  # characters of a parameter's value
_CELLS = 46  # what a row of the table of metrics takes beside its name and picture


def card(home: Home, run: Run, stream: TextIO) -> str:
    record = history_record.record(run)
    arguments = " ".join(str(word) for word in run.request.get("arguments", []))  # type: ignore[attr-defined]
    lines = []
    if record.get("interpreter"):
        record["program"] = None  # what started that Python
    for label, key in _LABELS:
        if record.get(key) not in (None, ""):
            text = f"{record[key]} {arguments}" if key == "script_name" else _text(record, key)
            lines.append(_row(label, text, record["run_number"] if key == "run_id" else None))
    if "shared_by" in record:
        lines.append(_row("author", f"{record['user']}, shared by {record['shared_by'] or 'an unknown user'}"))
    lines += [_row("python", text) for text in (_python_text(record),) if text]
    lines += _attempts(run)
    lines += [_row("git", text) for text in (_git_text(record["properties"]),) if text]
    lines += [_row("data" if not number else "", text) for number, text in enumerate(data_words(record.get("data")))]
    lines += [_row("parameters", text) for text in (_parameter_text(record.get("parameters")),) if text]
    lines += [_row("tags", text) for text in (_tag_text(record["tags"]),) if text]
    lines += [_row("price", text) for text in (_price_text(record.get("run_price")),) if text]
    lines += ledger_card.section(record["ledger"], stream)  # type: ignore[arg-type]
    metrics = reader.read_attempts(runs.metric_folders(run))
    lines += _pictures(list(metrics.by_name.values()), stream)
    lines += [f"problem    {terminal.show(problem)}" for problem in metrics.problems]
    lines += [_row("spark" if not number else "", line) for number, line in enumerate(spark_card.lines(record))]
    lines += gpu_card.section(run, stream)
    lines += [
        _row("advice" if not number else "", line) for number, line in enumerate(gpu_diagnosis.lines_for(home, run))
    ]
    lines += _outputs(run)
    lines += _outside(run)
    lines += ["", _row("folder", run.path), _row("log", f"holdfast logs -r {record['run_number']}")]
    return "\n".join(_fitted(lines, stream)) + "\n"


def _text(record: Json, key: str) -> str:
    if key == "status":
        return history_record.state_words(record)
    if key == "duration":
        return run_table.duration(record)
    if key == "start_time_utc":
        return f"{str(record[key])[:19].replace('T', ' ')} UTC"
    return "; ".join(str(record[key]).splitlines())


def _fitted(lines: list[str], stream: TextIO) -> list[str]:
    """On a terminal, lines of text that are too wide are broken at spaces; charts and tables fit already."""
    if not terminal.is_tty(stream):
        return lines
    columns = terminal.width(stream)
    return [part for line in lines for part in ([line] if "\x1b" in line else terminal.wrap(line, columns, _INDENT))]


def _row(label: str, text: str, number: object = None) -> str:
    return f"{label:<{_INDENT}}{terminal.show(text.rstrip())}" + (f"  [{number}]" if number is not None else "")


def _python_text(record: Json) -> str:
    """``3.11.7, /home/ada/venv, 57 packages: holdfast info -r 12 --packages``"""
    python = record.get("interpreter")
    if not isinstance(python, dict):
        return ""
    where = f"{python['kind']} {python['environment']}" if python.get("kind") else python.get("path")
    number = python.get("packages")
    count = f"{number} package{'' if number == 1 else 's'}: holdfast info -r {record['run_number']} --packages"
    return f"{python.get('version')}, {where}, {count}"


def _price_text(price: object) -> str:
    """``0.42: 0.138 hours at 3.06``"""
    if not isinstance(price, dict):
        return ""
    return f"{price['price']:.4g}: {price['hours']:.3g} hours at {price['price_per_hour']:g}"


def _attempts(run: Run) -> list[str]:
    """Every attempt of a run that was started again."""
    if run.attempt_number == 1:
        return []
    lines = []
    for row in history_record.attempts(run):
        began, ended = (str(row[key] or "")[:19].replace("T", " ") for key in ("start_time_utc", "end_time_utc"))
        resumed = f", resumed from attempt {row['resumed_from']}" if row["resumed_from"] else ""
        reason = f": {row['reason']}" if row["reason"] else ""
        reason += f"; {row['checkpoints_left']}" if row["checkpoints_left"] else ""
        span = f"{began or 'not started'} to {ended or 'now'}"
        lines.append(_row(f"attempt {row['attempt']}", f"{row['status']}, {span}{resumed}{reason}"))
    return lines


def _git_text(properties: object) -> str:
    """``<commit> (main, with uncommitted changes)``; nothing of a project that is in no repository."""
    fields = properties if isinstance(properties, dict) else {}
    if "GitCommit" not in fields:
        return ""
    changed = {True: "with uncommitted changes", False: "no changes"}.get(fields["GitDirty"], "")
    facts = ", ".join(filter(None, (str(fields["GitBranch"] or "detached"), changed)))
    return f"{fields['GitCommit'] or 'no commit yet'} ({facts})"


def data_words(rows: object) -> list[str]:
    """``mnist  1f3a…, 60000 files, 52 MB, from /home/ada/mnist``"""
    lines = []
    for row in rows if isinstance(rows, list) else ():
        if row.get("path_on_target"):
            lines.append(f"{row.get('name')}: {row['path_on_target']} of the target")
            continue
        files, size = row.get("files"), row.get("bytes")
        count = f", {files} file{'' if files == 1 else 's'}" if isinstance(files, int) else ""
        count += f", {terminal.human_bytes(size)}" if isinstance(size, int) else ""
        changed = "; WRITTEN TO while the script ran" if row.get("changed") else ""
        lines.append(f"{row.get('name')}: {str(row.get('tree'))[:12]}{count}, from {row.get('source')}{changed}")
    return lines


def _parameter_text(parameters: object) -> str:
    """What the script logged as its parameters; a long list and long values are cut."""
    rows = list(parameters.items()) if isinstance(parameters, dict) else []
    shown = [f"{name}={str(value)[:_WORD]}{'…' if len(str(value)) > _WORD else ''}" for name, value in rows[:_SHOWN]]
    return ", ".join(shown + ([f"and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []))


def _tag_text(tags: object) -> str:
    if not isinstance(tags, dict):
        return ""
    return ", ".join(name if value is True else f"{name}={value}" for name, value in tags.items())


def _pictures(logged: list[Series], stream: TextIO) -> list[str]:
    """A row per metric, then one chart of the series that have a shape to show."""
    if not logged:
        return []
    fancy = terminal_plot.can_draw(stream)
    rows = [reader.digest(series) for series in logged]
    room = terminal.width(stream) if terminal.is_tty(stream) else 2 * terminal.DEFAULT_WIDTH
    widest = max(terminal.display_width(terminal.show(row.name)) for row in rows)
    width = max(6, min(widest, 40, room - _CELLS))
    picture = min(_SPARK, room - _CELLS - width - 2)
    lines = ["", f"{'metric':<{width}}  {'last':>10}  {'min':>10}  {'max':>10}  {'points':>8}"]
    for series, row in list(zip(logged, rows, strict=True))[:_SHOWN]:
        draws = row.points > 1 and picture >= 4
        spark = terminal_plot.sparkline(_numbers(series), picture, fancy=fancy) if draws else ""
        name = terminal.clip(terminal.show(row.name), width)
        cells = f"{_number(row.last):>10}  {_number(row.least):>10}  {_number(row.greatest):>10}  {row.points:>8}"
        lines.append(f"{name:<{width}}  {cells}  {spark}".rstrip())
    if len(logged) > _SHOWN:
        lines.append(f"... and {len(logged) - _SHOWN} more: holdfast info -o json")
    shaped = [series for series in logged if sum(map(math.isfinite, _numbers(series))) > 2][:2]
    for series in shaped:
        drawing = {series.name: (list(series.steps), _numbers(series))}
        lines += [
            "",
            *terminal_plot.chart(
                drawing, min(terminal.width(stream), 90), 8, fancy=fancy, colour=terminal.use_colour(stream)
            ),
        ]
    return lines


def _numbers(series: Series) -> list[float]:
    return [float(value) if isinstance(value, (int, float)) else math.nan for value in series.values]


def _number(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        value = value["type"]  # a picture or a table
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return terminal.clip(terminal.show(str(value)), 10) if value is not None else "-"
    return f"{value:.6g}"


def _outputs(run: Run) -> list[str]:
    rows, missing = [row for row in history_record.output_rows(run) if output_manifest.is_output(row)], _missing(run)
    if not rows and not missing:
        return []
    number = run.request.get("run_number")
    state = f"{len(rows)} file{'' if len(rows) == 1 else 's'}{', incomplete' if output_manifest.problems(run) else ''}"
    lines = ["", _row("outputs", f"{state}; holdfast return -r {number} copies them to the project")]
    lines += [f"  {terminal.show(line)}" for line in missing[:_SHOWN]]
    lines += [f"  ... and {len(missing) - _SHOWN} more"] if len(missing) > _SHOWN else []
    return lines + _listed([(int(str(row["size"])), str(row["path"])) for row in rows])


def _outside(run: Run) -> list[str]:
    """Files that the script wrote outside outputs/: those that were kept, then what was not, and why."""
    rows = [row for row in history_record.output_rows(run) if not output_manifest.is_output(row)]
    lines = []
    if rows:
        number, count = run.request.get("run_number"), f"{len(rows)} file{'' if len(rows) == 1 else 's'}"
        text = f"{count} outside outputs/; holdfast return -r {number} copies them to the project"
        lines += ["", _row("files", text), *_listed([(int(str(row["size"])), str(row["project"])) for row in rows])]
    return lines + [_row(label, text) for label, text in unkept_files.lines(run)]


def _listed(sizes: list[tuple[int, str]]) -> list[str]:
    lines = [f"  {terminal.human_bytes(size):>10}  {terminal.show(name)}" for size, name in sizes[:_SHOWN]]
    return lines + ([f"  ... and {len(sizes) - _SHOWN} more"] if len(sizes) > _SHOWN else [])


def _missing(run: Run) -> list[str]:
    """What is incomplete, then what cannot be kept by its nature: sockets, pipes, devices."""
    problems = output_manifest.problems(run)
    names = output_manifest.names(run)
    return problems or [f"{names[name]} was not kept: {why}" for name, why in output_manifest.unkept(run).items()]
