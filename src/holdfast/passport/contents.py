"""What of a run goes into its passport: the files of its attempts, its code, its environment's lock, what it comes to.

Outputs stay out, for they may be large; their manifest with a hash of each is in.
"""

from __future__ import annotations

import json
import os
import stat

from holdfast.environments import lock as locks
from holdfast.errors import ConfigError, StoreError
from holdfast.passport.archive import BLOCK
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import lossless
from holdfast.runner.machine import environment
from holdfast.runner.store import layout, objects
from holdfast.store import runs
from holdfast.store.archive_names import FOLDERS, OF_AN_ATTEMPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.model import Json
    from holdfast.runner.store.objects import Entry
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_UNSAFE = frozenset('\\:*?"<>|')


class Part(Record):
    """One file of the passport: its name there, its size, and how to read it. ``of`` is a name that no zip can hold."""

    name: str
    size: int
    blocks: Callable[[], Iterable[bytes]]
    of: str = ""


class Contents(Record):
    """All parts, the rows of the code, and whether an environment's lock was found."""

    parts: list[Part]
    code: list[Json]
    lock: str


def gather(home: Home, run: Run, record: Json) -> Contents:
    names = _Names()
    parts = [_of_file("run/run.json", layout.request(run.path))]
    for number in range(1, run.attempt_number + 1):
        parts += _attempt(run, f"a{number}", names)
    parts.append(_of_bytes("record.json", _json(record)))
    if record.get("gpu") is not None:
        parts.append(_of_bytes("receipt.json", _json(record["gpu"])))
    lock = environment_lock(home, runs.read_plan(run) or {})
    if lock:
        parts.append(_of_bytes("environment.lock", lock.encode()))
    code, files = _code(home, run, names)
    return Contents(parts + files, code, lock)


def environment_lock(home: Home, plan: Json) -> str:
    """The lock of the environment that a plan names, from the environment itself or from what was solved here."""
    recorded = plan.get("environment")
    key, prefix = (recorded.get("key"), recorded.get("prefix")) if isinstance(recorded, dict) else (None, None)
    if not isinstance(key, str) or not isinstance(prefix, str):
        return ""
    try:
        note = environment.read_note(os.fsencode(home.environment(key))) or {}
    except untrusted.Untrusted:
        return ""
    for candidate in (note.get("lock"), *_solved(home)):
        try:
            lock = locks.from_json(candidate, key)
        except ConfigError:
            continue
        named = locks.env_key(lock, os.path.dirname(prefix))
        if key == named or key.startswith(f"{named}-"):
            return locks.to_text(lock)
    return ""


def _solved(home: Home) -> Iterator[object]:
    folder = layout.solved(home.path)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        try:
            with open(os.path.join(folder, name), "rb") as source:
                yield json.loads(source.read())
        except (OSError, ValueError, RecursionError):
            continue


class _Names:
    """Names that every zip program takes as they are; others get a number, and the manifest says whose it is."""

    def __init__(self) -> None:
        self._odd = 0

    def stored(self, name: str) -> str:
        if name.isprintable() and not _UNSAFE & set(name) and len(name.encode("utf-8", "replace")) < 4096:
            return name
        self._odd += 1
        return f"odd/{self._odd}"


def _attempt(run: Run, attempt: str, names: _Names) -> Iterator[Part]:
    folder = os.path.join(run.path, attempt)
    inner = list(OF_AN_ATTEMPT)
    for name in FOLDERS:
        directory = os.path.join(folder, name)
        inner += [f"{name}/{file}" for file in sorted(os.listdir(directory))] if os.path.isdir(directory) else []
    for name in inner:
        path, whole = os.path.join(folder, name), f"run/{attempt}/{name}"
        try:
            regular = stat.S_ISREG(os.lstat(path).st_mode)
        except FileNotFoundError:
            continue
        if regular:
            stored = names.stored(whole)
            yield _of_file(stored, path)._replace(of="" if stored == whole else whole)


def _code(home: Home, run: Run, names: _Names) -> tuple[list[Json], list[Part]]:
    tree, root = run.request.get("tree"), os.fsencode(home.objects)
    if not isinstance(tree, str) or not tree:
        return [], []
    rows: list[Json] = []
    parts: list[Part] = []
    try:
        for path, entry in _walk(root, tree, b""):
            text = lossless(path)
            if entry is None:
                rows.append({"path": text, "dir": True})
            elif entry.kind == "link":
                rows.append({"path": text, "link": lossless(entry.target)})
            else:
                stored = names.stored(f"code/{text}")
                rows.append({"path": text, "name": stored, "executable": entry.executable})
                source = os.fsdecode(objects.object_path(root, entry.digest))
                parts.append(_of_file(stored, source)._replace(of="" if stored == f"code/{text}" else f"code/{text}"))
    except (objects.Damaged, FileNotFoundError) as error:
        hint = (
            "holdfast store verify lists all damage; the code of pulled runs is stored by the client that started them"
        )
        where = str(run.request.get("run_id"))
        raise StoreError(
            "the code of this run is incomplete here", where=where, answer=str(error), hint=hint
        ) from error
    return rows, parts


def _walk(root: bytes, tree: str, below: bytes) -> Iterator[tuple[bytes, Entry | None]]:
    """Every file and link of a tree with its path; a folder only where it is empty."""
    entries = objects.read_tree(root, tree, below)
    if not entries and below:
        yield below, None
    for entry in entries:
        path = os.path.join(below, entry.name)
        if entry.kind == "dir":
            yield from _walk(root, entry.digest, path)
        else:
            yield path, entry


def _of_file(name: str, path: str) -> Part:
    return Part(name, os.lstat(path).st_size, lambda: _blocks(path))


def _of_bytes(name: str, data: bytes) -> Part:
    return Part(name, len(data), lambda: (data,))


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as source:
        while block := source.read(BLOCK):
            yield block


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=True).encode() + b"\n"
