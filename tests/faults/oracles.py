"""What must hold after every fault: O1 to O9, each a function from a stage to what is wrong with it.

They read the files themselves, by docs/formats.md, and not through the code that wrote them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import signal
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conftest import eventually
from faults.stage import age, processes_of
from holdfast.cli.table.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Result
    from faults.stage import Stage

    Records = list[dict[str, Any]]
    Oracle = Callable[[Stage, Records], Iterator[str]]

_TEMPORARY = re.compile(r"(\.tmp|\.deleted|/objects/tmp/(?!lock$)[^/]+|/locks/submit-\w+|/cache/stat2?-[\w-]+\.\d+)$")
_LONGEST_LINE = 32
_FINAL = ("completed", "failed", "canceled", "lost")


def judge(stage: Stage, *, thorough: bool = False) -> list[str]:
    """Wait for every run to end, then ask all oracles; empty when all is well."""
    try:
        records = stage.wait_until_all_ended()
    except AssertionError as error:
        stuck = processes_of(stage.place)
        for pid in stuck:
            os.kill(pid, signal.SIGKILL)
        return [f"O3: {error}; killed {stuck}"]
    found = [f"{name}: {wrong}" for name, oracle in ORACLES.items() for wrong in oracle(stage, records)]
    return found + [f"O7: {wrong}" for wrong in (_says_verify(stage) if thorough else ())]


def every_id_is_in_history(stage: Stage, records: Records) -> Iterator[str]:
    there = {record["run_id"] for record in records}
    yield from (f"{run_id} was printed and is not in the history" for run_id in stage.ids - stage.deleted - there)
    numbers = [record["run_number"] for record in records]
    if len(set(numbers)) != len(numbers) or len(there) != len(records):
        yield f"two runs share a name or a number: {sorted(numbers)}"


def started_at_most_once(stage: Stage, _records: Records) -> Iterator[str]:
    starts = _starts(stage)
    yield from (f"{uid} was started {starts.count(uid)} times" for uid in set(starts) if starts.count(uid) > 1)


def one_true_end(stage: Stage, records: Records) -> Iterator[str]:
    starts = _starts(stage)
    for record in records:
        uid = record["uid"]
        closings = [event for event in stage.events_of(uid) if event["type"] == "closed"]
        if len(closings) != 1:
            yield f"{uid} has {len(closings)} closing events"
            continue
        told = record["status"].lower(), record["exit_code"]
        if told != (closings[0]["outcome"], closings[0]["exit_code"]) or told[0] not in _FINAL:
            yield f"{uid} is told as {told} and was closed as {closings[0]}"
        if (told[0] == "completed") != (told[1] == 0):
            yield f"{uid} is {told[0]} with exit code {told[1]}"
        ended = (stage.truth / f"{uid}.end").exists()
        if told[0] == "completed" and not ended:
            yield f"{uid} is completed and its script did not come to its end"
        if uid in starts and told[0] != "completed" and uid not in stage.meddled:
            yield f"{uid} is {told}, {record['reason']!r}, and nobody touched it or its script"


def logs_are_equal(stage: Stage, records: Records) -> Iterator[str]:
    for record in records:
        uid = record["uid"]
        here = _read(stage.home / "runs" / uid / "a1" / "log")
        wrote = _read(stage.truth / f"{uid}.log")
        if here != _read(stage.attempt_of(uid) / "log"):
            yield f"{uid}: the log at home is not the target's"
        # What is told as lost has lost what the dead supervisor had not read; any other end loses at most the line that
        # a killed script had announced and not yet printed.
        lost = {"Completed": 0, "Lost": len(wrote)}.get(record["status"], _LONGEST_LINE)
        if not wrote.startswith(here) or len(wrote) - len(here) > lost:
            yield f"{uid}: the script wrote {len(wrote)} bytes, the log holds {len(here)} and is not their beginning"


def metrics_are_equal(stage: Stage, records: Records) -> Iterator[str]:
    for record in records:
        uid = record["uid"]
        wrote = [(int(line), float(line)) for line in _read(stage.truth / f"{uid}.metrics").split()]
        kept = [point for path in (stage.home / "runs" / uid / "a1").glob("metrics/*.m") for point in _points(path)]
        exact = wrote if record["status"] == "Completed" else wrote[: len(kept)]
        if kept != exact or len(kept) < len(wrote) - 1:
            yield f"{uid}: {len(wrote)} points were logged, {len(kept)} are there"
        told = record.get("point", [])
        values = [value for _, value in kept]
        if (told if isinstance(told, list) else [told]) != (values if len(values) <= 1000 else values[-1:]):
            yield f"{uid}: the history tells other points than the files"


def nothing_is_left(stage: Stage, _records: Records) -> Iterator[str]:
    """No process, no held lock, no mount; after a prune no temporary name, however young it is."""
    try:
        eventually(lambda: not processes_of(stage.place), stage.patience)
    except AssertionError:
        yield f"still running: {processes_of(stage.place)}"
    yield from (f"{path} is still held" for path in _lock_files(stage) if _stays_held(path, stage.patience))
    yield from (f"{place} is mounted" for place in mounts_below(stage.place, Path("/proc/self/mountinfo")))
    for path in _temporary(stage):
        age(path, hours=2)
    result = stage.say("store", "prune", "-o", "json")
    if result.code != 0:
        yield f"prune says {result}"
    yield from (f"{path} is left" for path in _temporary(stage))


def store_is_whole(stage: Stage, _records: Records) -> Iterator[str]:
    """Every object is what its name says, every run has all its objects, the index is sound."""
    for store in filter(None, (stage.home, stage.far)):
        for path in store.glob("objects/??/*"):
            if hashlib.sha256(path.read_bytes()).hexdigest() != path.parent.name + path.name:
                yield f"{path} is not what its name says"
    for uid, request in stage.requests().items():
        yield from (f"{uid} lacks {digest}" for digest in missing(stage.home / "objects", request["tree"]))
    for saved in (stage.home / "saved").glob("[0-9a-f]" * 64):
        yield from (f"the saved state {saved.name} lacks {it}" for it in missing(stage.home / "objects", saved.name))
    try:
        with closing(sqlite3.connect(stage.home / "index.sqlite")) as index:
            answer = index.execute("PRAGMA integrity_check").fetchall()
    except sqlite3.DatabaseError as error:
        answer = [(str(error),)]
    if answer != [("ok",)]:
        yield f"the index: {answer}"


def secrets_are_nowhere(stage: Stage, _records: Records) -> Iterator[str]:
    canary = stage.canary.encode()
    for top in filter(None, (stage.home, stage.far, stage.project)):
        for path in top.rglob("*"):
            if path.is_file() and canary in path.read_bytes():
                yield f"{path} holds a secret"
    yield from (
        f"a command printed a secret: {result}" for result in stage.said if canary in result.out + result.err.encode()
    )


def failures_are_explained(stage: Stage, records: Records) -> Iterator[str]:
    """Exit code non-zero where work is not done; cause, place and next command in words."""
    status = {record["run_id"]: record["status"] for record in records}
    for record in records:
        if record["status"] != "Completed" and not (record["reason"] and record["exit_code"]):
            yield f"{record['run_id']} is {record['status']} without a reason"
    for result in stage.said:
        if result.code > 0 and not _is_explained(result):
            yield f"exit code {result.code} without cause, place and next command: {result.err!r}"
        if result.code == 0 and b"\nExecution Details\n" in result.out:
            run_id = result.text.rpartition("RunId: ")[2].strip()
            if status.get(run_id) != "Completed":
                yield f"exit code 0, and {run_id} is {status.get(run_id)}"


ORACLES: dict[str, Oracle] = {
    "O1": every_id_is_in_history,
    "O2": started_at_most_once,
    "O3": one_true_end,
    "O4": logs_are_equal,
    "O5": metrics_are_equal,
    "O6": nothing_is_left,
    "O7": store_is_whole,
    "O8": secrets_are_nowhere,
    "O9": failures_are_explained,
}


def mounts_below(place: Path, table: Path) -> list[str]:
    points = [line.split()[4] for line in table.read_text().splitlines()]
    return [point for point in points if point.startswith(f"{place}/")]


def missing(objects: Path, digest: str) -> list[str]:
    """Objects that a tree needs and that are not there."""
    path = objects / digest[:2] / digest[2:]
    if not path.exists():
        return [digest]
    found = []
    try:
        entries = json.loads(path.read_bytes())["entries"]
    except ValueError:
        return [digest]  # there in name only
    for entry in entries:
        if entry["type"] == "dir":
            found += missing(objects, entry["digest"])
        elif entry["type"] == "file" and not (objects / entry["digest"][:2] / entry["digest"][2:]).exists():
            found.append(entry["digest"])
    return found


def _says_verify(stage: Stage) -> Iterator[str]:
    if any(command.words == ("store", "verify") for command in COMMANDS):
        result = stage.say("store", "verify")
        if result.code != 0:
            yield f"store verify says {result}"


def _starts(stage: Stage) -> list[str]:
    return [line.split()[0].decode() for line in _read(stage.truth / "starts").splitlines()]


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _points(path: Path) -> Iterator[tuple[int, float]]:
    data = path.read_bytes()[64:]
    for offset in range(0, len(data) - 31, 32):
        _, step, _, value = struct.unpack_from("<QqQd", data, offset)
        yield step, value


def _lock_files(stage: Stage) -> Iterator[Path]:
    for store in filter(None, (stage.home, stage.far)):
        for pattern in ("locks/*", "runs/*/a*/alive", "objects/tmp/lock"):
            yield from store.glob(pattern)


def _stays_held(path: Path, patience: float) -> bool:
    """A process that has just ended may still be letting go of its files."""
    try:
        eventually(lambda: not _is_held(path), patience)
    except AssertionError:
        return True
    return False


def _is_held(path: Path) -> bool:
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _temporary(stage: Stage) -> list[Path]:
    tops = (stage.home, stage.project)
    paths = (path for top in tops for path in top.rglob("*"))
    return [path for path in paths if _TEMPORARY.search(str(path)) and "workspace" not in path.parts]


def _is_explained(result: Result) -> bool:
    if result.code == 130:  # the person who pressed Ctrl-C knows the cause
        return True
    ended = re.search(r"^. (Failed|Canceled|Lost) in .* · .+ · holdfast info -r \d+$", result.err, re.MULTILINE)
    error = all(label in result.err for label in ("ERROR: ", "at: ", "try: "))
    return bool(ended) or error
