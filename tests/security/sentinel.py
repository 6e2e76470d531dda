"""An oracle for hostile names: a folder tree around store and project that no command may change, or read into them."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_MOST = 1 << 20
SECRET = b"sentinel-content-that-nothing-may-read"


class Sentinel:
    """Files with a known content at places that hostile paths aim at. ``check`` fails where anything there changed.

    ``own`` are the folders below ``top`` in which commands may write; the secret must not arrive there either.
    """

    def __init__(self, top: Path, own: Collection[str] = ("store", "project")) -> None:
        self.top = top
        self.own = tuple(own)
        self.file = top / "outside" / "secret"
        self.file.parent.mkdir()
        for path in (self.file, top / "secret", top / "x", top / "user" / ".ssh" / "authorized_keys"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(SECRET)
        self._before = self._state()

    def check(self) -> None:
        after = self._state()
        changed = sorted(
            path for path in self._before.keys() | after.keys() if self._before.get(path) != after.get(path)
        )
        assert changed == [], f"outside store and project: {changed}"
        leaked = [path for name in self.own for path in _holding(str(self.top / name))]
        assert leaked == [], f"the content of a file outside was copied to {leaked}"

    def _state(self) -> dict[str, tuple[int, int, str]]:
        found = {}
        for folder, folders, names in os.walk(self.top):
            if folder == str(self.top):
                folders[:] = [name for name in folders if name not in self.own]
            for name in (*folders, *names):
                path = os.path.join(folder, name)
                status = os.lstat(path)
                found[path] = (status.st_mode, status.st_ino, _digest(path))
        return found


def _digest(path: str) -> str:
    content = _content(path)
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _content(path: str) -> bytes | None:
    """None for what is no regular file; a name may stand for something else from one moment to the next."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.read(descriptor, _MOST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def _holding(top: str) -> list[str]:
    found = []
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if SECRET in (_content(path) or b""):
                found.append(path)
    return found
