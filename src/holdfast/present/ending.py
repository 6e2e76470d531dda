"""The last lines of a submit: result, duration, metrics, outputs, and the next command."""

from __future__ import annotations

import os
import sys

from holdfast import lifecycle
from holdfast.engine.runs import daily_cleanup, outputs
from holdfast.engine.runs.run_target import store_of
from holdfast.errors import LockedError, LostError, StoreError, UnreachableError
from holdfast.present.terminal import human_bytes, human_duration, show, use_colour
from holdfast.runner.store import layout
from holdfast.store import history_record, output_manifest, runs, verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ledger import Stopwatch
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_MARKS = {"Completed": ("✓", "32"), "Canceled": ("■", "33")}
_LONGEST_REASON = 200
_INCOMPLETE = ("!", "33")
_SHOWN = 10  # outputs that are missing
_LOG_END = 64 * 1024
_NAMES = 5


def tell(home: Home, uid: str, emit: Callable[[object], None] | None, stopwatch: Stopwatch | None = None) -> int:
    """Say how the run ended, on stderr for people or by its record to ``emit``; returns its exit code.

    ``stopwatch`` is that of the submit, which ends here.
    """
    run = runs.read(home, uid)
    closed = next((event for event in run.events if event.get("type") == "closed"), None)
    if closed is None:
        from holdfast.engine.runs import reconcile

        reconcile.settle(home, [run])
        run = runs.read(home, uid)
        closed = next((event for event in run.events if event.get("type") == "closed"), {})
    if not closed:
        hint = f"holdfast status -r {run.request.get('run_number')} checks again"
        raise UnreachableError("the run has ended, but the target did not report how", where=str(run.uid), hint=hint)
    wrong = verify.differences(run, closed)
    if stopwatch is not None:
        stopwatch.lap("fetch")
        _note(home, uid, "ledger", stopwatch, attempt=run.attempt_name, outcome=closed.get("outcome"))
    if emit is not None:
        emit(history_record.record(runs.read(home, uid)))
    sys.stdout.flush()
    missing = _missing_outputs(home, run)
    message = closing_line(run, closed, complete=not missing, retry=_may_retry(home, run, closed))
    sys.stderr.write(message + "\n")
    if closed.get("outcome") == "failed":
        _explain(run)
    _refuse(run, wrong)
    _tell_missing(run, missing)
    _tell_remarks(run)
    if closed.get("outcome") in ("completed", "failed"):
        _tell_how_to_log(run, completed=closed.get("outcome") == "completed")
    daily_cleanup.daily(home, _warn)
    _tell_of_gpus(home, run)
    code = closed.get("exit_code")
    if code == 0 and missing:
        return StoreError.exit_code
    return code if isinstance(code, int) and 0 <= code < 256 else LostError.exit_code


def _missing_outputs(home: Home, run: Run) -> list[str]:
    """What was not kept, or should have come here by now and did not."""
    problems = output_manifest.problems(run)
    policy = run.request.get("fetch_outputs") or "small"
    if store_of(run.request, home.path) == home.path or policy == "none":
        return problems
    noted = output_manifest.not_brought(run)
    for row in output_manifest.rows(run):
        expected = "sha256" in row and (policy == "all" or int(str(row["size"])) <= outputs.SMALL)
        if expected and row["path"] not in noted and not output_manifest.is_here(run, row):
            problems.append(f"{output_manifest.name_of(row)} was not downloaded")
    return problems


def _tell_missing(run: Run, missing: list[str]) -> None:
    for line in missing[:_SHOWN]:
        sys.stderr.write(f"  {show(line)}\n")
    if len(missing) > _SHOWN:
        sys.stderr.write(f"  and {len(missing) - _SHOWN} more\n")
    unread = output_manifest.unread(run)
    special = [(name, why) for name, why in output_manifest.unkept(run).items() if name not in unread]
    names = output_manifest.names(run) if special else {}
    for name, why in special[:_SHOWN]:
        sys.stderr.write(f"  {show(f'{names[name]} was not stored: {why}')}\n")
    if len(special) > _SHOWN:
        sys.stderr.write(f"  and {len(special) - _SHOWN} more that are not plain files\n")
    unlisted = output_manifest.is_missing(run)
    if unlisted or output_manifest.not_brought(run) or len(missing) > len(output_manifest.problems(run)):
        when = " when this is fixed" if unlisted else ""
        sys.stderr.write(f"  holdfast return -r {run.request.get('run_number')} tries again{when}\n")


