"""Commands about one run: status, logs, cancel, return."""

from __future__ import annotations

import os
import sys

from holdfast import lifecycle
from holdfast.cli import pick
from holdfast.cli.copying import Copier, copy_results, refresh
from holdfast.cli.reach import open_line
from holdfast.cli.show import LogWriter, watch
from holdfast.engine.connection.channel import ASKING, SEARCHING, connect
from holdfast.engine.runs import outputs, reconcile, stop
from holdfast.engine.runs.run_target import target_of
from holdfast.engine.submit import retry as retrying
from holdfast.errors import StoreError, UnreachableError, UsageError
from holdfast.ledger import Stopwatch, since_start_ns
from holdfast.present import ending
from holdfast.present.output import emit
from holdfast.present.terminal import human_bytes, show
from holdfast.runner import untrusted
from holdfast.runner.store import layout
from holdfast.store import history_record, output_manifest
from holdfast.store.home import Named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from holdfast.cli.parse import Parsed
    from holdfast.store.home import Home
    from holdfast.store.runs import Run


def status(parsed: Parsed) -> int:
    """``key : value`` lines, one of them ``state : <Status>``, which old batch files look for."""
    home, run = pick.run(parsed)
    record = history_record.record(run)
    keys = (
        "run_id",
        "run_number",
        "name",
        "script_name",
        "target",
        "start_time_utc",
        "end_time_utc",
        "duration",
        "exit_code",
        "reason",
    )
    state = {"state": record["status"]}
    if history_record.is_incomplete(record):
        state["outputs"] = "incomplete"
    fields = {**state, **{key: record[key] for key in keys if record[key] not in (None, "")}}
    if not retrying.refusal(home, run):
        fields["hint"] = f"holdfast retry -r {record['run_number']} restarts it"
    if parsed.text("output") or parsed.text("query"):
        emit(fields, **parsed.form())
    else:
        for key, value in fields.items():
            sys.stdout.write(f"{key} : {show(str(value))}\n")
    return 0


def retry(parsed: Parsed) -> int:
    """Start a lost or killed run again as a further attempt."""
    home, run = pick.run(parsed)
    target = target_of(run.request, home.path)
    channel = connect(home, target, SEARCHING)
    try:
        retrying.start_again(home, target, channel, run)
    finally:
        channel.close()
    number = run.request.get("run_number")
    sys.stderr.write(f"restarted; holdfast logs -f -r {number} follows its log\n")
    return 0


def logs(parsed: Parsed) -> int:
    home, run = pick.run(parsed)
    log = LogWriter(sys.stdout)
    path = layout.log(run.attempt)
    tail = _tail(parsed)
    shown = 0
    if parsed.text("attempt") is not None:
        return _print_attempt(parsed, run, log)
    if run.attempt_number > 1:
        sys.stderr.write(f"attempt {run.attempt_number}; the log of an earlier one: holdfast logs --attempt 1\n")
    if not parsed.flag("follow") and not os.path.exists(path) and reconcile.is_silent(home, run):
        where, hint = str(run.request.get("target")), "try again when the target can be reached"
        raise UnreachableError("the log of this run is not on this machine yet", where=where, hint=hint)
    if tail is not None:
        shown = _print_tail(path, tail, log)
    final = lifecycle.state_of(run.events) in lifecycle.FINAL or bool(run.seen_outcome)
    if not parsed.flag("follow") or final:
        if tail is None:
            _print_all(path, log)
        return 0
    stopwatch = Stopwatch(since_start_ns())
    with open_line(home, target_of(run.request, home.path), patient=True) as line:
        watch(home, line, run.uid, str(run.request.get("run_id")), log, stopwatch, shown)
    ending.note_fetch(home, run.uid, stopwatch)
    return ending.tell(home, run.uid, None)


def _tail(parsed: Parsed) -> int | None:
    text = parsed.text("tail")
    lines = None if text is None else untrusted.whole_number(text)
    if text is not None and lines is None:
        raise UsageError(f"--tail {text}: not a number of lines")
    return lines


def _print_attempt(parsed: Parsed, run: Run, log: LogWriter) -> int:
    """The log of one attempt, as far as it is on this machine."""
    text, tail = parsed.text("attempt") or "", _tail(parsed)
    number = untrusted.whole_number(text) or 0
    if not 1 <= number <= run.attempt_number:
        hint = "the run has one attempt" if run.attempt_number == 1 else f"use 1 to {run.attempt_number}"
        raise UsageError(f"--attempt {text}: no such attempt", where=str(run.request.get("run_id")), hint=hint)
    path = layout.log(layout.attempt(run.path, number))
    if not os.path.exists(path):
        raise UsageError("the log of this attempt is not on this machine", where=path)
    if tail is not None:
        _print_tail(path, tail, log)
    else:
        _print_all(path, log)
    return 0


