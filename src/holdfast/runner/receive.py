"""An object on its way in: pieces are put down in a file, which becomes an object if it has the promised hash."""

import os

from . import objects, wire


class Arrival:
    def __init__(self, root: "bytes") -> "None":
        self._root = root
        self._path = os.path.join(os.path.dirname(root), b"arriving.%d" % os.getpid())
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)

    def add(self, piece: "bytes", digest: "str", last: "bool") -> "bool":
        """Take one more piece; True when the object is complete and stored."""
        wire.write_all(self._fd, piece)
        if not last:
            return False
        os.close(self._fd)
        try:
            with objects.Batch(self._root) as batch:
                found, _ = batch.add_file(self._path)
                if found != digest:
                    raise ValueError("an object arrived damaged: %s was sent, %s came" % (digest, found))
                batch.commit()
        finally:
            os.unlink(self._path)
        return True
