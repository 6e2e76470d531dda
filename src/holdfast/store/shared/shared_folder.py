"""A folder with the runs of several stores (``holdfast history push``): its names, how it is read and written.

    holdfast-history.json              {"v": 1, "kind": "holdfast-history"}
    <store id>/objects/ab/cdef...      files of runs and snapshots, named by their SHA-256
    <store id>/runs/<uid>.json         one line per run: its files by name, size and hash; written after its objects
    <store id>/labels/<sha256>.jsonl   names, tags, notes and hidden marks, the new ones of one push

Below the folder of a store only that store writes, and no file gets a second content: there is nothing to merge. What
is read here was written by others and is checked like an archive.
"""

from __future__ import annotations

import hashlib
import os

from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.history import shared_part
from holdfast.runner.store import objects
from holdfast.runner.store.jsonl import SEALED, is_intact
from holdfast.store import archive_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Protocol

    from holdfast.model import Json
    from holdfast.runner.store.objects import Entry
else:
    Protocol = object  # for the type checker only

NOTE, OBJECTS, RUNS, LABELS = shared_part.NOTE, shared_part.OBJECTS, shared_part.RUNS, shared_part.LABELS
RUN_KIND = "holdfast-shared-run"
LARGEST_LINES = 64 << 20
_LARGEST_TREES = 256 << 20  # all folders of a snapshot
_MOST_FILES = 2_000_000
_BLOCK = 1024 * 1024
_SAME = ("project_id", "tree", "created_ns", "script", "arguments", "user")


class NewerVersionError(ValueError):
    """A line has a format version that this Holdfast does not read yet."""


class Author(Record):
    """The part of one store. ``owner_name`` is the user that the file system names, empty where it names none.

    ``is_own``: that is this user. Below ``path`` lies what was written there, or what of it was brought from a target.
    """

    id: str
    path: str
    owner_name: str
    is_own: bool

    def object_path(self, digest: str) -> str:
        return self.file(OBJECTS, digest)

    def run_path(self, uid: str) -> str:
        return self.file(RUNS, uid)

    def labels_path(self, name: str) -> str:
        return self.file(LABELS, name)

    def file(self, kind: str, name: str) -> str:
        return os.path.join(self.path, *shared_part.file_name(kind, name).split("/"))


class SharedRun(Record):
    """What a store says about one of its runs. ``files``: size and SHA-256 by name, as in an archive of runs.

    ``tree`` is empty where the code was not pushed.
    """

    uid: str
    run_id: str
    project_id: str
    tree: str
    files: dict[str, tuple[int, str]]

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())


class Content(Record):
    """What becomes an object or a line: a file at ``path``, or ``data``."""

    digest: str
    size: int
    path: str = ""
    data: bytes = b""


class Writer(Protocol):
    """Adds to the part of this store; a ``with`` block, of which one is open at a time."""

    def __enter__(self) -> Writer: ...

    def __exit__(self, *_: object) -> None: ...

    def send(self, contents: list[Content], on_bytes: Callable[[int], object]) -> dict[str, str]:
        """Put what is not there yet on disk. Returns, by digest, why some of it cannot be: it changed, or is damaged.

        ``on_bytes`` is called with the bytes of each step.
        """

    def publish(self, runs: dict[str, Content], labels: list[Content]) -> None:
        """Add lines whose objects are on disk."""

    def remove(self, kind: str, name: str) -> None:
        """A damaged file, if it is there."""


class SharedFolder(Protocol):
    """A folder with the runs of several stores: on this machine, or on a target."""

    name: str  # as the user wrote it
    copies: int  # of a run on this machine's disk while it is pulled

    def authors(self) -> list[Author]:
        """The stores that pushed, own ones first, then by id."""

    def names(self, author: Author, kind: str) -> list[str]:
        """The uids of its runs, or the hashes of its labels."""

    def bring(self, author: Author, kind: str, limits: Mapping[str, int], most: int | None = None) -> dict[str, str]:
        """Have these files below ``author.path``, of at most so many bytes each; why some of them are not.

        ``most``: bytes of all together; more are a ValueError.
        """

    def objects(self, author: Author) -> Iterator[tuple[str, int, str]]:
        """Digest and size of each of its objects, and what is wrong with it; each is read where it is."""

    def shown(self, author: Author) -> str:
        """The path of its part, as the user names the folder."""

    def forget(self, author: Author) -> None:
        """What was brought is not needed any more."""

    def writer(self, store_id: str) -> Writer: ...


