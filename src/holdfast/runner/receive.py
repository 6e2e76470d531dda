"""Objects on their way in, one after the other: pieces are put down, and become an object if they hash as promised."""

import os

from . import objects, wire


class Arrivals:
    def __init__(self, root: "bytes") -> "None":
        self._root = root
        self._fd = -1
        self._broken = False
        self._refused = ""

    def add(self, piece: "bytes", digest: "str", last: "bool") -> "None":
        """Take one more piece. Trouble is kept for later: a client that is sending does not read answers."""
        if not self._broken:
            try:
                self._put_down(piece)
                if last:
                    self._store(digest)
            except (OSError, ValueError, objects.Unreadable, objects.Changed) as error:
                self._broken = True
                self._refused = self._refused or "%s: %s" % (digest, error)
        if last:
            self._clear()

    def take_refusal(self) -> "str":
        """The first thing that went wrong since this was last asked; empty if nothing did."""
        refused, self._refused = self._refused, ""
        return refused

    def _put_down(self, piece: "bytes") -> "None":
        if self._fd < 0:
            path = os.path.join(os.path.dirname(self._root), b"arriving.%d" % os.getpid())
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            os.unlink(path)  # without a name, so that a client that goes away leaves nothing behind
        wire.write_all(self._fd, piece)

    def _store(self, digest: "str") -> "None":
        os.lseek(self._fd, 0, os.SEEK_SET)
        with objects.Batch(self._root) as batch:
            found, _ = batch.add_file(self._fd)
            if found != digest:
                raise ValueError("it arrived damaged, with the content of %s" % found)
            batch.commit()

    def _clear(self) -> "None":
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._broken = False
