"""The rows of a run in the index: fixed fields, one row per parameter, metric and tag, its record.

Read from the run's own small files; no hash is checked and no log is opened. With many runs to read, several processes
do it, each over a pipe of its own: one whose reader was killed ends at its next word.
"""

from __future__ import annotations

import json
import marshal
import os
import struct
import sys
from binascii import crc32

from holdfast import lifecycle, parameters
from holdfast.metrics import reader
from holdfast.runner.store import layout
from holdfast.store import history_record, runs
from holdfast.store.where.fields import IN_ROW, storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

    Cell: TypeAlias = int | float | str | None
    # kind, name, last, least, greatest, points
    Stored: TypeAlias = tuple[str, str, Cell, Cell, Cell, Cell]
    # uid, whether it has ended, the columns of COLUMNS, the script's words, the values, the record as JSON, whether
    # all of this stays as it is until a file of the run changes
    Row: TypeAlias = tuple[str, bool, tuple[Cell, ...], str, list[Stored], bytes, bool]

COLUMNS = (*IN_ROW, "stamp", "started")
_MANY = 2000
_AT_ONCE = 32
_HEAD = struct.Struct("<I")
_SET_PIPE_SIZE = 1031  # has a name from Python 3.10 on, on some systems
_PIPE_SIZE = 1 << 20
_LARGEST = 2**63
TRUTH = -1  # in the place of a count of points: this parameter is true or false


def read(home: Home, uid: str) -> Row:
    run = runs.read(home, uid)
    record = history_record.record(run)
    try:
        return _row(run, record)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, IndexError, RecursionError) as error:
        record = history_record.damaged(run, error)
        return (
            uid,
            False,
            _columns(run._replace(request={}, events=[]), record, {}),
            "",
            [],
            json.dumps(record).encode(),
            not run.is_unread,
        )


def _row(run: Run, record: Json) -> Row:
    uid = run.uid
    logged = reader.read_lately(runs.metric_folders(run))
    plan = runs.read_plan(run) or {}
    return (
        uid,
        record["status"] in lifecycle.FINAL,
        _columns(run, record, plan),
        storable(" ".join(map(str, _list(run.request.get("arguments"))))),
        [*_parameters(run, logged), *_metrics(logged), *_tags(run, logged)],
        json.dumps(listed(record)).encode(),
        record["status"] == "Damaged" and not run.is_unread,
    )


def listed(record: Json) -> Json:
    """A record as lists show it: where its time went is noted after a run has ended, and read from the run itself."""
    return {name: value for name, value in record.items() if name != "ledger"}


def read_all(home: Home, uids: Sequence[str]) -> Iterator[Row]:
    """The same of many, in no order."""
    if len(uids) < _MANY or sys.platform == "win32" or _has_threads():
        yield from (read(home, uid) for uid in uids)
        return
    pipes = [_Reader(home, uids[number :: _processes()]) for number in range(_processes())]
    try:
        while pipes:
            for pipe in list(pipes):
                batch = pipe.next()
                yield from batch
                if not batch:
                    pipes.remove(pipe)
                    yield from (read(home, uid) for uid in pipe.missing())
    finally:
        for pipe in pipes:
            pipe.close()


def _has_threads() -> bool:
    """A child of a program with threads may wait for ever for a lock that another thread held at the fork."""
    threading = sys.modules.get("threading")
    return threading is not None and threading.active_count() > 1


class _Reader:
    """A child that reads some of the runs."""

    def __init__(self, home: Home, uids: Sequence[str]) -> None:
        self._uids = uids
        self._done = 0
        source, sink = os.pipe()
        _widen(sink)
        self._pid = _fork()
        if not self._pid:
            try:
                os.close(source)
                _tell(home, uids, sink)
            finally:
                os._exit(0)
        os.close(sink)
        self._pipe = open(source, "rb")  # noqa: SIM115

    def next(self) -> list[Row]:
        """Some more; none when it has ended."""
        head = self._pipe.read(_HEAD.size)
        size = _HEAD.unpack(head)[0] if len(head) == _HEAD.size else 0
        data = self._pipe.read(size)
        if not size or len(data) < size:
            self.close()
            return []
        batch: list[Row] = marshal.loads(data)
        self._done += len(batch)
        return batch

    def missing(self) -> Sequence[str]:
        """What it should have read and did not: it failed or was killed."""
        return self._uids[self._done :]

    def close(self) -> None:
        if not self._pipe.closed:
            self._pipe.close()
            os.waitpid(self._pid, 0)


