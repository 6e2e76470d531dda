"""Receives objects: pieces are written to a partial file, which becomes an object if its hash is the announced one.

Small objects come in one piece and become visible together: on request, when the client disconnects, or when there are
many. A large one stays in a partial file of its own until it is complete, so that an interrupted upload can resume.
"""

import hashlib
import os
import sys

from .. import wire
from . import layout, objects, stable_read
from .data_state import VerifiedObjects
from .files import unlink_quietly

assert sys.platform != "win32"  # a target is never Windows

MYPY = False
if MYPY:
    from ..machine.clock import Clock

_AT_ONCE_BYTES = 64 * 1024 * 1024
_AT_ONCE = 5000
_FORGET_AFTER_S = 7 * 86400


class Arrivals:
    """``root``: where objects go, if not to those of the store; what is not whole is then kept below it."""

    def __init__(self, home: "bytes", root: "bytes" = b"") -> "None":
        self._home = home
        self._root = root or layout.objects(home)
        self._verified = VerifiedObjects(root) if root else None
        self._halves = layout.arriving(root or home)
        self._clock: "Clock | None" = None
        self._batch = None  # type: objects.Batch | None
        self._half = None  # type: Half | None
        self._unmade = set()  # type: set[str]
        self._refused = ""

    def free_bytes(self) -> "int":
        """Of the file system that takes the objects."""
        above = os.path.dirname(self._root)
        room = os.statvfs(above if os.path.isdir(above) else self._home)
        return room.f_bavail * room.f_frsize

    def add(self, payload: "bytes", header: "dict[str, object]") -> "None":
        """Take what a frame holds. Trouble is kept for later: a client that is sending does not read answers."""
        at = 0
        for digest, size in header.get("many") or ():  # type: ignore[attr-defined]
            self._take(str(digest), payload[at : at + size], {"at": 0, "size": size})
            at += size
        if "digest" in header:
            self._take(str(header["digest"]), payload, header)

    def _take(self, digest: "str", piece: "bytes", header: "dict[str, object]") -> "None":
        try:
            if "spans" in header:
                self._keep(self._made(piece, str(header["base"]), header["spans"]), digest)  # type: ignore[arg-type]
            elif header["at"] == 0 and header["size"] == len(piece):
                self._keep(piece, digest)
            elif digest not in self._unmade:
                at, size, span = (int(str(header.get(name) or 0)) for name in ("at", "size", "span"))
                self._put_down(piece, digest, at, size, str(header.get("copy") or ""), span)
        except objects.Damaged:
            # The base of the delta is missing or damaged: the object is reported as still missing.
            self._unmade.add(digest)
            self._leave()
        except (OSError, ValueError, stable_read.Unreadable, stable_read.Changed) as error:
            self._refused = self._refused or "%s: %s" % (digest, error)
            self._leave()

    def commit(self) -> "None":
        """Make everything that is whole visible."""
        if self._batch is not None:
            batch, self._batch = self._batch, None
            self._publish(batch)

    def take_refusal(self) -> "str":
        """The first thing that went wrong since this was last asked; empty if nothing did."""
        try:
            self.commit()
        except OSError as error:
            self._refused = self._refused or str(error)
        refused, self._refused = self._refused, ""
        return refused

    def lacks(self, digests: "list[str]") -> "tuple[list[str], dict[str, int]]":
        """Those that are not here, and how much there is of those that were begun."""
        self._leave()
        self._unmade.clear()
        absent = objects.lacking(self._root, digests)
        halves = self._halves_by_place()
        places = [(digest, self._place(digest)) for digest in absent] if halves else []
        return absent, {digest: halves[path] for digest, path in places if path in halves}

    def _keep(self, data: "bytes", digest: "str") -> "None":
        if self._batch is None:
            self._batch = objects.Batch(self._root)
        self._batch.add_bytes(data, digest)
        if self._batch.new_objects >= _AT_ONCE or self._batch.new_bytes >= _AT_ONCE_BYTES:
            self.commit()

    def _made(self, fresh: "bytes", base: "str", spans: "list[list[int]]") -> "bytes":
        """From parts of an object that is here, and from bytes that are not in it."""
        old = objects.read(self._root, base)
        at = 0
        parts = []
        for start, length in spans:
            if start < 0:
                parts.append(fresh[at : at + length])
                at += length
            else:
                parts.append(old[start : start + length])
        return b"".join(parts)

    def _put_down(self, piece: "bytes", digest: "str", at: "int", size: "int", copy: "str", span: "int") -> "None":
        if self._half is None or self._half.digest != digest:
            self._leave()
            os.makedirs(self._halves, 0o700, exist_ok=True)
            self._half = Half(self._place(digest), digest, at)
        if self._half.length != at:
            raise ValueError("a piece at %d arrived where %d was next" % (at, self._half.length))
        if copy:
            if not objects.has(self._root, copy):
                raise objects.Damaged(copy, "missing")
            self._half.copy(objects.object_path(self._root, copy), at, span)
        else:
            self._half.append(piece)
        if self._half.length >= size:
            self._finish(self._half, digest)

    def _finish(self, half: "Half", digest: "str") -> "None":
        self._half = None
        half.close()
        if half.name() != digest:
            unlink_quietly(half.path)
            raise ValueError("it arrived damaged")
        self.commit()
        batch = objects.Batch(self._root)
        batch.adopt(digest, half.path, half.length)
        self._publish(batch)

    def _publish(self, batch: "objects.Batch") -> "None":
        arrived = batch.staged
        with batch:
            batch.commit()
        if self._verified is not None:
            self._verified.add(*arrived)
            self._verified.save()

    def _leave(self) -> "None":
        if self._half is not None:
            self._half.close()
        self._half = None

    def _place(self, digest: "str") -> "bytes":
        return os.path.join(
            self._halves, os.path.basename(objects.object_path(self._root, digest)) + digest[:2].encode()
        )

    def _is_forgotten(self, path: "bytes") -> "bool":
        if self._clock is None:
            from ..machine import clock

            self._clock = clock.look(self._home)
        return self._clock.is_older(path, _FORGET_AFTER_S)

    def _halves_by_place(self) -> "dict[bytes, int]":
        """The length of each partial upload; old ones that were not resumed are removed."""
        lengths = {}
        try:
            names = os.listdir(self._halves)
        except OSError:
            return {}
        for name in names:
            path = os.path.join(self._halves, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue  # another client has just finished it
            if self._is_forgotten(path):
                unlink_quietly(path)
            else:
                lengths[path] = status.st_size
        return lengths


class Half:
    """A large object that is not all here. What is here already is read again: it must count towards the hash."""

    def __init__(self, path: "bytes", digest: "str", start: "int") -> "None":
        self.path = path
        self.digest = digest
        self.length = 0
        self._hash = hashlib.sha256()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | (0 if start else os.O_TRUNC)
        self._fd = os.open(path, flags, 0o600)
        while self.length < start:
            block = os.read(self._fd, min(1 << 20, start - self.length))
            if not block:
                break
            self._hash.update(block)
            self.length += len(block)
        os.ftruncate(self._fd, self.length)

    def append(self, piece: "bytes") -> "None":
        wire.write_all(self._fd, piece)
        self._hash.update(piece)
        self.length += len(piece)

    def copy(self, source: "bytes", at: "int", span: "int") -> "None":
        fd = os.open(source, os.O_RDONLY)
        try:
            end = at + span
            while at < end:
                block = os.pread(fd, min(1 << 20, end - at), at)
                if not block:
                    raise ValueError("its source is shorter than expected")
                self.append(block)
                at += len(block)
        finally:
            os.close(fd)

    def name(self) -> "str":
        return self._hash.hexdigest()

    def close(self) -> "None":
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
