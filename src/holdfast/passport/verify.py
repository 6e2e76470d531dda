"""Verifies a passport and its signature. Needs the file and ``ssh-keygen``; no store, no network."""

from __future__ import annotations

import hashlib
import json

from holdfast.errors import PassportError, UsageError
from holdfast.passport import signing
from holdfast.passport.archive import NotCanonical, read
from holdfast.passport.make import KIND, MANIFEST, PAGE, SIGNATURE
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.passport.archive import Entry
    from holdfast.passport.signing import Signature

_LARGEST = 256 * 1024 * 1024  # of what is kept in memory


class Verdict(Record):
    """A passport that holds. ``signer`` is empty where no allowed signer was named."""

    manifest: Json
    files: int
    bytes: int
    signature: Signature
    signer: str


def verify(path: str, *, key: str | None = None, signers: str | None = None) -> Verdict:
    """PassportError at the first thing that is not as it was signed."""
    kept: dict[str, bytearray] = {}

    def hear(name: str, block: bytes) -> None:
        if name in (MANIFEST, SIGNATURE, "run/run.json") or name.endswith("/events.jsonl"):
            data = kept.setdefault(name, bytearray())
            data += block
            if len(data) > _LARGEST:
                raise NotCanonical(f"{name!a} is too large")

    try:
        with open(untrusted.open_file(path), "rb") as source:
            entries = read(source, hear)
        verdict = _judge(entries, kept, key, signers)
    except IsADirectoryError as error:
        raise UsageError("this is a folder, not a passport", where=path, answer=str(error)) from None
    except untrusted.Untrusted as error:
        raise UsageError("a passport is a plain file", where=path, answer=str(error)) from None
    except NotCanonical as error:
        raise PassportError("this passport was changed", where=path, answer=str(error)) from None
    except PassportError as error:
        error.where = error.where or path
        raise
    return verdict


def _judge(entries: list[Entry], kept: dict[str, bytearray], key: str | None, signers: str | None) -> Verdict:
    names = [entry.name for entry in entries]
    *content, last, manifest_name, signature_name = names if len(names) > 2 else ("", "", "")
    if (last, manifest_name, signature_name) != (PAGE, MANIFEST, SIGNATURE) or content != sorted(set(content)):
        raise PassportError("this is not a passport, or its files are out of order")
    message, signature = bytes(kept.get(MANIFEST, b"")), bytes(kept.get(SIGNATURE, b""))
    signer = signing.check(message, signature, key=key, signers=signers)
    try:
        manifest = json.loads(message)
        if manifest["kind"] != KIND or manifest["v"] != 1:
            raise PassportError("this passport was made by a newer Holdfast")
        _compare(manifest, entries)
        _compare_code(manifest, entries, json.loads(kept["run/run.json"]))
        _compare_closed(manifest, entries, kept)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise PassportError("its manifest is invalid", answer=repr(error)[:200]) from None
    size = sum(entry.size for entry in entries)
    return Verdict(manifest, len(entries) - 2, size, signing.look(signature), signer)


def _compare(manifest: Json, entries: list[Entry]) -> None:
    rows = {str(row["name"]): (row["size"], row["sha256"]) for row in _rows(manifest, "files")}
    there = {entry.name: (entry.size, entry.sha256) for entry in entries[:-2]}
    for name in sorted(rows.keys() | there.keys()):
        if rows.get(name) != there.get(name):
            what = "was added" if name not in rows else "is missing" if name not in there else "was changed"
            raise PassportError(f"a file of this passport {what}", answer=ascii(name))


def _compare_code(manifest: Json, entries: list[Entry], request: Json) -> None:
    """The code must be the snapshot that the run itself names."""
    by_name = {entry.name: entry for entry in entries}
    top: dict[bytes, object] = {}
    for row in _rows(manifest, "code"):
        *folders, name = as_bytes(row["path"]).split(b"/")
        node = top
        for folder in folders:
            node = node.setdefault(folder, {})  # type: ignore[assignment]
        node[name] = {} if "dir" in row else _leaf(row, name, by_name)
    named = request.get("tree")
    if _digest(top) != named if named else top:
        raise PassportError("its code does not match the recorded snapshot of the run")


def _leaf(row: Json, name: bytes, by_name: dict[str, Entry]) -> objects.Entry:
    if "link" in row:
        return objects.Entry(name, "link", False, 0, "", as_bytes(row["link"]))
    file = by_name[str(row["name"])]
    return objects.Entry(name, "file", bool(row["executable"]), file.size, file.sha256, b"")


def _digest(folder: dict[bytes, object]) -> str:
    entries = [
        objects.Entry(name, "dir", False, 0, _digest(inner), b"") if isinstance(inner, dict) else inner
        for name, inner in folder.items()
    ]
    return hashlib.sha256(objects.encode_tree(entries)).hexdigest()  # type: ignore[arg-type]


def _compare_closed(manifest: Json, entries: list[Entry], kept: dict[str, bytearray]) -> None:
    """Log and metrics must be those that the runner closed the run with."""
    of = {str(row.get("of") or row["name"]): str(row["name"]) for row in _rows(manifest, "files")}
    by_name = {entry.name: [entry.size, entry.sha256] for entry in entries}
    attempt = max((name for name in kept if name.endswith("/events.jsonl")), key=lambda name: (len(name), name))
    closed = next((event for event in _lines(kept[attempt]) if event.get("type") == "closed"), None)
    if closed is None:
        raise PassportError("its run has not ended")
    files = closed.get("files")
    for name, promised in files.items() if isinstance(files, dict) else ():
        whole = f"{attempt.removesuffix('events.jsonl')}{name}"
        if by_name.get(of.get(whole, "")) != promised:
            raise PassportError("a file does not match the recorded end of the run", answer=ascii(name))


def _lines(data: bytearray) -> list[Json]:
    events = []
    for line in data.split(b"\n")[:-1]:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _rows(manifest: Json, name: str) -> list[Json]:
    rows = manifest[name]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{name} is not a list of objects")
    return rows
