"""Files of a project for the page Files: listed, read and saved below its folder only, through no link."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import StoreError, UsageError
from holdfast.runner import untrusted
from holdfast.runner.store.files import write_whole

if TYPE_CHECKING:
    from holdfast.model import Json

LARGEST = 5_000_000  # bytes
_MOST_NAMES = 2000


class Text(NamedTuple):
    """``digest`` names the content as it was read; ``newline`` is kept when it is saved."""

    content: str
    digest: str
    newline: str


def listing(root: str, folder: str) -> list[Json]:
    """Folders first; links are shown and lead nowhere."""
    path = inside(root, folder) if folder else root
    rows: list[Json] = []
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))[
            :_MOST_NAMES
        ]:
            is_folder = entry.is_dir(follow_symlinks=False)
            below = f"{folder}/{entry.name}" if folder else entry.name
            rows.append({"name": entry.name, "path": below, "folder": is_folder, "link": entry.is_symlink()})
    return rows


def read(root: str, name: str) -> Text:
    data = _bytes(inside(root, name))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError("this file is not UTF-8 text", where=name, answer=str(error)) from error
    if "\0" in text:
        raise UsageError("this is a binary file", where=name)
    newline = "\r\n" if "\r\n" in text else "\n"
    return Text(text.replace("\r\n", "\n"), hashlib.sha256(data).hexdigest(), newline)


def save(root: str, name: str, content: str, digest: str) -> None:
    """Replace the file if it is still what was read; its mode and line endings stay."""
    before = unchanged(root, name, digest)
    data = content.replace("\r\n", "\n").replace("\n", before.newline).encode("utf-8")
    if len(data) > LARGEST:
        raise UsageError(f"the text has more than {LARGEST // 1_000_000} MB; nothing was saved", where=name)
    replace(root, name, data)


def unchanged(root: str, name: str, digest: str) -> Text:
    """The file, if it is still what was read; an error otherwise."""
    before = read(root, name)
    if before.digest != digest:
        hint = "copy your text, open the file again and merge the two"
        raise UsageError("the file has changed since it was opened; nothing was saved", where=name, hint=hint)
    return before


def replace(root: str, name: str, data: bytes) -> None:
    try:
        write_whole(inside(root, name), data, 0o666, keep_mode=True)
    except OSError as error:
        answer = str(error.strerror)
        raise StoreError("the file could not be saved; it is unchanged", where=name, answer=answer) from error


def _bytes(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise UsageError("this file cannot be opened", where=path, answer=str(error.strerror)) from error
    with open(descriptor, "rb") as source:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError("this is not a regular file", where=path)
        if status.st_size > LARGEST:
            raise UsageError(f"this file has more than {LARGEST // 1_000_000} MB", where=path)
        return source.read(LARGEST + 1)


def inside(root: str, name: str) -> str:
    """The path of a name below the folder; an error where a part of it is a link or leads out."""
    try:
        parts = untrusted.relative(name).split("/")
    except untrusted.Untrusted as error:
        raise UsageError("this path is not in the project", where=name, answer=str(error)) from error
    path = root
    for part in parts:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise UsageError("this path is a symbolic link; it is not followed", where=name)
    return path