def _tell_remarks(run: Run) -> None:
    """What is not a failure of the run."""
    _tell_not_kept(run)
    _tell_changed_data(run)
    for event in run.events:
        if event.get("type") == "checkpoints_left":
            _warn(str(event.get("why")))


def _tell_not_kept(run: Run) -> None:
    """Files outside outputs/ that exceeded a limit; not a failure of the run."""
    if not any(event.get("type") == "kept" for event in run.events):
        return
    from holdfast.present import unkept_files

    warning = unkept_files.warning(run)
    sys.stderr.write("".join(f"{show(line)}\n" for line in warning.splitlines()))


def _tell_changed_data(run: Run) -> None:
    """The record names data by its hash, which is no longer that of what the script read."""
    for event in run.events:
        names = event.get("names") if event.get("type") == "data_changed" else None
        if isinstance(names, list):
            _warn(f"data was written to while the script ran: {', '.join(map(str, names))}")


def _warn(message: str) -> None:
    sys.stderr.write(f"WARNING: {show(message)}\n")


def note_fetch(home: Home, uid: str, stopwatch: Stopwatch) -> None:
    """Of who watched a run that others started: how long it took to bring what it left."""
    if "fetch" in stopwatch.spent:
        _note(home, uid, "watched", stopwatch)


def _note(home: Home, uid: str, kind: str, stopwatch: Stopwatch, **fields: object) -> None:
    """Not worth a sync, nor an error: it is about the run and not part of it."""
    try:
        runs.mention_client(home, uid, kind, spent=stopwatch.spent, **fields)
    except (OSError, LockedError):
        return


def _refuse(run: Run, wrong: list[str]) -> None:
    """Completed is only said of what is really here."""
    if wrong:
        hint = "the disk may be failing; check it before you use this run"
        raise StoreError("files of the run are damaged", where=run.path, answer="\n".join(wrong), hint=hint)


def _tell_of_gpus(home: Home, run: Run) -> None:
    """The last line: whether the GPU was used."""
    is_unused = any(event.get("type") == "gpu_unused" for event in run.events)
    if not is_unused and history_record.gpu_receipt(run) is None and not (runs.read_plan(run) or {}).get("gpu"):
        return
    from holdfast.engine.runs import gpu_diagnosis
    from holdfast.present import gpu_verdict

    framework = gpu_diagnosis.unused_framework(home, run)
    if framework is not None:
        sys.stderr.write(f"{gpu_verdict.unused_line(run, framework)}\n")
    for line in gpu_verdict.lines(run, gpu_diagnosis.lines_for(home, run)):
        sys.stderr.write(f"{line}\n")


def _may_retry(home: Home, run: Run, closed: Json) -> bool:
    if closed.get("outcome") != "lost" and not lifecycle.was_killed(run.events):
        return False
    from holdfast.engine.submit import retry

    return not retry.refusal(home, run)


def closing_line(run: Run, closed: Json, *, complete: bool = True, retry: bool = False) -> str:
    """``complete`` is False where outputs are missing: then no tick is shown, whatever the script's exit code."""
    status = str(closed.get("outcome", "unknown")).capitalize()
    mark, colour = _MARKS.get(status, ("✗", "31"))
    if status == "Completed" and not complete:
        (mark, colour), status = _INCOMPLETE, history_record.INCOMPLETE
    encoding = sys.stderr.encoding or "ascii"
    if not mark.encode(encoding, "ignore"):
        mark = "*"
    head = f"{mark} {status}"
    if use_colour(sys.stderr):
        head = f"\x1b[{colour}m{head}\x1b[0m"
    parts = [f"{head} in {human_duration(_seconds(run))}"]
    reason = history_record.reason(run, outputs=False)
    first, below = _divided(reason)
    if first:
        parts.append(show(first))
    parts += _best(run)
    parts += _counts(history_record.output_rows(run))
    if retry:
        parts.append(f"holdfast retry -r {run.request.get('run_number')} restarts it")
    parts.append(f"holdfast info -r {run.request.get('run_number')}")
    separator = " · " if "·".encode(encoding, "ignore") else " | "
    return "\n    ".join([separator.join(parts), *map(show, below)])


