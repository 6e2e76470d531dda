"""Run directories: claiming an identity, writing the request, reading everything back.

A run's folder appears complete (written beside, synced, renamed) with its ``run.json``, before its id is shown. Readers
tolerate damage: a missing or damaged file costs that run a field, never the whole list.
"""

from __future__ import annotations

import os
import stat
import time

from holdfast.model import Identity, Json
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.runner.store.files import fsync_path, temporary_beside, write_all, write_synced
from holdfast.runner.store.jsonl import read_lines, sealed
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import request_file, run_numbers
from holdfast.store.home import Home, Named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


_NUMBERS = ("seq", "wall_ns", "mono_ns")
# Far beyond what a run of ours has. A target, an archive or a shared folder may send anything, and every command that
# looks at an open run reads these files.
MOST_EVENTS, MOST_EVENT_BYTES = 10_000, 8_000_000
_MOST_NOTES, _MOST_NOTE_BYTES = 100_000, 16_000_000


class Run(Record):
    """A run as its files tell it. ``problem`` is set where run.json could not be read."""

    uid: str
    path: str
    request: Json
    events: list[Json]
    client: list[Json]
    problem: str = ""

    attempt_number: int = 1
    is_unread: bool = False  # the system refused to read a file; the next look may succeed

    @property
    def attempt(self) -> str:
        return os.path.join(self.path, self.attempt_name)

    @property
    def attempt_name(self) -> str:
        return f"a{self.attempt_number}"

    @property
    def ticket(self) -> str:
        """The launcher's ticket of this attempt, as it was noted at the start.

        Where none was noted, the start may have been cut off, and uid and attempt alone are a ticket too.
        """
        return self._noted_ticket or self._bare_ticket

    @property
    def is_start_noted(self) -> bool:
        return bool(self._noted_ticket)

    @property
    def queued_job(self) -> str:
        """The name of the job that waits in a batch queue, as last seen; empty for an attempt that has events."""
        return self._noted_ticket[len(self._bare_ticket) + 1 :] if not self.events else ""

    @property
    def _bare_ticket(self) -> str:
        return f"{self.uid}/{self.attempt_name}"

    @property
    def _noted_ticket(self) -> str:
        """Of this attempt only: every ticket begins with uid and attempt, and a line may come from an archive."""
        for line in reversed(self.client):
            ticket = line.get("ticket") if line.get("type") == "ticket" else None
            if isinstance(ticket, str) and f"{ticket}/".startswith(f"{self._bare_ticket}/"):
                return ticket
        return ""

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel was recorded."""
        return any(line.get("type") == "cancel" for line in self.client)

    @property
    def seen_outcome(self) -> str:
        """How a command saw this attempt end, where no event says that it did: lines of events.jsonl are missing."""
        if any(event.get("type") == "closed" for event in self.events):
            return ""
        ledgers = (line for line in self.client if line.get("type") == "ledger")
        return next((str(line.get("outcome")) for line in ledgers if line.get("attempt") == self.attempt_name), "")

    @property
    def damage(self) -> str:
        """Why nothing certain can be said about this run; empty where its files agree."""
        if self.problem or not self.seen_outcome:
            return self.problem
        what = f"a command saw the run end as {self.seen_outcome}, but there is no event for it"
        return f"{self.attempt}/events.jsonl is damaged: {what}"


def create(home: Home, identity: Identity, request: Json) -> str:
    """Make the run's folder; when this returns, the run is on disk for good. Returns its path.

    ``name`` and ``tags`` of the request are those of the first day: they can be changed in client.jsonl.
    """
    path = home.run(identity.uid)
    beside = temporary_beside(path)
    try:
        os.makedirs(home.runs, 0o700, exist_ok=True)  # the store may be in a folder that others can enter
        os.mkdir(beside, 0o700)
        write_synced(layout.request(beside), sealed({**request, **identity._asdict()}))
        labels = [{"type": key, key: request[key]} for key in ("name", "tags") if request.get(key)]
        if labels:
            lines = (sealed({"wall_ns": time.time_ns(), **label}) for label in labels)
            write_synced(layout.client(beside), b"".join(lines))
        fsync_path(beside)
        os.rename(beside, path)
        fsync_path(home.runs)
        run_numbers.note_created(home)
    except OSError:
        remove_tree(os.fsencode(beside))
        remove_tree(os.fsencode(path))  # its directory entry may not be durable, and its id was not shown yet
        raise
    return path


def append_client(home: Home, uid: str, kind: str, **fields: object) -> None:
    """A client's own line about a run: ticket, cancel intent, name, tags."""
    _append_client(home, uid, kind, fields, sync=True)


