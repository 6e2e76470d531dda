"""Answers the request ``history``: look at a shared folder of runs here, hand out its files, take in new ones.

What is received goes through ``uploads`` into the objects of the client's own part. Lines of runs and labels are sent
as objects too, and renamed when all that they name is on disk. The connection is for this alone: its current folder is
the part, so that no other user who may write beside it can redirect a write.
"""

import os
import sys

from .. import untrusted, wire
from ..decoding import as_bytes, lossless
from ..store import object_removal
from ..store.file_owners import short_name
from ..store.uploads import Arrivals
from . import shared_part

assert sys.platform != "win32"  # a target is never Windows

MYPY = False
if MYPY:
    from ..store.mirror import Reply

_NAMES_AT_ONCE = 50000
_ROWS_AT_ONCE = 100
_OBJECTS = b"./" + shared_part.OBJECTS.encode()


class SharedFolder:
    """The folder of one connection: ``open`` comes first, ``begin`` before anything is sent."""

    def __init__(self, home: "bytes") -> "None":
        self._home = home
        self._path = ""
        self._part = None  # type: shared_part.Part | None
        self.begun = None  # type: _Arrivals | None

    def answer(self, header: "dict[str, object]", reply: "Reply") -> "None":
        """``act``: open, names, read, hash, begin, publish or remove."""
        act = header.get("act")
        try:
            if act == "open":
                reply.end(**self._open(str(header["folder"])))
            elif act == "names":
                self._names(self._store(header), str(header["kind"]), reply)
            elif act == "read":
                self._read(self._store(header), header, reply)
            elif act == "hash":
                self._hash(self._store(header), reply)
            elif act == "begin":
                self._begin(str(header["store"]))
                reply.end(state="open")
            elif act == "publish":
                self._publish(header)
                reply.end(state="done")
            elif act == "remove":
                self._remove(str(header["kind"]), str(header["name"]))
                reply.end(state="done")
            else:
                raise ValueError("history: unknown act %r" % (act,))
        except shared_part.CannotWrite as error:
            reply.end(state=error.code, where=error.where, answer=error.answer)

    @property
    def arrivals(self) -> "Arrivals":
        if self.begun is None:
            raise ValueError("history: nothing was begun")
        return self.begun

    def _open(self, named: "str") -> "dict[str, object]":
        user_home = os.path.expanduser("~")
        path = os.path.join(user_home, os.path.expanduser(os.fsdecode(as_bytes(named))))
        facts = shared_part.look(path, os.fsdecode(self._home))
        facts = {name: _told(value) for name, value in facts.items()}
        if facts["state"] not in ("history", "empty"):
            return facts
        self._path = os.path.realpath(path)
        rows = [
            {"id": name, "owner": short_name(owner), "own": owner == os.geteuid()}
            for name, owner in shared_part.parts(self._path)
        ]
        return dict(facts, stores=rows)

    def _store(self, header: "dict[str, object]") -> "str":
        if not self._path:
            raise ValueError("history: no folder is open")
        return os.path.join(self._path, untrusted.hexadecimal(header["store"], 32))

    def _names(self, store: "str", kind: "str", reply: "Reply") -> "None":
        if kind not in (shared_part.RUNS, shared_part.LABELS):
            raise ValueError("history: unknown kind %r" % (kind,))
        names = shared_part.names(store, kind)
        for start in range(0, len(names), _NAMES_AT_ONCE):
            reply.send(b"", names=names[start : start + _NAMES_AT_ONCE])
        reply.end()

    def _read(self, store: "str", header: "dict[str, object]", reply: "Reply") -> "None":
        """Each file in pieces, at most as many bytes as the client wants; or why it cannot be read."""
        for number, (name, limit) in enumerate(header["files"]):  # type: ignore[arg-type,var-annotated]
            path = os.path.join(store, shared_part.file_name(str(header["kind"]), str(name)))
            try:
                fd = untrusted.open_file(path, int(limit), within=store, follow=False)
            except (OSError, untrusted.Untrusted) as error:
                reply.send(b"", file=number, problem=_told(shared_part.reason(error)))
                continue
            try:
                self._send(fd, number, int(limit), reply)
            finally:
                os.close(fd)
        reply.end()

    def _send(self, fd: "int", number: "int", limit: "int", reply: "Reply") -> "None":
        at = 0
        while at <= limit:
            try:
                block = os.pread(fd, min(wire.MAX_PAYLOAD, limit + 1 - at), at)
            except OSError as error:
                reply.send(b"", file=number, problem=_told(shared_part.reason(error)))
                return
            reply.send(block, file=number, at=at)
            at += len(block)
            if not block:
                return

    def _hash(self, store: "str", reply: "Reply") -> "None":
        """Every object: its digest and size, and what is wrong with it."""
        rows = []  # type: list[tuple[str, int, str]]
        for row in shared_part.hashed(store):
            rows.append((row[0], row[1], str(_told(row[2]))))
            if len(rows) >= _ROWS_AT_ONCE:
                reply.send(b"", objects=rows)
                rows = []
        if rows:
            reply.send(b"", objects=rows)
        reply.end()

    def _begin(self, store_id: "str") -> "None":
        if not self._path:
            raise ValueError("history: no folder is open")
        part = shared_part.Part(self._path, store_id)
        part.__enter__()
        part.enter()
        object_removal.sweep(_OBJECTS)
        self._part, self.begun = part, _Arrivals(self._home, part)

    def _publish(self, header: "dict[str, object]") -> "None":
        """Give lines their names: ``runs`` has the hash of each by uid, ``labels`` is a list of hashes."""
        if self._part is None:
            raise ValueError("history: nothing was begun")
        self.arrivals.commit()
        runs, labels = header["runs"], header["labels"]
        named = [(digest, shared_part.file_name(shared_part.RUNS, uid)) for uid, digest in runs.items()]  # type: ignore[attr-defined]
        named += [(digest, shared_part.file_name(shared_part.LABELS, digest)) for digest in labels]  # type: ignore[attr-defined]
        for digest, name in named:
            self._part.rename(shared_part.file_name(shared_part.OBJECTS, str(digest)), name)
        self._part.settle()

    def _remove(self, kind: "str", name: "str") -> "None":
        """A damaged file of the part that was begun."""
        if self._part is None:
            raise ValueError("history: nothing was begun")
        self._part.remove(shared_part.file_name(kind, name))


class _Arrivals(Arrivals):
    """Objects get the rights of the shared folder before anything names them."""

    def __init__(self, home: "bytes", part: "shared_part.Part") -> "None":
        super().__init__(home, _OBJECTS)
        self._verified = None  # a note about files that this user alone can change; here others may
        self._shared_part = part

    def _publish(self, batch: "object") -> "None":
        arrived = batch.staged  # type: ignore[attr-defined]
        super()._publish(batch)  # type: ignore[arg-type]
        for digest in arrived:
            self._shared_part.share(shared_part.file_name(shared_part.OBJECTS, digest))


def _told(value: "object") -> "object":
    return lossless(os.fsencode(value)) if isinstance(value, str) else value