def check(facts: Json, name: str, there: str, *, create: bool) -> None:
    """UsageError for a folder that is not a shared one, and cannot become one. ``facts``: ``shared_part.look``.

    ``there``: the path where the folder is, for commands in hints.
    """
    state, answer, owner = (str(facts.get(key) or "") for key in ("state", "answer", "owner"))
    answer += f"; owner: {owner}" if owner else ""
    away = "ask its owner to remove it, or use another folder" if owner else "remove it"
    if state == "history" or (state == "empty" and create):
        return
    if state == "absent":
        hint = f"create it with the permissions that its users need, for example: mkdir -m 3770 {there}"
        raise UsageError("no such folder", where=name, hint=hint)
    if state == "unreadable":
        raise UsageError("this folder cannot be read", where=name, answer=answer, hint="check its permissions")
    if state == "in-store":
        raise UsageError("this folder is in the store itself", where=name, hint="use a folder outside the store")
    if state == "unreadable-note":
        what = "the file that marks a shared folder cannot be read"
        hint = away if owner else f"{away}: the next push writes it again"
        raise UsageError(what, where=f"{name}/{NOTE}", answer=answer, hint=hint)
    if state == "other-format":
        hint = f"use a newer Holdfast if one wrote this file; otherwise {away}"
        raise UsageError("this folder has another format", where=f"{name}/{NOTE}", answer=answer, hint=hint)
    if create:
        hint = f"use an empty folder, for example: mkdir -m 3770 {there}/holdfast"
        raise UsageError("this folder is not empty and has no history", where=name, answer=answer, hint=hint)
    hint = "name the folder that was given to holdfast history push"
    raise UsageError("no history was pushed to this folder", where=name, answer=f"it has no {NOTE}", hint=hint)


def in_order(authors: list[Author]) -> list[Author]:
    return sorted(authors, key=lambda author: (not author.is_own, author.id))


def read_run(author: Author, uid: str) -> SharedRun:
    """ValueError or OSError where the line is damaged, or is not as ``history push`` writes it."""
    line = untrusted.read_file(author.run_path(uid), LARGEST_LINES, within=author.path, follow=False)
    try:
        document = untrusted.loads(line)
    except ValueError as error:
        raise untrusted.Untrusted(f"{author.run_path(uid)} is damaged: {error}") from error
    if not is_intact(line.rstrip(b"\n")) or not isinstance(document, dict):
        raise untrusted.Untrusted(f"{author.run_path(uid)} is damaged")
    check_version(document, author.run_path(uid))
    if document.get("kind") != RUN_KIND:
        raise untrusted.Untrusted(f"{author.run_path(uid)} is damaged")
    if document.get("uid") != uid:
        raise untrusted.Untrusted(f"{author.run_path(uid)} is about another run")
    run_id, tree = str(untrusted.component(document.get("run_id"))), document.get("tree")  # type: ignore[type-var]
    if tree:
        untrusted.hexadecimal(tree, 64)
    project_id = untrusted.guid(document.get("project_id"))
    return SharedRun(uid, run_id, project_id, str(tree or ""), _files(document.get("files")))


