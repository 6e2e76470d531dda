"""The client's end of a connection to the runner: requests, replies, hello.

``RunnerChannel(host, ...)`` starts the runner and returns; the first request waits for its hello. So the runner's
interpreter starts while the client is still reading and hashing. If the target lacks this version of the runner, the
connection is opened again and the runner is sent along.
"""

from __future__ import annotations

import os
import time

from holdfast.answers import check_hello, error_code
from holdfast.engine.connection import bundle
from holdfast.engine.connection.transport import QUIET_S, Overdue, Transport, Unfinished, Waiting
from holdfast.errors import (
    MalformedAnswerError,
    NoPlaceError,
    RemoteCommandError,
    ResourceError,
    RunnerError,
    SilentError,
    StoreError,
    UnfinishedError,
    UnreachableError,
)
from holdfast.ledger import now_ns
from holdfast.record import Record
from holdfast.runner import untrusted, wire
from holdfast.runner.decoding import as_bytes, escaped, readable
from holdfast.runner.machine import limits
from holdfast.runner.store import layout
from holdfast.runner.store.files import unlink_quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.errors import HoldfastError
    from holdfast.model import Json
    from holdfast.ports import Host
    from holdfast.store.home import Home
    from holdfast.target_lookup import Target

# By name: the numbers differ between systems.
_LIMITED = frozenset(("EAGAIN", "EMFILE", "ENFILE", "ENOMEM", "EFBIG"))
_REFUSED = frozenset(("ENOSPC", "EDQUOT", "EROFS", "EIO", "EACCES", "EPERM", "EEXIST", "ENOTDIR", "ENOTEMPTY"))

_MOST_QUOTED = 2000
_OF_SSH = 255  # the exit status by which ssh says that it is not the remote command's
_MOST_NOISE = 1_000_000  # bytes that a login shell may print before the runner's first line
_UPLOAD = 32_768.0  # bytes per second that the runner itself is sent with, at the least
_TYPING_S = 120.0  # to the hello of a target for which a person types a password


class Patience(Record):
    """Seconds that a target may take for its hello, and for each answer after it.

    ``is_renewed``: with every answer or heartbeat it has its time again; else only by ``RunnerChannel.renew``.
    ``total``: for the whole conversation, whatever is sent in it.
    ``question``: for the answer to one question, whatever is sent meanwhile; that to the first one counts from the
    start of the connection. Where an answer comes in parts, it is how long heartbeats alone are waited for. None for
    work that takes as long as it takes.
    """

    hello: float
    answer: float
    is_renewed: bool = True
    total: float | None = None
    question: float | None = None


WORKING = Patience(30.0, 60.0)
# For questions that cost the target little: a person waits for the answer.
ASKING = Patience(9.5, 15.0, question=9.5)
# For questions about everything that a target has: it may have to look at millions of files.
SEARCHING = Patience(20.0, 15.0, question=600.0)
# For commands that look at runs: what does not answer by then is shown as last seen.
LOOKING = Patience(5.0, 3.5, is_renewed=False, total=8.0)


def connect(
    home: Home, target: Target, patience: Patience = WORKING, on_quiet: Callable[[str], None] | None = None
) -> RunnerChannel:
    """``on_quiet`` is called with a sentence when the target has sent nothing for a while and is waited for."""
    note = layout.runner_digest(home.path)
    channel = RunnerChannel(target.host, target.runner_python, target.home, target.name, note, patience, on_quiet)
    try:
        channel.silent_note = home.silent(target.name)
    except untrusted.Untrusted:
        pass  # there is no note about a target of such a name
    return channel