def _divided(reason: str) -> tuple[str, list[str]]:
    """The part of a reason in the closing line, and the lines below it where it is long."""
    if len(reason) <= _LONGEST_REASON:
        return "; ".join(reason.splitlines()), []
    first, *below = reason.splitlines()
    return first, [line for line in below if line.strip()]


def _counts(rows: list[Json]) -> list[str]:
    """Number and size of the outputs, and of the files outside outputs/."""
    parts = []
    for word, is_output in (("output", True), ("other file", False)):
        sizes = [int(str(row["size"])) for row in rows if output_manifest.is_output(row) == is_output]
        if sizes:
            parts.append(f"{len(sizes)} {word}{'s' if len(sizes) > 1 else ''} ({human_bytes(sum(sizes))})")
    return parts


def _seconds(run: Run) -> float:
    events = {str(event.get("type")): event for event in reversed(run.events)}
    start = events.get("started") or events.get("accepted")  # without a start: how long it was prepared
    length = history_record.length_ns(start, events.get("exited") or events.get("closed"))
    return (length or 0) / 1e9


def _best(run: Run) -> list[str]:
    """Up to three metrics: those with a best value first, the others with their last one."""
    folders = runs.metric_folders(run)
    if not _has_metrics(folders):
        return []
    from holdfast.metrics import reader
    from holdfast.metrics.direction import has_best

    goals, others = [], []
    for series in reader.read_attempts(folders).by_name.values():
        row = reader.digest(series)
        if row.best is None:
            continue
        if has_best(row.name):
            mark = " (best)" if row.points > 1 and row.best != row.last else ""
            goals.append(f"{show(row.name)} {row.best:.4g}{mark}")
        elif isinstance(row.last, (int, float)):
            others.append(f"{show(row.name)} {row.last:.4g}")
    return [*goals, *others][:3]


def _has_metrics(folders: list[str]) -> bool:
    names = (name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder))
    return any(name.endswith(".m") for name in names)


def _tell_how_to_log(run: Run, *, completed: bool) -> None:
    """One line after a run without metrics; where its log has numbers, which ones --scalars would record."""
    if _has_metrics(runs.metric_folders(run)):
        return
    printed = _printed_names(layout.log(run.attempt))
    if printed:
        sys.stderr.write(f"No metrics. The log has {', '.join(map(show, printed))}: submit --scalars records them.\n")
    elif completed:
        sys.stderr.write('No metrics. In the script: import holdfast; holdfast.log("loss", value)\n')


def _printed_names(path: str) -> list[str]:
    """Some names of numbers at the end of a log."""
    try:
        with open(path, "rb") as source:
            source.seek(max(0, os.path.getsize(path) - _LOG_END))
            end = source.read(_LOG_END)
    except OSError:
        return []
    if b":" not in end and b"=" not in end:
        return []  # without the module that has the patterns: it costs a trivial submit a millisecond
    from holdfast.runner.run.printed_metrics import STEPS, numbers_in

    lines = end.replace(b"\r", b"\n").split(b"\n")
    names = dict.fromkeys(name for line in lines for name, _ in numbers_in(line) if name not in STEPS)
    return [name for name in names if not name.endswith("Error")][:_NAMES]  # KeyError: 0


def _explain(run: Run) -> None:
    """What the last lines of a failed script tell about the cause."""
    from holdfast.present import failure_cause as missing

    hint = missing.explain(run)
    if hint:
        sys.stderr.write("".join(f"{show(line)}\n" for line in hint.splitlines()))