def _fork() -> int:
    if sys.platform == "win32":
        raise NotImplementedError
    return os.fork()


def _widen(sink: int) -> None:
    """Enlarge the pipe's buffer: otherwise reader and writer wait for each other."""
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(sink, _SET_PIPE_SIZE, _PIPE_SIZE)
        except OSError:
            pass  # this user has many wide ones already


def _tell(home: Home, uids: Sequence[str], sink: int) -> None:
    with open(sink, "wb") as pipe:
        for start in range(0, len(uids), _AT_ONCE):
            data = marshal.dumps([read(home, uid) for uid in uids[start : start + _AT_ONCE]])
            pipe.write(_HEAD.pack(len(data)) + data)
            pipe.flush()


def _processes() -> int:
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _columns(run: Run, record: Json, plan: Json) -> tuple[Cell, ...]:
    git, gpu, environment = (
        _object(value) for value in (run.request.get("git"), record.get("gpu"), plan.get("environment"))
    )
    more: Json = {
        "branch": git.get("branch"),
        "commit": git.get("commit"),
        "dirty": git.get("dirty"),
        "duration": _seconds(run),
        "environment": environment.get("key"),
        "gpu.name": next((card.get("name") for card in map(_object, _list(gpu.get("gpus")))), None),
        "gpu.verdict": gpu.get("verdict"),
    }
    cells = [_cell(more[name] if name in more else record.get(name)) for name in IN_ROW]
    return (*cells, _stamp(str(record["run_id"])), _started(run))


def _parameters(run: Run, logged: reader.Metrics) -> Iterator[Stored]:
    """Of the command line, and as the script logged them: those are the values that it used."""
    arguments = [word for word in _list(run.request.get("arguments")) if isinstance(word, str)]
    for name, value in {**parameters.read(arguments), **logged.parameters}.items():
        yield "param", storable(name), _cell(value), None, None, TRUTH if isinstance(value, bool) else None


def _metrics(metrics: reader.Metrics) -> Iterator[Stored]:
    for series in metrics.by_name.values():
        values = series.values
        least, greatest = (None, None) if len(values) == 1 else reader.extremes(values)
        last = _cell(reader.json_value(values[-1]))
        yield "metric", storable(series.name), last, _cell(least), _cell(greatest), len(values)


def _tags(run: Run, logged: reader.Metrics) -> Iterator[Stored]:
    for name, value in history_record.tags(run, dict(logged.tags)).items():
        yield "tag", storable(name), _cell(value), None, None, None


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGEST <= value < _LARGEST else float(value) if abs(value) < 1e300 else str(value)[:40]
    return storable(value if isinstance(value, str) else json.dumps(value))


def _seconds(run: Run) -> float | None:
    """Of a run that has ended; the others grow while one looks."""
    ends = {event.get("type"): event for event in reversed(run.events)}
    if "closed" not in ends or "damaged" in ends["closed"]:
        return None
    length = history_record.length_ns(ends.get("started") or ends.get("accepted"), ends.get("exited") or ends["closed"])
    return None if length is None else length / 1e9


def _started(run: Run) -> float | None:
    moments = (event.get("wall_ns") for event in run.events if event.get("type") in ("started", "accepted"))
    times = [moment for moment in moments if isinstance(moment, int)]
    return times[-1] / 1e9 if times else None


def _stamp(run_id: str) -> int:
    """The milliseconds in a run id, which only ever grow: the order in which runs began, whatever the clock did."""
    digits = run_id.rpartition("_")[2]
    return int(digits) if digits.isdigit() and digits.isascii() and len(digits) < 19 else 0


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def request_mark(folder: str, uid: str) -> int:
    """Changes with run.json, which is written once."""
    try:
        status = os.stat(f"{folder}/{uid}/{layout.request.name}")
    except OSError:
        return 0
    return crc32(b"%d %d" % (status.st_size, status.st_mtime_ns)) or 1


def damage_mark(home: Home, uid: str) -> int:
    """Changes with every file that tells what happened to a run."""
    path = home.run(uid)
    events = layout.events(layout.attempt(path, runs.last_attempt(path)))
    states = []
    for file in (layout.request(path), layout.client(path), events):
        try:
            status = os.stat(file)
        except OSError:
            states.append((file, 0, 0))
        else:
            states.append((file, status.st_size, status.st_ctime_ns))
    return crc32(repr(states).encode("utf-8", "replace"))
