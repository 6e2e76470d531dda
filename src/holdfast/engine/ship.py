"""Bringing a snapshot to a target whose store is another one: what it lacks, each object once, checked on arrival.

The last tree that a store is known to hold is remembered, so that what changed since then can be sent along with the
start, without asking first. A file that replaces another of the same path goes in chunks, and those that are the
same in both are copied on the target. What a broken connection left half there is gone on with.
"""

from __future__ import annotations

import os

from holdfast.errors import StoreError
from holdfast.record import Record
from holdfast.runner import objects, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.engine.channel import RunnerChannel
    from holdfast.store.home import Home

CHUNK = 4 * 1024 * 1024
_IN_CHUNKS_ABOVE = 1_000_000


class Part(Record):
    """An object on its way, and the object that it replaces at the same place of the project, if there is one."""

    digest: str
    before: str = ""


class Shipment:
    def __init__(self, home: Home, channel: RunnerChannel, project: str, tell: Callable[[int, int], None]) -> None:
        self._home = home
        self._root = os.fsencode(home.objects)
        self._channel = channel
        self._note = os.path.join(home.path, "cache", "shipped", f"{channel.hello()['store']}-{project}")
        self._tell = tell
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
        everything = list(changed(self._root, "", tree))
        answer = self._channel.ask("lacks", digests=[part.digest for part in everything])
        missing, partial = answer.get("missing"), answer.get("partial")
        absent = {str(digest) for digest in missing} if isinstance(missing, list) else set()
        begun = {str(name): int(size) for name, size in partial.items()} if isinstance(partial, dict) else {}
        parts = [part for part in everything if part.digest in absent]
        self._check_room(parts, answer.get("free"))
        self._send(parts, begun)

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
                found = source.read(65)
        except (OSError, ValueError):
            return ""
        return found if len(found) == 64 and found.isalnum() else ""

    def _check_room(self, parts: list[Part], free: object) -> None:
        needed = sum(os.stat(self._path(part.digest)).st_size for part in parts)
        if isinstance(free, int) and needed * 2 > free:  # the object and the run's own copy of it
            figures = (
                f"{_megabytes(needed * 2)} are needed for the project and the run's copy, {_megabytes(free)} are free"
            )
            raise StoreError(
                "the target's disk is too full",
                answer=figures,
                hint="make room there, or set root: in the .compute file",
            )

    def _send(self, parts: list[Part], begun: dict[str, int]) -> None:
        total = sum(os.stat(self._path(part.digest)).st_size for part in parts)
        done = 0
        for part in parts:
            for size in self._pieces(part, begun.get(part.digest, 0)):
                done += size
                self._tell(done, total)

    def _pieces(self, part: Part, start: int) -> Iterator[int]:
        with open(self._path(part.digest), "rb") as source:
            size = os.fstat(source.fileno()).st_size
            if part.before and not start and size > _IN_CHUNKS_ABOVE:
                yield from self._chunks(part, source.fileno(), size)
                return
            yield min(start, size)
            while True:
                piece = os.pread(source.fileno(), wire.MAX_PAYLOAD, start)
                self._put(part.digest, start, piece, size)
                start += len(piece)
                yield len(piece)
                if start >= size or not piece:
                    return

    def _chunks(self, part: Part, new: int, size: int) -> Iterator[int]:
        with open(self._path(part.before), "rb") as source:
            for start in range(0, size, CHUNK):
                chunk = os.pread(new, CHUNK, start)
                if os.pread(source.fileno(), CHUNK, start) == chunk:
                    self._channel.send_ahead(
                        "put", b"", digest=part.digest, at=start, size=size, copy=part.before, span=len(chunk)
                    )
                else:
                    for at in range(0, len(chunk), wire.MAX_PAYLOAD):
                        self._put(part.digest, start + at, chunk[at : at + wire.MAX_PAYLOAD], size)
                yield len(chunk)

    def _put(self, digest: str, at: int, piece: bytes, size: int) -> None:
        self.sent += len(piece)
        self._channel.send_ahead("put", piece, digest=digest, at=at, size=size)

    def _path(self, digest: str) -> str:
        return os.fsdecode(objects.object_path(self._root, digest))


def changed(root: bytes, old: str, new: str) -> Iterator[Part]:
    """Objects of the new tree that are not at the same place of the old one; what is inside before what holds it."""
    seen: set[str] = set()
    waiting = [(new, old, True, False)]
    while waiting:
        digest, before, is_tree, is_open = waiting.pop()
        if digest == before or (digest in seen and not is_open):
            continue
        seen.add(digest)
        if not is_tree or is_open:
            yield Part(digest, "" if is_tree else before)
            continue
        waiting.append((digest, before, True, True))
        was = {entry.name: entry for entry in objects.read_tree(root, before)} if before else {}
        for entry in objects.read_tree(root, digest):
            if entry.kind != "link":
                twin = was.get(entry.name)
                same_kind = twin is not None and twin.kind == entry.kind
                waiting.append((entry.digest, twin.digest if twin and same_kind else "", entry.kind == "dir", False))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