class RunnerChannel:
    def __init__(
        self,
        host: Host,
        python: str,
        home: str | None,
        name: str,
        note: str = "",
        patience: Patience = WORKING,
        on_quiet: Callable[[str], None] | None = None,
    ) -> None:
        self._on_quiet = on_quiet
        typing = _TYPING_S if host.asks_person else 0.0
        self._is_typed = bool(typing)
        self._patience = patience._replace(hello=typing or patience.hello)
        self._until = None if patience.total is None else time.monotonic() + patience.total + typing
        self._host = host
        self._python = python
        self._home = home
        self._name = name
        self._runner = bundle.digest(note)
        self._hello: Json = {}
        self._requests = 0
        self._is_open = True
        self._behind: Json = {}
        self._early: dict[int, Json] = {}
        self._waiting = Waiting()
        self._spent = 0.0  # seconds of the first question that the hello took
        self.is_broken = False  # nothing more can be asked
        self.waited_ns = 0  # for the first answer
        self.silent_note = ""  # a file that says since when the target is silent; removed when it answers
        self._begin(b"")

    @property
    def has_answered(self) -> bool:
        return bool(self._hello)

    @property
    def received(self) -> int:
        """Bytes from the target since its command was begun."""
        return self._transport.received

    def hello(self) -> Json:
        """Who is there: protocol, runner, store id, boot id, host name, Python version."""
        if not self._hello:
            began = now_ns()
            answer = self._await_nonce()
            is_installed = answer != "need"
            if not is_installed:
                self._hang_up()
                self._begin(bundle.to_zip())
                self._early = {self._send(request): request for request in self._early.values()}
                answer = self._await_nonce()
            if answer != "ready":
                raise self._refused(answer)
            header, _ = self._frame()
            if header.get("refused"):
                raise self._refused(f"refused {header['refused']}")
            self._hello = check_hello(header.get("hello"), self._name)
            self._transport.expect(self._patience.answer)
            self.waited_ns = now_ns() - began
            # The time in which a person types a password, or the runner is sent, is not the target's.
            self._spent = self.waited_ns / 1e9 if is_installed and not self._is_typed else 0.0
            if self.silent_note:
                unlink_quietly(os.fsencode(self.silent_note))
        return self._hello

    def ask(self, verb: str, **fields: object) -> Json:
        """One request, one answer."""
        for header, _ in self._stream({"verb": verb, **fields}, is_progress=False):
            if header.get("end"):
                return header
        raise MalformedAnswerError("the target sent a malformed answer", where=self._name, answer=f"{verb}: no end")

    def stream(self, verb: str, **fields: object) -> Iterator[tuple[Json, bytes]]:
        """One request, answers as they come; the last one has ``end`` set."""
        return self._stream({"verb": verb, **fields}, is_progress=True)

    def _stream(self, request: Json, *, is_progress: bool) -> Iterator[tuple[Json, bytes]]:
        """``is_progress``: answers before the last one are; otherwise they count as heartbeats."""
        self.hello()
        verb = str(request["verb"])
        self._wait_for(request, is_progress=is_progress)
        number = next((sent for sent, early in self._early.items() if early == request), 0)
        is_early, number = bool(number), number or self._send(request)
        # Answers come in order: those to earlier requests are skipped on the way to this one, so they are asked again.
        self._early = {sent: early for sent, early in self._early.items() if sent > number}
        if self._behind and not is_early:
            behind, self._behind = self._behind, {}
            self._early[self._send(behind)] = behind
        if self._patience.is_renewed:
            self._transport.expect(self._waiting.renewed(self._patience.answer))
        while True:
            header, payload = self._answer(number)
            answer = str(header.get("error"))[:_MOST_QUOTED]
            if str(header.get("errno")) in _REFUSED:
                from holdfast.engine.system_errors import target_disk_error

                raise target_disk_error(str(header["errno"]), self._name, self._home, verb, answer)
            if header.get("error"):
                if str(header.get("errno")) in _LIMITED:
                    what = f"a resource limit of the target was reached during {verb}"
                    raise ResourceError(what, where=self._name, answer=answer)
                what = f"the runner on the target failed: {verb}"
                raise RunnerError(what, where=self._name, answer=answer, code=error_code(header))
            yield header, payload
            if header.get("end"):
                return

    def _wait_for(self, request: Json, *, is_progress: bool) -> None:
        spent, self._spent = self._spent, 0.0
        self._waiting = Waiting(request, is_progress, self._patience.question, spent)
        limits = [limit for limit in (self._until, self._waiting.until) if limit is not None]
        self._transport.until = min(limits, default=None)

    def _answer(self, number: int) -> tuple[Json, bytes]:
        """The next frame that answers this request."""
        while True:
            header, payload = self._frame()
            is_answer = type(header.get("re")) is int and header["re"] == number
            is_renewed = self._waiting.take(header, is_answer=is_answer)
            self._tell_beating()
            if self._patience.is_renewed and is_renewed:
                self._transport.expect(self._waiting.renewed(self._patience.answer))
            elif is_answer and not self._patience.is_renewed:
                self._transport.accept_frame()
            else:
                self._transport.refuse_frame()  # perhaps the rest of an answer that the caller did not read completely
            if is_answer:
                return header, payload

    def renew(self) -> None:
        """Give the target its time again, for the next piece of work."""
        self._transport.expect(self._patience.answer)

    def stop_waiting(self) -> None:
        """For another thread than the one that waits: what it sends or waits for ends as overdue within a second."""
        self._transport.expect(0.0)

    def foresee(self, verb: str, **fields: object) -> None:
        """Send a request whose answer is read later; the target works on it meanwhile."""
        request: Json = {"verb": verb, **fields}
        self._early[self._send(request)] = request

    def ask_behind(self, verb: str, **fields: object) -> None:
        """Send this request right behind the next one, before that is answered: one trip less when it is asked."""
        self._behind = {"verb": verb, **fields}

    def _send(self, request: Json) -> int:
        self._requests += 1
        self._write(wire.pack({"id": self._requests, **request}))
        self._transport.renew()
        return self._requests

    def send_ahead(self, verb: str, payload: bytes, **fields: object) -> None:
        """A request without an answer; objects are uploaded this way."""
        self.hello()
        # In two writes: a copy of a megabyte costs more than a system call.
        self._write(wire.pack({"id": 0, "verb": verb, **fields, "length": len(payload)}))
        self._write(payload)

    def close(self) -> None:
        """Close the connection, once. The runner then ends; this does not wait for it."""
        if self._is_open:
            self._is_open = False
            self._hang_up()
            self._host.close()

    def _begin(self, archive: bytes) -> None:
        self._nonce = os.urandom(8).hex()
        self.began = time.time()
        handshake = b"\0".join(map(as_bytes, (self._home or "", self._runner, self._nonce, str(len(archive)))))
        argv = (
            self._python,
            "-I",
            "-S",
            "-c",
            bundle.UNPACK,
            bundle.boot_words(),
            bundle.as_word(handshake),
        )
        try:
            self._transport = Transport(self._host.run(argv), self._until, self._tell_quiet)
        except OSError as error:
            if limits.explain(error):
                what, hint = "a resource limit of this machine was reached", limits.explain(error)
                raise ResourceError(what, where=self._name, answer=str(error), hint=hint) from error
            raise UnreachableError(
                "the runner cannot be started",
                where=self._name,
                answer=str(error),
                hint=f"check that {self._python} exists",
            ) from error
        self._transport.expect(self._patience.hello + len(archive) / _UPLOAD)
        self._noise = bytearray()
        self._transport.is_extended = False  # what a login prints earns no time
        self._write(archive)

    def _await_nonce(self) -> str:
        """Login shells may print anything first; what counts begins with the nonce."""
        expected = self._nonce.encode() + b" "
        try:
            while True:
                line = self._transport.reader.line()
                if line.startswith(expected):
                    self._transport.is_extended = True
                    return line[len(expected) :].decode("ascii", "replace").strip()
                self._transport.refuse_frame()
                self._noise += line[: _MOST_NOISE + 1] + b"\n"
                if len(self._noise) > _MOST_NOISE:
                    raise wire.BadFrame(f"more than {_MOST_NOISE} bytes before the runner's first line")
        except (wire.Closed, wire.BadFrame, Overdue) as error:
            raise self._failure(error) from error

    def _frame(self) -> tuple[Json, bytes]:
        try:
            return self._transport.reader.frame()
        except (wire.Closed, wire.BadFrame, Overdue) as error:
            raise self._failure(error) from error

    def _write(self, data: bytes) -> None:
        try:
            self._transport.write(data)
        except wire.Closed as error:
            if self._hello:
                raise self._failure(error) from error
            # It has ended already; what it printed, perhaps that it needs the runner, is read by hello().
        except Overdue as error:
            raise self._failure(error) from error

    def _refused(self, answer: str) -> StoreError:
        """The login succeeded, but the store cannot be created in its folder."""
        _, name, folder = [*answer.split(" ", 2), "", ""][:3]
        where = _path(folder) or self._name
        hint = "set a writable folder as root: in the .compute file, for example root: /scratch/me/holdfast"
        if not name:
            what = "the runner was sent but is still reported as missing"
            return StoreError(what, where=f"{self._name}: {where}", answer=answer[:_MOST_QUOTED], hint=hint)
        what = "no store can be created on the target"
        return NoPlaceError(what, where=f"{self._name}: {where}", answer=name, hint=hint)

    def _failure(self, cause: Exception) -> HoldfastError:
        """What the end of the conversation means, by the evidence that there is."""
        self.is_broken = True
        if isinstance(cause, wire.BadFrame):
            return MalformedAnswerError("the target sent a malformed answer", where=self._name, answer=str(cause))
        if isinstance(cause, Unfinished) and self._transport.until == self._until:  # and not a question's
            self._transport.stop()
            what = f"the target did not send everything within {self._patience.total:g} s"
            return UnfinishedError(
                what, where=self._name, hint="the received part is stored; holdfast logs -f fetches the rest"
            )
        if isinstance(cause, Overdue):
            return self._silence()
        status = self._transport.status()
        stderr = self._transport.stderr()
        if self._hello:
            meant = self._host.meaning(stderr, status) if status in (None, _OF_SSH) else None
            what, hint = "the connection to the runner ended", "run the same command again"
            return meant or UnreachableError(what, where=self._name, answer=stderr or str(cause), hint=hint)
        output = "\n".join(filter(None, (stderr, readable(bytes(self._noise)).strip())))
        return self._host.meaning(output, status) or self._not_started(output, status)

    def _tell_quiet(self) -> None:
        # Before the hello a person may be typing a password.
        if self._on_quiet is not None and (self._hello or not self._host.asks_person):
            limit = self._patience.answer if self._hello else self._patience.hello
            if self._hello and self._waiting.is_limited:
                limit = min(limit, self._waiting.limit or limit)
            self._on_quiet(f"nothing was received from {self._name} for {QUIET_S:g} s; waiting up to {limit:g} s")

    def _tell_beating(self) -> None:
        if self._on_quiet is not None and self._waiting.is_long():
            what = f"{self._name} has sent only heartbeats for {self._waiting.seconds:.0f} s"
            self._on_quiet(f"{what}; waiting for its answer to the request {self._waiting.verb!r}")

    def _silence(self) -> SilentError:
        seconds = self._patience.answer if self._hello else self._patience.hello
        self._transport.stop()
        if self._hello:
            what = f"the runner on the target sent nothing for {seconds:g} s"
            limit = self._waiting.limit
            if limit is not None and self._waiting.is_limited and self._waiting.seconds >= limit:
                what = f"connected, and no answer to the request {self._waiting.verb!r} within {limit:g} s"
            sent = "it sent only heartbeats" if self._waiting.beats else ""
            hint = "check its disk and network file systems: holdfast computetarget test " + self._name
            return SilentError(what, where=self._name, answer=sent, hint=hint)
        what, hint = self._host.reached()
        return SilentError(f"{what} within {seconds:g} s", where=self._name, hint=hint)

    def _not_started(self, output: str, status: int | None) -> UnreachableError:
        """The command ended before the runner's first line, and not for a reason that the host knows."""
        shown = f"{self._python} ended with exit status {status}" if status is not None else f"{self._python} ended"
        hint = f"Holdfast uses {self._python} there; test it with: {self._python} -c 'print(1)'"
        return RemoteCommandError(f"{shown} before the runner answered", where=self._name, answer=output, hint=hint)

    def _hang_up(self) -> None:
        self._transport.close()


def _path(encoded: str) -> str:
    try:
        return escaped(bytes.fromhex(encoded))
    except ValueError:
        return ""
