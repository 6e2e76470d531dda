"""A run as one history record: the shape of the original, metrics as top-level keys, our own fields beside them."""

from __future__ import annotations

import os
import time

from holdfast import ledger, lifecycle
from holdfast.model import Json
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.store import output_manifest, package_list, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.runs import Run

_NO_TIME = 1 << 63  # nanoseconds, about 292 years
_NS = 1_000_000_000
_MOST_PER_HOUR = 1e9
INCOMPLETE = "Completed, outputs incomplete"
_FEW = 3  # problems with outputs in one line of text
_ENVELOPE = frozenset(("seq", "wall_ns", "mono_ns", "boot_id", "type", "crc"))
FIXED = frozenset(
    (
        *("run_id", "run_number", "uid", "experiment_id", "user_id", "user", "name", "description", "parent_run_id"),
        *("script_name", "arguments", "target", "run_configuration", "status", "created_utc", "start_time_utc"),
        *("end_time_utc", "duration", "heartbeat_enabled", "hidden", "properties", "attachments", "exit_code"),
        *("reason", "host", "program", "outputs", "metrics", "gpu", "tags", "ledger"),
        *("interpreter", "packages", "conda_packages", "attempts", "parameters", "shared_by", "data", "spark"),
        "run_price",
    )
)


def record(run: Run) -> Json:
    """Everything ``history info`` tells of a run, from its files alone. Files that make no sense cost this run only."""
    try:
        return _record(run)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, IndexError, RecursionError) as error:
        return damaged(run, error)


def damaged(run: Run, error: Exception) -> Json:
    """The record of a run whose files make no sense."""
    problem = f"{run.path}: cannot be read: {type(error).__name__}: {error}"[:500]
    bare = run._replace(request=_identity(run.request), events=[], client=[], problem=run.problem or problem)
    return _record(bare, files=False)


def _identity(request: Json) -> Json:
    return {name: request[name] for name in ("run_id", "run_number", "project_id", "target") if name in request}


def _record(run: Run, *, files: bool = True) -> Json:
    request, events = run.request, run.events
    first, started, exited, closed = (_event(events, kind) for kind in ("accepted", "started", "exited", "closed"))
    ended = None if closed and "damaged" in closed else closed  # a damaged run is closed by a look, long after its end
    values, parameters, script_tags = _logged(run) if files else ({}, {}, {})
    fixed: Json = {
        "run_id": request.get("run_id") or run.uid,
        "run_number": request.get("run_number"),
        "uid": run.uid,
        "experiment_id": request.get("project_id"),
        "user_id": _guid(str(request.get("user", ""))),
        "user": request.get("user"),
        "parent_run_id": request.get("parent_run_id"),
        "script_name": request.get("script"),
        "arguments": request.get("arguments", []),
        "target": request.get("target"),
        "run_configuration": request.get("config"),
        "status": _state(run),
        "created_utc": utc(request.get("created_ns")),
        "start_time_utc": utc((started or {}).get("wall_ns")),
        "end_time_utc": utc((ended or {}).get("wall_ns")),
        "duration": None if closed and not ended else duration(started or first, exited or ended),
        "heartbeat_enabled": True,
        "properties": _properties(request),
        **_labels(run, script_tags),
        "attachments": ", ".join(artifacts(run)) if files else "",
        "exit_code": (closed or {}).get("exit_code"),
        "reason": run.damage or reason(run),
        "host": (first or {}).get("host"),
        "program": (started or {}).get("program"),
        "interpreter": package_list.interpreter(run),
        "outputs": _outputs(run) if files else {"files": 0, "bytes": 0},
        "gpu": gpu_receipt(run),
        "ledger": ledger.ledger(run.client, run.events, run.attempt_number),
    }
    fixed.update(_optional(run, parameters))
    clashing = {name: value for name, value in values.items() if name in FIXED}
    others = {name: value for name, value in values.items() if name not in FIXED}
    return dict(sorted({**others, **fixed, **({"metrics": clashing} if clashing else {})}.items()))


def _optional(run: Run, parameters: Json) -> Json:
    """Fields that most runs do not have."""
    fields = {"parameters": parameters, "data": _data(run), "spark": _spark(run), **_shared_by(run.request)}
    fields["run_price"] = _price(run)
    return {name: value for name, value in fields.items() if value}


def _spark(run: Run) -> Json:
    """The Spark application of the run, and what it did; of a run that goes on, as far as it is known."""
    event = _event(run.events[::-1], "spark")
    if event is None and os.path.exists(layout.spark_file(run.attempt)) and _event(run.events, "closed") is None:
        from holdfast.runner.machine import spark_record

        event = spark_record.so_far(as_bytes(run.attempt))
    return {name: value for name, value in (event or {}).items() if name not in _ENVELOPE}


