"""Uploads a snapshot to a target with its own store: only missing objects, each once, verified on arrival.

The last tree that a store is known to hold is remembered, so that what changed since then can be sent along with the
start, without asking first. Small objects travel together. Of what replaces something at the same path only what
differs is sent: lines, rows of a folder, or chunks of a large file; the target takes the rest from what it has. A
partial upload is resumed.
"""

from __future__ import annotations

import os

from holdfast import answers
from holdfast.errors import StoreError
from holdfast.record import Record
from holdfast.runner import wire
from holdfast.runner.store import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home

CHUNK = 4 * 1024 * 1024
_IN_CHUNKS_ABOVE = 1_000_000
# Objects up to this size share frames, which are sent when they hold so much.
_SMALL = 16 * 1024
_TOGETHER = 256 * 1024
_ASKED_AT_ONCE = 100_000  # digests in one request; a frame has 16 MiB


class Part(Record):
    """An object on its way, and the object that it replaces at the same place of the project, if there is one.

    ``size`` is that of a file; what a tree takes is not worth counting.
    """

    digest: str
    before: str = ""
    size: int = 0
    is_tree: bool = False


class Shipment:
    copies = 2  # the object and the run's own copy of it
    full_hint = "free disk space there, or set root: in the .compute file"

    def __init__(self, home: Home, channel: RunnerChannel, project: str, tell: Callable[[int, int], None]) -> None:
        self._home = home
        self._root = os.fsencode(home.objects)
        self._channel = channel
        self._note = home.shipped(str(channel.hello()["store"]), project)
        self._tell = tell
        self.fields: Json = {}  # of every request
        self._together: list[tuple[str, bytes]] = []
        self._waiting = 0
        self.sent = 0

    def send_ahead(self, tree: str) -> None:
        """What changed since the last tree, without a question. Where nothing is known, the target is asked."""
        last = self._last()
        if last == tree:
            return
        if last and objects.has(self._root, last):
            self._send(list(changed(self._root, last, tree)), {})
        else:
            self.send_missing(tree)

    def send_missing(self, tree: str) -> None:
        """Ask which objects of the tree are not there, and send those."""
        parts, answer = self._missing(tree)
        self._check_room(parts, answer.get("free"))
        self._send(parts, self.begun(answer))

    def begun(self, answer: Json) -> dict[str, int]:
        """How much of which object an earlier upload left there."""
        partial: dict[str, int] = answers.table(answer, "partial")  # type: ignore[assignment]
        return {str(name): size for name, size in partial.items() if answers.is_count(size)}

    def lacking(self, tree: str) -> tuple[int, int]:
        """Bytes and objects that would have to be sent."""
        parts, _ = self._missing(tree)
        return sum(part.size for part in parts), len(parts)

    def _missing(self, tree: str) -> tuple[list[Part], Json]:
        everything = list(changed(self._root, "", tree))
        absent, answer = self.lacks([part.digest for part in everything])
        return [part for part in everything if part.digest in absent], answer

    def lacks(self, digests: list[str]) -> tuple[set[str], Json]:
        """Those of the objects that are not there, and the answer with all ``partial`` ones."""
        absent: set[str] = set()
        partial: Json = {}
        answer: Json = {}
        for start in range(0, len(digests), _ASKED_AT_ONCE):
            answer = self._channel.ask("lacks", digests=digests[start : start + _ASKED_AT_ONCE], **self.fields)
            absent.update(answers.texts(answer, "missing"))
            partial.update(answers.table(answer, "partial"))
        return absent, {**answer, "partial": partial}

    def remember(self, tree: str) -> None:
        """The target has all of it: it said so when it was asked to start."""
        if self._last() == tree:
            return
        os.makedirs(os.path.dirname(self._note), 0o700, exist_ok=True)
        with open(self._note, "w", encoding="ascii") as target:
            target.write(tree)  # half a name is no name, and the target is asked instead

    def _last(self) -> str:
        try:
            with open(self._note, encoding="ascii") as source:
                text = source.read(65)
        except (OSError, ValueError):
            return ""
        return text if len(text) == 64 and text.isalnum() else ""

    def _check_room(self, parts: list[Part], free: object) -> None:
        needed = sum(part.size for part in parts)
        if isinstance(free, int) and answers.is_count(free) and needed * self.copies > free:
            what = "the project and the run's copy" if self.copies > 1 else "the data"
            figures = f"{_megabytes(needed * self.copies)} are needed for {what}, {_megabytes(free)} are free"
            raise StoreError(
                "the target's disk is too full",
                answer=figures,
                hint=self.full_hint,
            )

    def _send(self, parts: list[Part], begun: dict[str, int]) -> None:
        total = sum(part.size for part in parts)
        done = reported = 0
        for part in parts:
            for size in self._pieces(part, begun.get(part.digest, 0)):
                done += 0 if part.is_tree else size
                if done - reported >= _TOGETHER:
                    reported = done
                    self._tell(done, total)
        self._send_together()
        if done > reported:
            self._tell(done, total)

    def _pieces(self, part: Part, start: int) -> Iterator[int]:
        fd = self._open(part.digest)
        try:
            size = os.fstat(fd).st_size
            if size <= _SMALL and not start:
                self._add(part.digest, os.read(fd, size))
                yield size
                return
            self._send_together()
            if part.before and not start:
                if size > _IN_CHUNKS_ABOVE and not part.is_tree:
                    yield from self._chunks(part, fd, size)
                    return
                if self._send_difference(part, fd, size):
                    yield size
                    return
            yield from self._whole(part.digest, fd, size, start)
        finally:
            os.close(fd)

    def _add(self, digest: str, data: bytes) -> None:
        """In the order in which they come: what holds others is sent behind them."""
        self._together.append((digest, data))
        self._waiting += len(data)
        if self._waiting > _TOGETHER:
            self._send_together()

    def _send_together(self) -> None:
        if self._together:
            payload = b"".join(data for _, data in self._together)
            many = [(digest, len(data)) for digest, data in self._together]
            self._together, self._waiting = [], 0
            self._put(payload, many=many)

    def _whole(self, digest: str, fd: int, size: int, start: int) -> Iterator[int]:
        yield min(start, size)
        while True:
            piece = _read(fd, wire.MAX_PAYLOAD, start)
            self._put(piece, digest=digest, at=start, size=size)
            start += len(piece)
            yield len(piece)
            if start >= size or not piece:
                return

    def _send_difference(self, part: Part, fd: int, size: int) -> bool:
        """Send how to make it from what it replaces; False if it is mostly new."""
        before = self._open(part.before)
        try:
            old, new = (_read(each, os.fstat(each).st_size, 0) for each in (before, fd))
        finally:
            os.close(before)
        spans, fresh = difference(old, new, b"}," if part.is_tree else b"\n")
        if (len(fresh) + 20 * len(spans)) * 2 > size or len(fresh) > wire.MAX_PAYLOAD:
            return False
        self._put(fresh, digest=part.digest, base=part.before, spans=spans)
        return True

    def _chunks(self, part: Part, new: int, size: int) -> Iterator[int]:
        old = self._open(part.before)
        try:
            for start in range(0, size, CHUNK):
                chunk = _read(new, CHUNK, start)
                if _read(old, CHUNK, start) == chunk:
                    self._put(b"", digest=part.digest, at=start, size=size, copy=part.before, span=len(chunk))
                else:
                    for at in range(0, len(chunk), wire.MAX_PAYLOAD):
                        piece = chunk[at : at + wire.MAX_PAYLOAD]
                        self._put(piece, digest=part.digest, at=start + at, size=size)
                yield len(chunk)
        finally:
            os.close(old)

    def _put(self, payload: bytes, **what: object) -> None:
        self.sent += len(payload)
        self._channel.send_ahead("put", payload, **what, **self.fields)

    def _open(self, digest: str) -> int:
        return os.open(objects.object_path(self._root, digest), os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _read(fd: int, size: int, at: int) -> bytes:
    os.lseek(fd, at, os.SEEK_SET)
    return os.read(fd, size)


def changed(root: bytes, old: str, new: str) -> Iterator[Part]:
    """Objects of the new tree that are not at the same place of the old one; what is inside before what holds it."""
    seen: set[str] = set()
    waiting = [(new, old, 0, True, False)]
    while waiting:
        digest, before, size, is_tree, is_open = waiting.pop()
        if digest == before or (digest in seen and not is_open):
            continue
        seen.add(digest)
        if not is_tree or is_open:
            yield Part(digest, before, size, is_tree)
            continue
        waiting.append((digest, before, 0, True, True))
        was = {entry.name: entry for entry in objects.read_tree(root, before)} if before else {}
        for entry in objects.read_tree(root, digest):
            if entry.kind != "link":
                twin = was.get(entry.name)
                same_kind = twin is not None and twin.kind == entry.kind
                before_it = twin.digest if twin and same_kind else ""
                waiting.append((entry.digest, before_it, entry.size, entry.kind == "dir", False))


def difference(old: bytes, new: bytes, end: bytes) -> tuple[list[list[int]], bytes]:
    """How to make the new from the old, by pieces that ``end`` ends, and the bytes that are not in the old.

    A span is [place in the old, length], or [-1, length] for the next ones of those bytes.
    """
    known: dict[bytes, int] = {}
    at = 0
    for piece in _pieces_of(old, end):
        known.setdefault(piece, at)
        at += len(piece)
    spans: list[list[int]] = []
    fresh = []
    following = 0
    for piece in _pieces_of(new, end):
        position = following if old.startswith(piece, following) else known.get(piece, -1)
        if position < 0:
            fresh.append(piece)
        if spans and position == (-1 if spans[-1][0] < 0 else following):
            spans[-1][1] += len(piece)
        else:
            spans.append([position, len(piece)])
        if position >= 0:
            following = position + len(piece)
    return spans, b"".join(fresh)


def _pieces_of(data: bytes, end: bytes) -> list[bytes]:
    *pieces, last = data.split(end)
    return [piece + end for piece in pieces] + ([last] if last else [])


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
