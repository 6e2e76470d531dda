"""Reads and writes the streams of a remote command with deadlines, and reads its exit status.

Progress extends the deadline, so that a slow link is not taken for a dead one; a target that sends nothing, or a byte
now and then, is given up. Bytes of unrequested frames extend nothing, and no byte extends a limit for the whole
connection.
"""

from __future__ import annotations

import os
import select
import sys
import time

from holdfast.record import Record
from holdfast.runner import wire
from holdfast.runner.decoding import readable
from holdfast.runner.store import fork_guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.model import Json
    from holdfast.ports import Host, Stream

SLOWEST = 4096.0  # bytes per second; a link that is slower than this counts as silent
_LATE_S = 0.5  # for reading what came before a deadline that passed while this process was stopped
_SLICE_S = 1.0  # of a wait; one that took much longer tells that this process was stopped meanwhile
QUIET_S = 8.0  # without a byte; ``on_quiet`` is called then, once per wait
TOLD_S = QUIET_S  # of heartbeats alone; the user is told then
# Requests that cost the target more than a question does: seconds, or None for as long as they take.
_WORK_S = {
    "data make": None,
    "data remove": None,
    "data verify": None,
    "exec": None,
    "image": None,
    "load": None,
    "prepare": None,
    "save": None,
    "solve": None,
    "touch": 70.0,
}
_MOST_STDERR = 16_000
_MOST_OUTPUT = 1_000_000
_EXIT_S = 2.0  # between the end of its output and the end of the command itself
_ENDING: list[int] = []


class Overdue(Exception):
    """The other side sent nothing, or took nothing, within the time it was given."""


class Unfinished(Overdue):
    """The time for the whole conversation is over."""


class Ended(Record):
    """A command that has ended, or was stopped because it took too long (``is_late``). ``status`` None: not known."""

    out: bytes
    stderr: str
    status: int | None
    is_late: bool = False


