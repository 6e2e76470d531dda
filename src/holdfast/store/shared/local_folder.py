"""A shared folder of runs that has a path on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os

from holdfast.errors import StoreError
from holdfast.runner import untrusted
from holdfast.runner.history import shared_part
from holdfast.runner.store.file_owners import short_name
from holdfast.store.shared import shared_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.home import Home
    from holdfast.store.shared.shared_folder import Author, Content

_BLOCK = 1024 * 1024


class Changed(ValueError):
    """A file of this store that cannot be pushed, and why."""


class LocalFolder:
    """``path`` has its links resolved; see ``opened``."""

    copies = 1

    def __init__(self, path: str, name: str = "") -> None:
        self.path, self.name = path, name or path

    def authors(self) -> list[Author]:
        rows = shared_part.parts(self.path)
        return shared_folder.in_order(
            [
                shared_folder.Author(
                    name, os.path.join(self.path, name), short_name(owner), owner in untrusted.own_ids()
                )
                for name, owner in rows
            ]
        )

    def names(self, author: Author, kind: str) -> list[str]:
        return shared_part.names(author.path, kind)

    def bring(self, *_: object, **__: object) -> dict[str, str]:
        return {}  # everything is here

    def objects(self, author: Author) -> Iterator[tuple[str, int, str]]:
        return shared_part.hashed(author.path)

    def shown(self, author: Author) -> str:
        return author.path

    def forget(self, author: Author) -> None:
        """Nothing was brought."""

    def writer(self, store_id: str) -> LocalWriter:
        return LocalWriter(self.path, store_id)


def opened(path: str, home: Home, *, create: bool = False) -> LocalFolder:
    """The folder, if runs were pushed there; with ``create`` also one that is still empty."""
    facts = shared_part.look(path, home.path)
    shared_folder.check(facts, path, path, create=create)
    return LocalFolder(str(facts["path"]), path)


class LocalWriter:
    """``with LocalWriter(folder, store_id) as writer:`` the caller makes sure that no other of the store is open."""

    def __init__(self, folder: str, store_id: str) -> None:
        with named():
            self._part = shared_part.Part(folder, store_id)

    def __enter__(self) -> LocalWriter:
        with named():
            self._part.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._part.__exit__()

    def send(self, contents: list[Content], on_bytes: Callable[[int], object]) -> dict[str, str]:
        problems = {}
        with named():
            for content in contents:
                name = shared_part.file_name(shared_folder.OBJECTS, content.digest)
                if self._part.size(name) != content.size:
                    try:
                        self._part.put(name, pieces(content))
                        on_bytes(content.size)
                    except Changed as error:
                        problems[content.digest] = str(error)
            self._part.settle()
        return problems

    def publish(self, runs: dict[str, Content], labels: list[Content]) -> None:
        with named():
            for uid, line in runs.items():
                self._part.put(shared_part.file_name(shared_folder.RUNS, uid), (line.data,))
            for content in labels:
                self._part.put(shared_part.file_name(shared_folder.LABELS, content.digest), (content.data,))
            self._part.settle()

    def remove(self, kind: str, name: str) -> None:
        with named():
            self._part.remove(shared_part.file_name(kind, name))


@contextlib.contextmanager
def named(where: str = "") -> Iterator[None]:
    """``where``: how the user named the folder, if not by a path on this machine."""
    try:
        yield
    except shared_part.CannotWrite as error:
        raise cannot_write(error.code, where or error.where, error.answer) from error


def cannot_write(code: str, where: str, answer: str) -> StoreError:
    if code == shared_part.FOREIGN:
        hint = "only this store writes there: ask the owner to remove it, or push to another folder"
        return StoreError("the part of this store belongs to another user", where=where, answer=answer, hint=hint)
    if code == shared_part.NOT_A_FOLDER:
        what, hint = "the part of this store is not a folder", "remove it, then push again"
        return StoreError(what, where=where, answer=answer, hint=hint)
    hint = "free disk space there, or check that you may write to this folder; then push again"
    return StoreError("the shared folder cannot be written", where=where, answer=answer, hint=hint)


def pieces(content: Content) -> Iterator[bytes]:
    """The content, known to hash to its digest when the last piece was given; else Changed."""
    if not content.path:
        yield content.data
        return
    state = hashlib.sha256()
    for block in blocks(content.path):
        state.update(block)
        yield block
    if state.hexdigest() != content.digest:
        raise Changed(f"{content.path}: its content does not match its hash")


def blocks(path: str) -> Iterator[bytes]:
    try:
        with open(untrusted.open_file(path, follow=False), "rb") as source:
            while block := source.read(_BLOCK):
                yield block
    except OSError as error:
        raise Changed(f"{path}: {error.strerror}") from None
    except untrusted.Untrusted as error:
        raise Changed(str(error)) from None