def _price(run: Run) -> Json:
    """What the target cost while it had the run; nothing where it has no price, or the run has not ended."""
    rate = run.request.get("price_per_hour")
    begun, closed = (_event(run.events, kind) or {} for kind in ("accepted", "closed"))
    since, until = begun.get("wall_ns"), closed.get("wall_ns")
    if not isinstance(rate, (int, float)) or not 0 < rate < _MOST_PER_HOUR:
        return {}
    if not isinstance(since, int) or not isinstance(until, int):
        return {}
    hours = max(0, until - since) / _NS / 3600
    return {"price_per_hour": rate, "hours": round(hours, 6), "price": round(hours * rate, 6)}


def _shared_by(request: Json) -> Json:
    team = request.get("team")
    return {"shared_by": team.get("owner")} if isinstance(team, dict) else {}


def _data(run: Run) -> list[Json]:
    """What the run was given as data; ``changed``: it was written to while the script ran."""
    rows = run.request.get("data")
    event = _event(run.events, "data_changed") or {}
    names = event.get("names")
    changed = names if isinstance(names, list) else []
    listed = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [{**row, "changed": True} if row.get("name") in changed else row for row in listed]


def _logged(run: Run) -> tuple[Json, Json, Json]:
    """Metrics, parameters and tags from the script."""
    from holdfast.metrics import reader

    logged = reader.read_attempts(runs.metric_folders(run))
    return dict(reader.summary(logged)), dict(logged.parameters), dict(logged.tags)


def _state(run: Run) -> str:
    """By its events; where none have come from a silent target yet, by what the client itself has done."""
    if run.damage:
        return "Damaged"
    state = lifecycle.state_of(run.events)
    if state != lifecycle.SUBMITTING or not run.is_start_noted:
        return state
    if run.is_cancelled:
        return lifecycle.CANCEL_REQUESTED
    return lifecycle.QUEUED if run.queued_job else lifecycle.PREPARING


def is_incomplete(record: Json) -> bool:
    """Whether the run completed and some of its outputs are missing."""
    outputs = record.get("outputs")
    lacks_outputs = isinstance(outputs, dict) and outputs.get("complete") is False
    return lacks_outputs and record.get("status") == lifecycle.COMPLETED


def state_words(record: Json) -> str:
    """The status as people are shown it."""
    return INCOMPLETE if is_incomplete(record) else str(record.get("status"))


def tags(run: Run, script_tags: Json) -> Json:
    """Each ``tags`` object of client.jsonl adds to those before and to the script's own; null takes one away."""
    merged = dict(script_tags)
    for line in run.client:
        change = line.get("tags")
        merged.update(change if isinstance(change, dict) else {})
    return {name: value for name, value in merged.items() if value is not None}


def reason(run: Run, *, outputs: bool = True) -> str:
    """Why the run ended as it did, and what of it could not be kept; of one that waits, what for."""
    if run.queued_job:
        return f"job {run.queued_job} waits in the queue of the target"
    if lifecycle.state_of(run.events) == lifecycle.QUEUED:
        return queue_words(next(event for event in reversed(run.events) if event.get("type") == "queued"))
    notes: list[object] = []
    for event in run.events:
        if event.get("type") == "log_stopped":
            notes.append(event.get("why"))
        elif event.get("type") == "closed":
            notes += _few(output_manifest.problems(run)) if outputs else []
            return "; ".join(str(part) for part in (event.get("reason"), *notes) if part)
    return ""


def queue_words(queued: Json) -> str:
    """The place in the queue, and what the run waits for."""
    position, why = queued.get("position"), queued.get("reason")
    ahead = queued.get("ahead")
    if not why and isinstance(ahead, list):
        names = [f"run {entry.get('run_id')} of {entry.get('user')}" for entry in ahead if isinstance(entry, dict)]
        why = f"behind {', '.join(names)}" if names else ""
    return ", ".join(str(part) for part in (f"position {position}" if position is not None else "", why) if part)


def attempts(run: Run) -> list[Json]:
    """One row for each attempt, the first one first: when it began and ended, and why."""
    return [_attempt(runs.attempt(run, number)) for number in range(1, run.attempt_number)] + [_attempt(run)]


def _attempt(run: Run) -> Json:
    closed = _event(run.events, "closed") or {}
    began = _event(run.events, "started") or _event(run.events, "accepted") or {}
    left = _event(run.events, "checkpoints_left")
    return {
        "attempt": run.attempt_number,
        "status": lifecycle.state_of(run.events),
        "start_time_utc": utc(began.get("wall_ns")),
        "end_time_utc": utc(closed.get("wall_ns")),
        "exit_code": closed.get("exit_code"),
        "reason": reason(run, outputs=False),
        "resumed_from": runs.resumed_from(run) or None,
        "checkpoints_left": str(left.get("why")) if left else None,
    }