class Transport:
    """One running command. ``expect`` sets the deadline that all reads and writes obey until it is set again.

    ``until``: when the conversation, or the question that is being answered, has to be over, by time.monotonic().
    ``on_quiet``: called when the other side has sent or taken nothing for ``QUIET_S`` and is still waited for.
    """

    def __init__(self, stream: Stream, until: float | None = None, on_quiet: Callable[[], None] | None = None) -> None:
        self.until = until
        self._on_quiet = on_quiet
        self.is_extended = True  # by what arrives: a slow link is given the time that the bytes take
        self._bought = 0.0  # seconds, by bytes of a frame that is not complete
        self._late_since: float | None = None
        self._stream = stream
        self._deadline: float | None = None
        self._given: float | None = None
        self._status: int | None = None
        self._is_open = True
        self.received = 0  # bytes
        self._is_timed = sys.platform != "win32"  # select() knows only sockets there
        if sys.platform != "win32":
            os.set_blocking(stream.stdin, False)
        fork_guard.adopt(stream.stdin, stream.stdout, stream.stderr)
        self.reader = wire.FrameReader(stream.stdout, self._before_read)

    @property
    def pid(self) -> int:
        return self._stream.pid

    def expect(self, seconds: float | None) -> None:
        self._given = seconds
        self._bought, self._late_since = 0.0, None
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def renew(self) -> None:
        """The same time once more."""
        self.expect(self._given)

    def refuse_frame(self) -> None:
        """The last frame was not requested: undo the extension of the deadline by its bytes."""
        if self._deadline is not None:
            self._deadline -= self._bought
        self._bought = 0.0

    def accept_frame(self) -> None:
        self._bought = 0.0

    def write(self, data: bytes) -> None:
        """All of it; wire.Closed where the other side is gone.

        Only a write that has to wait starts the time again: what a pipe takes at once is no sign of life.
        """
        if not self._is_timed:
            wire.write_all(self._stream.stdin, data)
            return
        view = memoryview(data)
        while view:
            try:
                count = os.write(self._stream.stdin, view)
            except BlockingIOError:
                self.renew()
                self._wait(self._stream.stdin, writing=True)
                continue
            except BrokenPipeError as error:
                raise wire.Closed("the other side closed the connection") from error
            view = view[count:]

    def status(self) -> int | None:
        """The exit status, waited for a moment; None while the command runs."""
        if sys.platform == "win32":
            return None
        limit = time.monotonic() + _EXIT_S
        while self._status is None:
            try:
                pid, status = os.waitpid(self._stream.pid, os.WNOHANG)
            except ChildProcessError:
                break
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > limit:
                break
            else:
                time.sleep(0.005)
        return self._status

    def stderr(self) -> str:
        """What it wrote to stderr so far. Others may hold that pipe open: its end is not waited for."""
        output = b""
        if not self._is_timed:
            return ""
        while len(output) < _MOST_STDERR and _is_ready(self._stream.stderr, 0.05 if self._status is not None else 0.2):
            block = os.read(self._stream.stderr, 4000)
            if not block:
                break
            output += block
        return readable(output).strip()

    def stop(self) -> None:
        """End the command on this side: an ssh whose remote command hangs would wait for it."""
        if self._status is None and sys.platform != "win32":
            import signal

            try:
                os.kill(self._stream.pid, signal.SIGTERM)
            except OSError:
                return  # it has ended

    def close(self) -> None:
        """Close the connection, once. The runner then ends; this does not wait for it."""
        if not self._is_open:
            return
        self._is_open = False
        for fd in (self._stream.stdin, self._stream.stdout, self._stream.stderr):
            fork_guard.close(fd)
        if self._status is None:
            _reap(self._stream.pid)

    def _before_read(self, received: int) -> None:
        """Called with what the last read brought, before the next one."""
        self.received += received
        if self._is_timed and self._deadline is not None:
            earned = received / SLOWEST if self.is_extended else 0.0
            self._deadline += earned
            self._bought += earned
            self._check_late(time.monotonic())
            self._wait(self._stream.stdout, writing=False)

    def _wait(self, fd: int, *, writing: bool) -> None:
        quiet = 0.0
        while True:
            began = time.monotonic()
            left = max(0.0, self._end() - began)
            pause = min(left, _SLICE_S)
            if _is_ready(fd, pause, writing=writing):
                return
            stopped = time.monotonic() - began - pause
            if stopped > _SLICE_S and self._deadline is not None:
                self._deadline += stopped  # by Ctrl-Z, or with the machine: the other side had nothing to answer
            elif left <= pause and not _is_ready(fd, 0.05, writing=writing):
                raise self._overdue()
            quiet += pause
            if self._on_quiet is not None and QUIET_S <= quiet < QUIET_S + pause:
                self._on_quiet()

    def _check_late(self, now: float) -> None:
        if now <= self._end():
            return
        self._late_since = self._late_since or now
        if now - self._late_since > _LATE_S:
            raise self._overdue()

    def _end(self) -> float:
        return min(limit for limit in (self._deadline, self.until, float("inf")) if limit is not None)

    def _overdue(self) -> Overdue:
        is_over = self.until is not None and time.monotonic() >= self.until
        return Unfinished() if is_over else Overdue()