def mention_client(home: Home, uid: str, kind: str, **fields: object) -> None:
    """The same for what a power cut may take away again."""
    _append_client(home, uid, kind, fields, sync=False)


def _append_client(home: Home, uid: str, kind: str, fields: Json, *, sync: bool) -> None:
    line = sealed({"wall_ns": time.time_ns(), "type": kind, **fields})
    path = layout.client(home.run(uid))
    with home.lock("client"), Named(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            whole = _end_of_lines(fd)
            os.ftruncate(fd, whole)  # what a killed or refused writer left behind was never reported as stored
            try:
                write_all(fd, line)
            except OSError:
                os.ftruncate(fd, whole)
                raise
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)


def read(home: Home, uid: str) -> Run:
    return read_folder(home.run(uid), uid)


def read_folder(path: str, uid: str) -> Run:
    """The run of this uid whose folder is there."""
    request, problem, is_unread = request_file.read(path, uid)
    number = last_attempt(path)
    file, events, client = layout.events(layout.attempt(path, number)), [], []
    try:
        client = _lines(layout.client(path), _MOST_NOTE_BYTES, _MOST_NOTES)
        events = _lines(file, MOST_EVENT_BYTES, MOST_EVENTS)
        problem = problem or ("" if events else _irregular(file))
    except untrusted.TooLargeError as error:
        problem = problem or f"{error}; the run is of target {request.get('target')!a:.200}"
    except OSError as error:
        return Run(uid, path, request, [], [], problem or f"{path}: {error}", number, is_unread=True)
    return Run(uid, path, request, events, client, problem, number, is_unread)


def _irregular(path: str) -> str:
    """Why nothing can be read from there; empty where it can, or where nothing is."""
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return f"{path} is a dangling symbolic link" if os.path.islink(path) else ""
    return "" if is_file else f"{path} is not a regular file"


def _lines(path: str, limit: int, most: int) -> list[Json]:
    """Lines that say what they are about, with numbers where there must be numbers."""
    lines = read_lines(as_bytes(path), limit, most)
    for line in lines:
        for name in _NUMBERS:
            if name in line and not isinstance(line[name], int):
                del line[name]
    return [line for line in lines if isinstance(line.get("type"), str)]


def attempt(run: Run, number: int) -> Run:
    """The same run as it was at one of its attempts."""
    path = layout.events(layout.attempt(run.path, number))
    try:
        events = _lines(path, MOST_EVENT_BYTES, MOST_EVENTS)
    except (OSError, untrusted.TooLargeError):
        events = []
    return run._replace(attempt_number=number, events=events)


def resumed_from(run: Run) -> int:
    """The number of the earlier attempt whose checkpoints this one found; 0 where it found none."""
    resumed = next((event.get("attempt") for event in run.events if event.get("type") == "resumed"), None)
    number = untrusted.whole_number(resumed[1:]) or 0 if isinstance(resumed, str) and resumed[:1] == "a" else 0
    return number if 0 < number < run.attempt_number else 0


def metric_folders(run: Run) -> list[str]:
    """The folders whose values make up the series of a run: of its newest attempt, and of those that it resumed."""
    folders = [layout.metrics(run.attempt)]
    number = resumed_from(run)
    while number:
        earlier = attempt(run, number)
        folders.insert(0, layout.metrics(earlier.attempt))
        number = resumed_from(earlier)
    return folders


def last_attempt(path: str) -> int:
    """The number of a run's newest attempt: the one that counts."""
    number = 1
    while os.path.isdir(layout.attempt(path, number + 1)):
        number += 1
    return number


def read_plan(run: Run) -> Json | None:
    """The plan of the newest attempt that has one here."""
    for number in range(run.attempt_number, 0, -1):
        plan, problem = request_file.read_object(layout.plan(layout.attempt(run.path, number)))
        if not problem:
            return plan
    return None


def objects_in(document: Json, name: str) -> list[Json]:
    """The objects of a list in a request or plan; what else an archive or a target put there is left out."""
    rows = document.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def uids(home: Home) -> Iterator[str]:
    """Every run directory there is, in no order."""
    try:
        names = os.listdir(home.runs)
    except FileNotFoundError:
        return
    yield from (name for name in names if is_uid(name))


def is_uid(name: str) -> bool:
    try:
        return bool(untrusted.hexadecimal(name, 32))
    except untrusted.Untrusted:
        return False


def _end_of_lines(fd: int) -> int:
    """How long the file is without a last line that was cut off."""
    os.lseek(fd, 0, os.SEEK_SET)
    return os.read(fd, os.fstat(fd).st_size).rfind(b"\n") + 1
