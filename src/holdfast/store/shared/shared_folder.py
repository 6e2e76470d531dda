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
import json
import os
import re
import sys

from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import objects
from holdfast.runner.store.files import is_temporary
from holdfast.runner.store.jsonl import is_intact
from holdfast.store import archive_names
from holdfast.trust import ownership

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.runner.store.objects import Entry
    from holdfast.store.home import Home

NOTE = "holdfast-history.json"
KIND = "holdfast-history"
RUN_KIND = "holdfast-shared-run"
OBJECTS, RUNS, LABELS = "objects", "runs", "labels"
_LARGEST_LINES = 64 << 20
_LARGEST_TREES = 256 << 20  # all folders of a snapshot
_MOST_FILES = 2_000_000
_BLOCK = 1024 * 1024
_SAME = ("project_id", "tree", "created_ns", "script", "arguments", "user")
_REMOTE = re.compile(r"[^/\\]{2,}:")


class Author(Record):
    """The folder of one store; ``owner`` is the user that the file system names, -1 where it names none."""

    id: str
    path: str
    owner: int

    @property
    def owner_name(self) -> str:
        return ownership.user_name(self.owner).partition(" (")[0] if self.owner >= 0 else ""

    @property
    def is_own(self) -> bool:
        return sys.platform != "win32" and self.owner in ownership.own_ids()

    def object_path(self, digest: str) -> str:
        return os.fsdecode(objects.object_path(os.fsencode(os.path.join(self.path, OBJECTS)), digest))

    def run_path(self, uid: str) -> str:
        return os.path.join(self.path, RUNS, f"{untrusted.hexadecimal(uid, 32)}.json")


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


def opened(path: str, home: Home, *, create: bool = False) -> str:
    """The folder, links resolved, if runs were pushed there; with ``create`` also one that is still empty."""
    folder = os.path.realpath(path)
    if not os.path.isdir(folder):
        hint = f"create it with the permissions that its users need, for example: mkdir -m 3770 {path}"
        if _REMOTE.match(path):
            copy = f"rsync -a --ignore-existing FOLDER/ {path}/"
            hint = (
                f"mount that folder (sshfs, NFS), or push to a local FOLDER and copy it: {copy}; to pull, the reverse"
            )
        raise UsageError("no such folder", where=path, hint=hint)
    if _is_inside(folder, home.path):
        raise UsageError("this folder is in the store itself", where=path, hint="use a folder outside the store")
    names = os.listdir(folder)
    is_ours = os.path.lexists(os.path.join(folder, NOTE))  # after the listing: another first push may be under way
    others = [name for name in names if not is_temporary(name) and not _is_hexadecimal(name, 32)]
    if is_ours:
        _check_note(folder)
    elif not create and not authors(folder):  # the user who pushed first can remove the file; parts are enough
        hint = "name the folder that was given to holdfast history push"
        raise UsageError("no history was pushed to this folder", where=path, answer=f"it has no {NOTE}", hint=hint)
    elif create and others:
        hint = f"use an empty folder, for example: mkdir -m 3770 {os.path.join(path, 'holdfast')}"
        answer = f"{others[0]}{owner_of(os.path.join(folder, others[0]))}"
        raise UsageError("this folder is not empty and has no history", where=path, answer=answer, hint=hint)
    return folder


