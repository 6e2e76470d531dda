"""Makes a passport: all is written once and hashed on the way, then the list of hashes is signed."""

from __future__ import annotations

import json
import os
import time

from holdfast import _version, lifecycle
from holdfast.errors import StoreError, UsageError
from holdfast.passport import signing
from holdfast.passport.archive import Writer
from holdfast.passport.contents import gather
from holdfast.passport.page import page
from holdfast.runner.store.files import SYNCED, WholeFile
from holdfast.store import history_record, verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.passport.archive import Entry
    from holdfast.passport.contents import Contents
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

MANIFEST, SIGNATURE, PAGE = "manifest.json", "manifest.json.sig", "index.html"
KIND = "holdfast-passport"


def make(home: Home, run: Run, key: str, path: str) -> Json:
    """Write the passport of a run that has ended; returns its manifest."""
    _check(run)
    if os.path.lexists(path):
        raise UsageError("this file already exists; nothing was written", where=path, hint="use --to for another file")
    record = history_record.record(run)
    contents = gather(home, run, record)
    try:
        with WholeFile(path, 0o666, SYNCED, new=True) as target:
            manifest = _write(Writer(target), contents, record, key)
    except FileExistsError:
        raise UsageError("this file already exists; nothing was written", where=path) from None
    except ValueError as error:
        raise StoreError("a file of this run changed while it was read", answer=str(error), hint="try again") from error
    return manifest


def _check(run: Run) -> None:
    """Nothing is signed that is not as the runner left it."""
    name, status = str(run.request.get("run_id")), lifecycle.state_of(run.events)
    if run.problem:
        raise StoreError("this run cannot be read", where=name, answer=run.problem)
    if status not in lifecycle.FINAL:
        hint = f"wait for its end: holdfast logs -f -r {run.request.get('run_number')}"
        raise UsageError("a passport requires a run that has ended", where=name, answer=status, hint=hint)
    closed = next(event for event in run.events if event.get("type") == "closed")
    wrong = verify.differences(run, closed)
    if wrong:
        raise StoreError(
            "no passport is written: files of this run were changed after it ended",
            where=name,
            answer="\n".join(wrong[:10]),
            hint="holdfast store verify",
        )


def _write(writer: Writer, contents: Contents, record: Json, key: str) -> Json:
    of = {}
    for part in sorted(contents.parts, key=lambda part: part.name):
        writer.add(part.name, part.size, part.blocks())
        of[part.name] = part.of
    now = time.time_ns()
    manifest: Json = {
        "v": 1,
        "kind": KIND,
        **{name: record[name] for name in ("run_id", "uid", "script_name", "user", "host", "status", "exit_code")},
        "tree": _snapshot(record),
        "holdfast": _version.__version__,
        "signed_ns": now,
        "signed_utc": history_record.utc(now),
        "code": contents.code,
    }
    _add(writer, PAGE, page(record, manifest, writer.entries, bool(contents.lock)))
    manifest["files"] = [_row(entry, of.get(entry.name, "")) for entry in writer.entries]
    text = json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"
    _add(writer, MANIFEST, text)
    _add(writer, SIGNATURE, signing.sign(text, key))
    writer.finish()
    return manifest


def _add(writer: Writer, name: str, data: bytes) -> None:
    writer.add(name, len(data), (data,))


def _row(entry: Entry, of: str) -> Json:
    row: Json = {"name": entry.name, "size": entry.size, "sha256": entry.sha256}
    return {**row, "of": of} if of else row


def _snapshot(record: Json) -> str:
    properties = record.get("properties")
    return str(properties.get("Snapshot", "")) if isinstance(properties, dict) else ""
