"""A conversation with the runner on some host, begun early and awaited late.

``RunnerChannel(host, ...)`` starts the other side at once and returns; the first question waits for its hello. So the
runner's interpreter starts while the client is still reading and hashing. If the target lacks this version of the
runner, it says so and the conversation is begun again with the runner in the luggage.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast.engine import bundle
from holdfast.errors import InternalError, StoreError, UnreachableError
from holdfast.ledger import now_ns
from holdfast.runner import untrusted, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.errors import HoldfastError
    from holdfast.model import Json
    from holdfast.ports import Host, Stream
    from holdfast.store.home import Home
    from holdfast.targets import Target


# Characters that a host need not wrap: the first program to run on a target is on its command line.
UNPACK = "import binascii,sys;exec(binascii.a2b_base64(sys.argv[1]))"
# By name: the numbers differ between systems.
_REFUSED = frozenset(("ENOSPC", "EDQUOT", "EROFS", "EIO", "EACCES", "EPERM", "EEXIST", "ENOTDIR", "ENOTEMPTY"))

NO_PLACE = "the target has no place for a store"
_ENDING: list[int] = []


def connect(home: Home, target: Target) -> RunnerChannel:
    note = os.path.join(home.path, "cache", "runner")
    return RunnerChannel(target.host, target.runner_python, target.home, target.name, note)


class RunnerChannel:
    def __init__(self, host: Host, python: str, home: str | None, name: str, note: str = "") -> None:
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
        self.waited_ns = 0  # for the first answer
        self._begin(b"")

    @property
    def has_answered(self) -> bool:
        return bool(self._hello)

    def hello(self) -> Json:
        """Who is there: protocol, runner, store id, boot id, host name, Python version."""
        if not self._hello:
            began = now_ns()
            said = self._await_nonce()
            if said == "need":
                self._hang_up()
                self._begin(bundle.to_zip())
                self._early = {self._send(request): request for request in self._early.values()}
                said = self._await_nonce()
            if said != "ready":
                raise self._refused(said)
            header, _ = self._frame()
            if header.get("refused"):
                raise self._refused(f"refused {header['refused']}")
            hello = header.get("hello")
            if not isinstance(hello, dict) or hello.get("protocol") != wire.PROTOCOL:
                raise InternalError(
                    "the runner speaks another protocol",
                    where=self._name,
                    answer=repr(header)[:200],
                    hint="use one Holdfast version",
                )
            self._hello = self._with_store_id(hello)
            self.waited_ns = now_ns() - began
        return self._hello

    def _with_store_id(self, hello: Json) -> Json:
        """The same, if its store id is one: files of this client are named after it."""
        try:
            untrusted.hexadecimal(hello.get("store"), 32)
        except untrusted.Untrusted as error:
            what = "the target's answer is malformed: its store id"
            raise UnreachableError(what, where=self._name, answer=str(error)) from None
        return hello

    def ask(self, verb: str, **fields: object) -> Json:
        """One request, one answer."""
        for header, _ in self.stream(verb, **fields):
            if header.get("end"):
                return header
        raise self._silent("the answer ended early")

    def stream(self, verb: str, **fields: object) -> Iterator[tuple[Json, bytes]]:
        """One request, answers as they come; the last one has ``end`` set."""
        self.hello()
        request: Json = {"verb": verb, **fields}
        number = next((sent for sent, early in self._early.items() if early == request), 0)
        if number:
            del self._early[number]
        else:
            number = self._send(request)
            if self._behind:
                behind, self._behind = self._behind, {}
                # One that was sent before and never asked for has been answered, and its answer passed over.
                self._early = {sent: early for sent, early in self._early.items() if early != behind}
                self._early[self._send(behind)] = behind
        while True:
            header, payload = self._frame()
            if header.get("re") != number:
                continue  # what was left of a request that the caller did not hear out
            if str(header.get("errno")) in _REFUSED:
                what, hint = f"the target's disk refused to {verb}", "is it full or read-only, or something in the way?"
                raise StoreError(what, where=self._home or self._name, answer=str(header.get("error")), hint=hint)
            if header.get("error"):
                raise InternalError(f"the runner could not {verb}", where=self._name, answer=str(header["error"]))
            yield header, payload
            if header.get("end"):
                return

    def foresee(self, verb: str, **fields: object) -> None:
        """Send a request that will be asked later, before anybody has answered: it is worked on meanwhile."""
        request: Json = {"verb": verb, **fields}
        self._early[self._send(request)] = request

    def ask_behind(self, verb: str, **fields: object) -> None:
        """Send this request right behind the next one, before that is answered: one trip less when it is asked."""
        self._behind = {"verb": verb, **fields}

    def _send(self, request: Json) -> int:
        self._requests += 1
        try:
            wire.send(self._stream.stdin, {"id": self._requests, **request})
        except wire.Closed as error:
            raise self._silent(str(error)) from error
        return self._requests

    def send_ahead(self, verb: str, payload: bytes, **fields: object) -> None:
        """A request whose answer nobody waits for; objects go up this way."""
        self.hello()
        try:
            # In two writes: a copy of a megabyte costs more than a system call.
            wire.write_all(self._stream.stdin, wire.pack({"id": 0, "verb": verb, **fields, "length": len(payload)}))
            wire.write_all(self._stream.stdin, payload)
        except wire.Closed as error:
            raise self._silent(str(error)) from error

    def close(self) -> None:
        """Hang up, once. The other side ends by itself; nobody waits for it here."""
        if self._is_open:
            self._is_open = False
            self._hang_up()
            self._host.close()

    def _begin(self, parcel: bytes) -> None:
        self._nonce = os.urandom(8).hex()
        self.began = time.time()
        asked = {"home": self._home, "runner": self._runner, "nonce": self._nonce, "size": len(parcel)}
        words = (self._python, "-I", "-S", "-c", UNPACK, bundle.boot_words(), bundle.as_word(wire.dumps(asked)))
        try:
            self._stream: Stream = self._host.run(words)
        except OSError as error:
            raise UnreachableError(
                "the runner cannot be started", where=self._name, answer=str(error), hint=f"is {self._python} there?"
            ) from error
        self._reader = wire.FrameReader(self._stream.stdout)
        try:
            wire.write_all(self._stream.stdin, parcel)
        except wire.Closed as error:
            raise self._silent(str(error)) from error

    def _await_nonce(self) -> str:
        """Login shells may print anything first; what counts begins with the nonce."""
        expected = self._nonce.encode() + b" "
        try:
            while True:
                line = self._reader.line()
                if line.startswith(expected):
                    return line[len(expected) :].decode("ascii", "replace").strip()
        except (wire.Closed, wire.BadFrame) as error:
            raise self._silent(str(error)) from error

    def _frame(self) -> tuple[Json, bytes]:
        try:
            return self._reader.frame()
        except (wire.Closed, wire.BadFrame) as error:
            raise self._silent(str(error)) from error

    def _refused(self, said: str) -> StoreError:
        """The target lets us in and has no room for a store where we want one."""
        _, name, place = [*said.split(" ", 2), "", ""][:3]
        where = bytes.fromhex(place).decode("utf-8", "backslashreplace") if place.isalnum() else self._name
        hint = (
            "name a folder that can be written to as root: in the .compute file, for example root: /scratch/me/holdfast"
        )
        what = NO_PLACE if name else "the runner was sent and is still asked for"
        return StoreError(what, where=f"{self._name}: {where}", answer=name or said, hint=hint)

    def _silent(self, what: str) -> HoldfastError:
        said = self._complaint()
        meant = self._host.meaning(said) if said else None
        if meant is not None:
            return meant
        hint = f"holdfast uses {self._python} there; try it by hand: {self._python} -c 'print(1)'"
        return UnreachableError("the runner does not answer", where=self._name, answer=said or what, hint=hint)

    def _complaint(self) -> str:
        """What the other side wrote to stderr, if it did."""
        import select

        said = b""
        while len(said) < 16_000 and select.select([self._stream.stderr], [], [], 0.2)[0]:
            block = os.read(self._stream.stderr, 4000)
            if not block:
                break
            said += block
        return said.decode("utf-8", "replace").strip()

    def _hang_up(self) -> None:
        for fd in (self._stream.stdin, self._stream.stdout, self._stream.stderr):
            os.close(fd)
        _reap(self._stream.pid)


def _reap(pid: int) -> None:
    """Take leave of children that have ended; one that has not is asked again with the next."""
    if sys.platform == "win32":
        return
    _ENDING.append(pid)
    for child in list(_ENDING):
        try:
            if os.waitpid(child, os.WNOHANG)[0] == child:
                _ENDING.remove(child)
        except ChildProcessError:
            _ENDING.remove(child)