def owner_of(path: str) -> str:
    """``; owner: ada (uid 1000)`` for a file of another user, else empty."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return ""
    return "" if sys.platform == "win32" or owner in ownership.own_ids() else f"; owner: {ownership.user_name(owner)}"


def _is_inside(folder: str, other: str) -> bool:
    try:
        return bool(untrusted.inside(folder, other))
    except untrusted.OutsideError:
        return False


def _check_note(folder: str) -> None:
    """In a sticky folder only its owner can replace this file: every message names who that is."""
    path = os.path.join(folder, NOTE)
    owner = owner_of(path)
    away = "ask its owner to remove it, or use another folder" if owner else "remove it"
    try:
        note = untrusted.loads(untrusted.read_file(path, 10_000, follow=False))
    except (OSError, ValueError) as error:
        what = "the file that marks a shared folder cannot be read"
        hint = f"{away}: the next push writes it again" if not owner else away
        raise UsageError(what, where=path, answer=f"{error}{owner}", hint=hint) from None
    if not isinstance(note, dict) or note.get("kind") != KIND or note.get("v") != 1:
        answer = f"{ascii(note)[:200]}{owner}"
        hint = f"use a newer Holdfast if one wrote this file; otherwise {away}"
        raise UsageError("this folder has another format", where=path, answer=answer, hint=hint)


def authors(folder: str) -> list[Author]:
    """The stores that pushed: own ones first, then by id. What is not a plain folder with such a name is not one."""
    result = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if _is_hexadecimal(entry.name, 32) and entry.is_dir(follow_symlinks=False):
            owner = -1 if sys.platform == "win32" else entry.stat(follow_symlinks=False).st_uid
            result.append(Author(entry.name, entry.path, owner))
    return sorted(result, key=lambda author: not author.is_own)


def uids(author: Author) -> list[str]:
    """Runs of the store."""
    names = _names(author, RUNS)
    return [name[:-5] for name in names if name.endswith(".json") and _is_hexadecimal(name[:-5], 32)]


def label_files(author: Author) -> list[str]:
    """Paths of its files of labels."""
    names = _names(author, LABELS)
    wanted = (name for name in names if name.endswith(".jsonl") and _is_hexadecimal(name[:-6], 64))
    return [os.path.join(author.path, LABELS, name) for name in wanted]


def _names(author: Author, kind: str) -> list[str]:
    """A folder that is a link, or cannot be read, has no names."""
    folder = os.path.join(author.path, kind)
    try:
        return [] if os.path.islink(folder) else sorted(os.listdir(folder))
    except OSError:
        return []


def read_run(author: Author, uid: str) -> SharedRun:
    """ValueError or OSError where the line is damaged, or is not as ``history push`` writes it."""
    line = untrusted.read_file(author.run_path(uid), _LARGEST_LINES, within=author.path, follow=False)
    document = untrusted.loads(line)
    if not is_intact(line.rstrip(b"\n")) or not isinstance(document, dict) or document.get("kind") != RUN_KIND:
        raise untrusted.Untrusted(f"{author.run_path(uid)} is damaged")
    if document.get("uid") != uid:
        raise untrusted.Untrusted(f"{author.run_path(uid)} is about another run")
    run_id, tree = str(untrusted.component(document.get("run_id"))), document.get("tree")  # type: ignore[type-var]
    if tree:
        untrusted.hexadecimal(tree, 64)
    project_id = untrusted.guid(document.get("project_id"))
    return SharedRun(uid, run_id, project_id, str(tree or ""), _files(document.get("files")))


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
        request = untrusted.loads(untrusted.read_file(path, _LARGEST_LINES, within=author.path, follow=False))
    except (OSError, ValueError):
        return ()
    fields = request if isinstance(request, dict) else {}
    return (events, shared.tree, [fields.get(name) for name in _SAME])


def read_labels(path: str, author: Author) -> list[bytes]:
    """The lines of such a file; ValueError or OSError where it is not what its name says."""
    data = untrusted.read_file(path, _LARGEST_LINES, within=author.path, follow=False)
    if hashlib.sha256(data).hexdigest() != os.path.basename(path)[:-6]:
        raise untrusted.Untrusted(f"{path}: its content does not match its name")
    return data.splitlines(keepends=True)


def trees(author: Author, tree: str, is_known: Callable[[str], bool]) -> Iterator[tuple[str, int, list[Entry]]]:
    """Digest, size and entries of each folder of a snapshot, except of known ones; the top one first."""
    seen, waiting, left = {tree}, [(tree, 0)], _LARGEST_TREES
    while waiting:
        digest, depth = waiting.pop()
        if is_known(digest):
            continue
        data = untrusted.read_file(author.object_path(digest), left, within=author.path, follow=False)
        if hashlib.sha256(data).hexdigest() != digest:
            raise untrusted.Untrusted(f"{author.object_path(digest)}: its content does not match its name")
        if depth > objects.MAX_DEPTH:
            raise untrusted.Untrusted(f"the code {tree[:12]} has folders nested deeper than {objects.MAX_DEPTH}")
        left -= len(data)
        entries = objects.decode_tree(data)
        yield digest, len(data), entries
        below = dict.fromkeys(entry.digest for entry in entries if entry.kind == "dir" and entry.digest not in seen)
        seen.update(below)
        waiting += [(name, depth + 1) for name in below]


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


def encoded_note() -> bytes:
    return json.dumps({"v": 1, "kind": KIND}).encode() + b"\n"


def local_name(name: str) -> str:
    """A name of the list of files as this process spells it."""
    return os.fsdecode(as_bytes(name))


def _is_hexadecimal(text: str, length: int) -> bool:
    try:
        return bool(untrusted.hexadecimal(text, length))
    except untrusted.Untrusted:
        return False
