"""A conversation with the runner on some host, begun early and awaited late.

``RunnerChannel(host, ...)`` starts the other side at once and returns; the first question waits for its hello. So the
runner's interpreter starts while the client is still reading and hashing. If the target lacks this version of the
runner, it says so and the conversation is begun again with the runner in the luggage.
"""

from __future__ import annotations

import os

from holdfast.engine import bundle
from holdfast.errors import InternalError, StoreError, UnreachableError
from holdfast.runner import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json
    from holdfast.ports import Host, Stream
    from holdfast.store.home import Home
    from holdfast.targets import Target


# By name: the numbers differ between systems.
_REFUSED = frozenset(("ENOSPC", "EDQUOT", "EROFS", "EIO", "EACCES", "EPERM", "EEXIST", "ENOTDIR", "ENOTEMPTY"))


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
        self._begin(b"")

    def hello(self) -> Json:
        """Who is there: protocol, runner, store id, boot id, host name, Python version."""
        if not self._hello:
            if self._await_nonce() == "need":
                self._hang_up()
                self._begin(bundle.to_zip())
                if self._await_nonce() != "ready":
                    raise self._silent("the runner was sent and is still asked for")
            header, _ = self._frame()
            hello = header.get("hello")
            if not isinstance(hello, dict) or hello.get("protocol") != wire.PROTOCOL:
                raise InternalError(
                    "the runner speaks another protocol",
                    where=self._name,
                    answer=repr(header)[:200],
                    hint="use one Holdfast version",
                )
            self._hello = hello
        return self._hello

    def ask(self, verb: str, **fields: object) -> Json:
        """One request, one answer."""
        for header, _ in self.stream(verb, **fields):
            if header.get("end"):
                return header
        raise self._silent("the answer ended early")

    def stream(self, verb: str, **fields: object) -> Iterator[tuple[Json, bytes]]:
        """One request, answers as they come; the last one has ``end`` set."""
        self.hello()
        self._requests += 1
        try:
            wire.send(self._stream.stdin, {"id": self._requests, "verb": verb, **fields})
        except wire.Closed as error:
            raise self._silent(str(error)) from error
        while True:
            header, payload = self._frame()
            if header.get("re") != self._requests:
                continue  # what was left of a request that the caller did not hear out
            if header.get("errno") in _REFUSED:
                what, hint = f"the target's disk refused to {verb}", "is it full or read-only, or something in the way?"
                raise StoreError(what, where=self._home or self._name, answer=str(header["error"]), hint=hint)
            if header.get("error"):
                raise InternalError(f"the runner could not {verb}", where=self._name, answer=str(header["error"]))
            yield header, payload
            if header.get("end"):
                return

    def send_ahead(self, verb: str, payload: bytes, **fields: object) -> None:
        """A request whose answer nobody waits for; objects go up this way."""
        self.hello()
        wire.send(self._stream.stdin, {"id": 0, "verb": verb, **fields}, payload)

    def close(self) -> None:
        """Hang up. The other side ends by itself; nobody waits for it here."""
        self._hang_up()
        self._host.close()

    def _begin(self, parcel: bytes) -> None:
        self._nonce = os.urandom(8).hex()
        try:
            self._stream: Stream = self._host.run((self._python, "-I", "-S", "-c", bundle.boot_source()))
        except OSError as error:
            raise UnreachableError(
                "the runner cannot be started", where=self._name, answer=str(error), hint=f"is {self._python} there?"
            ) from error
        self._reader = wire.FrameReader(self._stream.stdout)
        asked = {"home": self._home, "runner": self._runner, "nonce": self._nonce, "size": len(parcel)}
        try:
            wire.write_all(self._stream.stdin, wire.dumps(asked) + b"\n" + parcel)
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

    def _silent(self, what: str) -> UnreachableError:
        said = self._complaint()
        hint = f"holdfast uses {self._python} there; try it by hand: {self._python} -c 'print(1)'"
        return UnreachableError("the runner does not answer", where=self._name, answer=said or what, hint=hint)

    def _complaint(self) -> str:
        """What the other side wrote to stderr, if it did."""
        import select

        if not select.select([self._stream.stderr], [], [], 0.2)[0]:
            return ""
        return os.read(self._stream.stderr, 4000).decode("utf-8", "replace").strip()

    def _hang_up(self) -> None:
        for fd in (self._stream.stdin, self._stream.stdout, self._stream.stderr):
            os.close(fd)