def cancel(parsed: Parsed) -> int:
    home, run = pick.run_as_last_seen(parsed)
    state, answer = lifecycle.OUTCOMES.get(run.seen_outcome) or lifecycle.state_of(run.events), ""
    if state not in lifecycle.FINAL:
        state, answer = stop.cancel(home, run.uid, by=os.environ.get("USER", "the user"))
    if state in lifecycle.FINAL and answer != "ended":
        sys.stderr.write(f"{show(str(run.request.get('run_id')))} has already ended: {state}\n")
        return 0
    messages = {
        "asked": "canceling; its processes get SIGTERM now and SIGKILL after the grace period",
        "closed": "ended",
        "ended": f"ended by this command: {state}",
        "elsewhere": "canceling; another node that shares this folder runs it and reads the request within seconds",
    }
    if state == lifecycle.QUEUED:
        messages["asked"] = "removed from the queue; its script will not start"
    sys.stderr.write(f"{show(str(run.request.get('run_id')))}: {show(messages.get(answer, answer))}\n")
    return 0


def return_outputs(parsed: Parsed) -> int:
    """Copy outputs to the project. A file that is there already and different stays, unless --overwrite."""
    from shlex import quote

    home, run = pick.run(parsed)
    download = f"holdfast history download -r {quote(str(run.request.get('run_id')))} -d FOLDER"
    root = pick.project_of(parsed, run, f"change to that project's folder, or use {download}").root
    _refuse_open(home, run)
    copier, problems = Copier(), outputs.bring(home, run)
    refresh(home, run)
    names = output_manifest.names(run)
    for name, why in problems.items():
        copier.problem(names.get(name, f"outputs/{name}"), why)
    kept = copy_results(run, root, copier, problems, overwrite=parsed.flag("overwrite"))
    copied = f"{copier.copied} file{'' if copier.copied == 1 else 's'} ({human_bytes(copier.bytes)})"
    is_mixed = any(not output_manifest.is_output(row) for row in output_manifest.rows(run))
    sys.stderr.write(f"{copied} in {show(root if is_mixed else os.path.join(root, 'outputs'))}\n")
    for why in output_manifest.trouble(run):
        copier.problem("when the script ended", why)
    copier.finish("output", _hint(run, problems, download))
    return 1 if kept else 0


def _refuse_open(home: Home, run: Run) -> None:
    """Results are listed when a run ends; whether this one did is known by its target only."""
    if lifecycle.state_of(run.events) in lifecycle.FINAL:
        return
    if run.damage:
        hint = f"holdfast history delete -r {run.request.get('run_number')} deletes it"
        raise StoreError("this run is damaged", where=run.path, answer=run.damage, hint=hint)
    number, target = run.request.get("run_number"), target_of(run.request, home.path)
    channel = connect(home, target, ASKING)
    try:
        channel.hello()
    except UnreachableError as error:
        what = f"results of the run are on {target.name}, which does not answer"
        hint = f"try again when it answers: holdfast return -r {number}"
        raise UnreachableError(what, where=error.where, answer=error.answer or error.what, hint=hint) from error
    finally:
        channel.close()
    hint = f"holdfast logs -f -r {number} waits for its end"
    raise UsageError("the run has not ended", where=str(run.request.get("run_id")), hint=hint)


def _hint(run: Run, problems: dict[str, str], download: str) -> str:
    again = f"holdfast return -r {run.request.get('run_number')}"
    if problems or output_manifest.is_missing(run):
        return f"try again when this is fixed: {again}"
    if output_manifest.trouble(run):
        return (
            "outputs that were not stored when the script ended cannot be downloaded; the answer shows where they were"
        )
    return f"{download} copies all of them into another folder"


def _print_all(path: str, log: LogWriter) -> None:
    try:
        with Named(path), open(path, "rb") as source:
            while block := source.read(1024 * 1024):
                log.write(block)
    except FileNotFoundError:
        return


def _print_tail(path: str, lines: int, log: LogWriter) -> int:
    """The last lines, found from the end, so that a log of any size costs the same; returns where they end."""
    if not os.path.exists(path):  # the script has printed nothing yet
        return 0
    with open(path, "rb") as source:
        source.seek(_start_of_tail(source, lines))
        while block := source.read(1024 * 1024):
            log.write(block)
        return source.tell()


def _start_of_tail(source: BinaryIO, lines: int) -> int:
    at = source.seek(0, os.SEEK_END)
    if not lines or not at:
        return at
    source.seek(at - 1)
    ends = lines + (source.read(1) == b"\n")  # of lines, from the end: behind the last of them the tail begins
    while at > 0:
        step = min(65536, at)
        at -= step
        source.seek(at)
        block = source.read(step)
        if block.count(b"\n") >= ends:
            return at + len(block.rsplit(b"\n", ends)[0]) + 1
        ends -= block.count(b"\n")
    return 0