def check_version(line: Json, where: str) -> None:
    """NewerVersionError for a line of a later format, ``Untrusted`` where its version is none."""
    version = line.get("v", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise untrusted.Untrusted(f"{where} is damaged: its format version is {version!a:.40}")
    if version > SEALED:
        read = f"this one reads {SEALED} and earlier"
        raise NewerVersionError(f"{where} has format version {version!a:.40}: a newer Holdfast wrote it, {read}")


def _files(value: object) -> dict[str, tuple[int, str]]:
    if not isinstance(value, dict) or len(value) > _MOST_FILES:
        raise untrusted.Untrusted("it has no list of files")
    result = {}
    for name, facts in value.items():
        if not archive_names.is_run_file(name):
            raise untrusted.Untrusted(f"not a file of a run: {name[:200]!a}")
        size, digest = facts if isinstance(facts, list) and len(facts) == 2 else (None, None)
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**63:
            raise untrusted.Untrusted(f"no size: {name[:200]!a}")
        result[name] = (size, untrusted.hexadecimal(digest, 64))
    return result


def evidence(author: Author, shared: SharedRun) -> tuple[object, ...]:
    """What two stores that offer the same run agree on: its events, and what was submitted by whom."""
    events = sorted((name, facts) for name, facts in shared.files.items() if name.endswith("/events.jsonl"))
    _, digest = shared.files.get("run.json", (0, ""))
    try:
        path = author.object_path(digest)
        request = untrusted.loads(untrusted.read_file(path, LARGEST_LINES, within=author.path, follow=False))
    except (OSError, ValueError):
        return ()
    fields = request if isinstance(request, dict) else {}
    return (events, shared.tree, [fields.get(name) for name in _SAME])


def read_labels(author: Author, name: str) -> list[bytes]:
    """The lines of such a file; ValueError or OSError where it is not what its name says."""
    path = author.labels_path(name)
    data = untrusted.read_file(path, LARGEST_LINES, within=author.path, follow=False)
    if hashlib.sha256(data).hexdigest() != name:
        raise untrusted.Untrusted(f"{path}: its content does not match its name")
    return data.splitlines(keepends=True)


def trees(
    author: Author, tree: str, is_known: Callable[[str], bool], bring: Callable[[list[str], int], object]
) -> Iterator[tuple[str, int, list[Entry]]]:
    """Digest, size and entries of each folder of a snapshot, except of known ones; the top one first.

    ``bring`` is called with the folders that are read next, and how large they may be.
    """
    seen, level, left, depth = {tree}, [tree], _LARGEST_TREES, 0
    while level := [digest for digest in level if not is_known(digest)]:
        if depth > objects.MAX_DEPTH:
            raise untrusted.Untrusted(f"the code {tree[:12]} has folders nested deeper than {objects.MAX_DEPTH}")
        bring(level, left)
        below: list[str] = []
        for digest in level:
            data = untrusted.read_file(author.object_path(digest), left, within=author.path, follow=False)
            if hashlib.sha256(data).hexdigest() != digest:
                raise untrusted.Untrusted(f"{author.object_path(digest)}: its content does not match its name")
            left -= len(data)
            entries = objects.decode_tree(data)
            yield digest, len(data), entries
            below += [entry.digest for entry in entries if entry.kind == "dir" and entry.digest not in seen]
            seen.update(below)
        level, depth = list(dict.fromkeys(below)), depth + 1


def copy_object(author: Author, digest: str, size: int, target: str) -> None:
    """Into a new file of this store. Never more bytes than ``size``; ValueError where the content is another."""
    path = author.object_path(digest)
    os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
    state, left = hashlib.sha256(), size
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with (
        open(untrusted.open_file(path, size, within=author.path, follow=False), "rb") as source,
        open(os.open(target, flags, 0o600), "wb") as sink,
    ):
        while block := source.read(min(_BLOCK, left + 1)):
            left -= len(block)
            if left < 0:
                raise untrusted.Untrusted(f"{path}: larger than {size} bytes")
            state.update(block)
            sink.write(block)
    if left or state.hexdigest() != digest:
        raise untrusted.Untrusted(f"{path}: its content does not match its name")


def local_name(name: str) -> str:
    """A name of the list of files as this process spells it."""
    return os.fsdecode(as_bytes(name))