class Waiting:
    """A request that is being answered, and how long there was nothing but heartbeats.

    ``limit``: seconds for a question; ``spent``: how many of them are over.
    """

    def __init__(
        self, request: Json | None = None, is_progress: bool = True, limit: float | None = None, spent: float = 0.0
    ) -> None:
        fields = request or {}
        self.verb = str(fields.get("verb"))
        self._is_progress = is_progress
        self._has_progress = False
        work = f"data {fields.get('act')}" if self.verb == "data" else self.verb
        self.limit = None if limit is None or fields.get("wait") else _WORK_S.get(work, limit)
        # A run that was read completely may print nothing for hours.
        self._is_told = self.verb == "exec" or bool(fields.get("have"))
        self._since = time.monotonic() - spent
        self.beats = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since

    @property
    def until(self) -> float | None:
        """When the answer has to be complete; None where each part of it gives the target its time again."""
        return None if self.limit is None or self._is_progress else self._since + self.limit

    def take(self, header: Json, *, is_answer: bool) -> bool:
        """Whether this frame gives the target its time again."""
        if is_answer and (self._is_progress or header.get("end")):
            self._since, self.beats, self._has_progress = time.monotonic(), 0, True
            self._is_told = self._is_told or self._is_progress
            return True
        is_beat = is_answer or header.get("beat") is True
        self.beats += is_beat
        return is_beat and (self.limit is None or self.seconds < self.limit)

    @property
    def is_limited(self) -> bool:
        """A download that has begun may stall for as long as other work."""
        return self.limit is not None and not (self._has_progress and not self.beats)

    def renewed(self, answer: float) -> float:
        """Seconds until the next frame has to come."""
        if self.limit is None or not self.is_limited:
            return answer
        return max(0.0, min(answer, self.limit - self.seconds))

    def is_long(self) -> bool:
        """Whether to tell the user, once."""
        if self._is_told or not self.beats or self.seconds < TOLD_S:
            return False
        self._is_told = True
        return True


def run_to_end(host: Host, argv: tuple[str, ...], limit: float) -> Ended:
    """Run a command without input to its end, or for so many seconds."""
    stream = host.run(argv)
    os.close(stream.stdin)
    if sys.platform == "win32":
        out = _drain(stream.stdout)
        return Ended(out, readable(_drain(stream.stderr)).strip(), None)
    deadline, parts = time.monotonic() + limit, {stream.stdout: b"", stream.stderr: b""}
    waiting = [stream.stdout, stream.stderr]
    while stream.stdout in waiting and time.monotonic() < deadline and max(map(len, parts.values())) < _MOST_OUTPUT:
        for fd in readable_of(waiting, deadline - time.monotonic()):
            block = os.read(fd, 65536)
            parts[fd] += block
            if not block:
                waiting.remove(fd)
    transport = Transport(stream._replace(stdin=os.open(os.devnull, os.O_WRONLY)))
    is_late = stream.stdout in waiting
    status = None if is_late else transport.status()
    stderr = (readable(parts[stream.stderr]) + transport.stderr()).strip()
    if is_late:
        transport.stop()
    transport.close()
    return Ended(parts[stream.stdout], stderr, status, is_late)


def _drain(fd: int) -> bytes:
    content = b""
    while block := os.read(fd, 65536):
        content += block
    os.close(fd)
    return content


def readable_of(fds: Iterable[int], seconds: float) -> list[int]:
    """Those that can be read, or have ended, within so many seconds. By poll: select refuses descriptors above 1023."""
    if sys.platform == "win32":
        return list(fds)
    watcher = select.poll()
    for fd in fds:
        watcher.register(fd, select.POLLIN)
    return [fd for fd, _ in watcher.poll(max(0.0, seconds) * 1000)]


def _is_ready(fd: int, seconds: float | None, *, writing: bool = False) -> bool:
    if sys.platform == "win32":
        return True
    watcher = select.poll()
    watcher.register(fd, select.POLLOUT if writing else select.POLLIN)
    return bool(watcher.poll(None if seconds is None else seconds * 1000))


def _reap(pid: int) -> None:
    """Take leave of children that have ended; one that has not is asked again with the next."""
    if sys.platform == "win32":
        return
    _ENDING.append(pid)
    for child in list(_ENDING):
        try:
            if os.waitpid(child, os.WNOHANG)[0] == child:
                _ENDING.remove(child)
        except (ChildProcessError, ValueError):
            _forget(child)


def _forget(child: int) -> None:
    try:
        _ENDING.remove(child)
    except ValueError:
        return  # another thread did
