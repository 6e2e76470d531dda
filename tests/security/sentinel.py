"""An oracle for hostile names: a folder tree around store and project that no command may change, or read into them."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

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
    if os.path.islink(path) or not os.path.isfile(path):
        return ""
    with open(path, "rb") as source:
        return hashlib.sha256(source.read()).hexdigest()


def _holding(top: str) -> list[str]:
    found = []
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):  # a run that ends removes its work folder
                if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > 1 << 20:
                    continue
                with open(path, "rb") as source:
                    if SECRET in source.read():
                        found.append(path)
    return found
