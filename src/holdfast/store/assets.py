"""Promoted outputs: a name and a version for one file of one run, in ``assets.jsonl``, and links to them in projects.

A link is a file of the original's form, one line of JSON, with what it takes to find the content without that list:
``{"assetSource": "holdfast", "name", "version", "run_id", "uid", "path", "sha256", "size"}``.
"""

from __future__ import annotations

import json
import os
import time

from holdfast.errors import ConfigError, UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.store import layout
from holdfast.runner.store.files import write_all, write_whole
from holdfast.runner.store.jsonl import read_lines, sealed
from holdfast.store import history_record, output_manifest, runs
from holdfast.store.home import Named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json, Project
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

FOLDER = "assets"
_LONGEST = 200
_LARGEST_LINK = 65536
_MOST_DIGITS = 18  # of a version


class Asset(Record):
    """``path`` is below outputs/. ``uid`` and what follows are empty in a link that the original wrote."""

    name: str
    version: str
    uid: str = ""
    run_id: str = ""
    path: str = ""
    sha256: str = ""
    size: int = 0


def promote(home: Home, project: Project, run: Run, path: str, name: str) -> Asset:
    """The next version of this name, on the list and then in the project's link."""
    _check_name(name)
    row = output_row(run, path)
    asset = Asset(
        *(name, "0", run.uid, str(run.request.get("run_id")), str(row["path"]), str(row["sha256"])),
        size=int(str(row.get("size") or 0)),
    )
    folder = os.path.join(project.root, FOLDER)
    untrusted.inside(folder, project.root)
    os.makedirs(folder, exist_ok=True)
    with home.lock("assets"):
        known = [entry for entry in listed(home, project.id) if entry["name"] == name]
        asset = asset._replace(version=str(1 + max((int(str(entry["version"])) for entry in known), default=0)))
        _append(home, sealed({"wall_ns": time.time_ns(), "project_id": project.id, **asset._asdict()}))
        link: Json = {"assetSource": "holdfast", **asset._asdict()}
        write_whole(link_of(project, name), json.dumps(link, separators=(",", ":")).encode() + b"\n")
    return asset


def listed(home: Home, project_id: str) -> list[Json]:
    """Newest first."""
    lines = read_lines(os.fsencode(_file(home)))
    mine = [
        line
        for line in lines
        if line.get("project_id") == project_id and untrusted.whole_number(str(line.get("version"))) is not None
    ]
    kept = ("name", "version", "run_id", "uid", "path", "size", "sha256")
    return [
        {**{name: line.get(name) for name in kept}, "promoted_utc": history_record.utc(line.get("wall_ns"))}
        for line in reversed(mine)
    ]


def link_of(project: Project, name: str) -> str:
    return os.path.join(project.root, FOLDER, f"{name}.link")


def read_link(path: str) -> Asset:
    """What a link says. It may come from anywhere: every field is checked."""
    try:
        link = json.loads(untrusted.read_file(path, _LARGEST_LINK).decode("utf-8-sig"))
        name, version = link["name"], str(link["version"])
        uid, run_id, below, digest = (str(link.get(key) or "") for key in ("uid", "run_id", "path", "sha256"))
        size = link.get("size", 0)
        asset = Asset(name, version, uid, run_id, below, digest, size)
        _check_name(name)
        _check_numbers(version, size)
    except FileNotFoundError:
        raise UsageError("no such link", where=path, hint="holdfast asset list shows the assets") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
        hint = "expected one line such as " + '{"assetSource":"holdfast","name":"mnist","version":"3"}'
        raise ConfigError("this is not an asset link", where=path, answer=str(error)[:200], hint=hint) from None
    return asset


def located(home: Home, project: Project, asset: Asset) -> Asset:
    """The same with its run: from the link itself, else from the list by name and version."""
    if asset.uid:
        return asset
    for entry in listed(home, project.id):
        if (entry["name"], entry["version"]) == (asset.name, asset.version):
            return Asset(**{name: entry[name] for name in Asset._fields})  # type: ignore[arg-type]
    raise UsageError(
        f"version {asset.version} of {asset.name} was not promoted in this project",
        where=project.root,
        hint="holdfast asset list shows the promoted assets; if you have the file, put it next to its link",
    )


def run_of(home: Home, asset: Asset) -> Run:
    if not runs.is_uid(asset.uid) or not os.path.isdir(home.run(asset.uid)):
        hint = "holdfast history pull -c TARGET adds runs of a machine, holdfast history import runs of a file"
        raise UsageError(
            "the run that made this asset is not in this store", where=asset.run_id or asset.uid, hint=hint
        )
    return runs.read(home, asset.uid)


def output_row(run: Run, path: str) -> Json:
    """The line of the run's manifest about one of its outputs."""
    wanted = path.removeprefix("./").removeprefix("outputs/")
    rows = {str(row["path"]): row for row in history_record.output_rows(run) if "sha256" in row}
    wanted = wanted if wanted in rows else output_manifest.row_path(run, path)
    if wanted not in rows:
        names = ", ".join(output_manifest.name_of(row) for row in list(rows.values())[:20])
        hint = f"it has: {names}" if rows else "it has no outputs"
        raise UsageError(f"this run has no output {path!r}", where=str(run.request.get("run_id")), hint=hint)
    return rows[wanted]


def _check_numbers(version: str, size: object) -> None:
    if not (version.isascii() and version.isdigit() and len(version) <= _MOST_DIGITS):
        raise ValueError(f"version is not a number: {version[:80]!a}")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**63:
        raise ValueError(f"size is not a number of bytes: {size!a:.80}")


def _check_name(name: object) -> None:
    try:
        untrusted.component(name)  # type: ignore[type-var]
        plain = isinstance(name, str) and len(name) <= _LONGEST and name.isprintable() and name[0] not in ".- "
    except untrusted.Untrusted:
        plain = False
    if not plain or set(str(name)) & set('\\:*?"<>|'):
        raise UsageError(f"{name!a} is not a valid asset name", hint="use a plain file name such as mnist")


def _append(home: Home, line: bytes) -> None:
    path = _file(home)
    with Named(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.lseek(fd, max(os.fstat(fd).st_size - 1, 0), os.SEEK_SET)
            is_whole = os.read(fd, 1) in (b"", b"\n")
            write_all(fd, line if is_whole else b"\n" + line)  # a killed writer's half line stays a line of its own
            os.fsync(fd)
        finally:
            os.close(fd)


def _file(home: Home) -> str:
    return layout.assets(home.path)