def gpu_receipt(run: Run) -> Json | None:
    """What a run did with its GPUs, as the runner wrote it down at the end."""
    event = next((event for event in reversed(run.events) if event.get("type") == "gpu_receipt"), None)
    if event is None:
        return None
    inner = event.get("receipt")
    receipt = inner if isinstance(inner, dict) else event
    return {name: value for name, value in receipt.items() if inner is receipt or name not in _ENVELOPE}


def artifacts(run: Run) -> list[str]:
    """Names under which a run's files are known to ``history info --artifact`` and ``history download``."""
    return list(artifact_paths(run))


def artifact_paths(run: Run) -> dict[str, str]:
    """The same with the file behind each name."""
    logs = {"control_log": layout.runner_log(run.attempt), "driver_log": layout.log(run.attempt)}
    paths = {name: path for name, path in logs.items() if os.path.exists(path)}
    for row in output_rows(run):
        name = output_manifest.name_of(row)
        paths[name if name.removesuffix(".txt") not in logs else f"./{name}"] = output_manifest.path_of(run, row)
    return paths


def artifact_path(run: Run, name: str) -> str | None:
    """The file behind an artifact's name; None for a name this run does not have."""
    plain = {"driver_log": layout.log, "control_log": layout.runner_log}
    locate = plain.get(name[:-4] if name.endswith(".txt") else name)
    if locate is not None:
        return locate(run.attempt)
    paths = artifact_paths(run)
    return paths.get(name) or paths.get(name.removeprefix("./"))


def output_rows(run: Run) -> list[Json]:
    return output_manifest.listed(run)


def utc(wall_ns: object) -> str | None:
    """ISO 8601 with microseconds and +00:00; None for what is no time, since files and targets may say anything."""
    if not isinstance(wall_ns, int) or abs(wall_ns) >= _NO_TIME:
        return None
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall_ns // _NS))
    return f"{whole}.{wall_ns % _NS // 1000:06d}+00:00"


def duration(start: Json | None, end: Json | None) -> str | None:
    """h:mm:ss.ffffff between two events, by the monotonic clock where both come from one boot."""
    length = length_ns(start, end)
    if length is None:
        return None
    whole, rest = divmod(length, _NS)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}.{rest // 1000:06d}"


def length_ns(start: Json | None, end: Json | None) -> int | None:
    if start is None:
        return None
    end = end or _now()
    clock = ledger.common_clock(start, end)
    before, after = start.get(clock), end.get(clock)
    return max(0, after - before) if isinstance(before, int) and isinstance(after, int) else None


def _now() -> Json:
    """This moment by both clocks; the second one is comparable within one boot of one machine only."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as source:
            boot_id = source.read().strip()
    except OSError:
        boot_id = ""
    return {"wall_ns": time.time_ns(), "mono_ns": time.monotonic_ns(), "boot_id": boot_id}


def _event(events: list[Json], kind: str) -> Json | None:
    return next((event for event in events if event.get("type") == kind), None)


def _last(lines: list[Json], key: str) -> object:
    return next((line[key] for line in reversed(lines) if key in line), None)


def _labels(run: Run, script_tags: Json) -> Json:
    """What people added afterwards; the last note is the description, an empty one is none."""
    notes = [str(line.get("text") or "") for line in run.client if line.get("type") == "note"]
    return {
        "name": _last(run.client, "name"),
        "description": (notes[-1] if notes else "") or run.request.get("description"),
        "hidden": bool(_last(run.client, "hidden")),
        "tags": tags(run, script_tags),
    }


def _properties(request: Json) -> Json:
    """CommitId names the snapshot, as in the original: the first digits of its hash. Git's commit is GitCommit."""
    tree = str(request.get("tree", ""))
    properties: Json = {"CommitId": tree[:40], "Snapshot": tree}
    git = request.get("git")
    if isinstance(git, dict):
        properties.update(
            {"GitCommit": git.get("commit"), "GitBranch": git.get("branch"), "GitDirty": git.get("dirty")}
        )
    return properties


def _outputs(run: Run) -> Json:
    """``complete`` is null until the run has ended; ``problems`` names what was not kept, or not brought here.

    ``outside`` is about files that the script wrote outside outputs/; the other numbers are not.
    """
    rows, problems = output_rows(run), output_manifest.problems(run)
    rows = [row for row in rows if output_manifest.is_output(row)]
    ended = _event(run.events, "closed") is not None
    return {
        "files": len(rows),
        "bytes": sum(int(str(row["size"])) for row in rows),
        "complete": not problems if ended else None,
        "problems": problems,
        "outside": output_manifest.kept(run),
    }


def _few(problems: list[str]) -> list[str]:
    more = len(problems) - _FEW
    return problems[:_FEW] + ([f"and {more} more"] if more > 0 else [])


def _guid(user: str) -> str:
    import hashlib

    digits = hashlib.sha256(as_bytes(user)).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
