"""The manifest of a run's outputs: which files there are, and which could not be stored or fetched."""

from __future__ import annotations

import os

from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.runner.store.jsonl import read_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.runs import Run

NOTE = "outputs"  # type of the line in client.jsonl that says which outputs could not be brought here
MOST_NOTED = 100  # names in such a line
MOST_ROWS = 1_000_000  # of a manifest
_EXECUTE = {"u": 0o100, "g": 0o010, "o": 0o001}
_LONGEST = 300  # characters of a name that cannot be used


def rows(run: Run) -> list[Json]:
    """Files and links whose names can be used on this system; ``path`` is then safe below the run's outputs/."""
    return rows_of(run.attempt)


def rows_of(attempt: str) -> list[Json]:
    """The same of the attempt in this folder."""
    return _sorted_out(attempt)[0]


def listed(run: Run) -> list[Json]:
    """The same of an ended run: the index reads one that has ended once, and open ones at every look."""
    return rows(run) if any(event.get("type") == "closed" for event in run.events) else []


def refused(run: Run) -> dict[str, str]:
    """Rows that cannot be used here, by name, and why."""
    return _sorted_out(run.attempt)[1]


def unkept(run: Run) -> dict[str, str]:
    """What the script left and the runner did not keep, by name, and why."""
    return {str(row.get("path")): str(row["skipped"]) for row in _lines(run.attempt) if "skipped" in row}


def unread(run: Run) -> dict[str, str]:
    """Those of them that could not be read, by name, and why."""
    return {str(row.get("path")): str(row.get("skipped")) for row in _lines(run.attempt) if "unread" in row}


def is_output(row: Json) -> bool:
    """Whether the script wrote it below outputs/; otherwise it was elsewhere in its folder."""
    return "project" not in row


def name_of(row: Json) -> str:
    """Where the script wrote it, relative to the project."""
    return f"outputs/{row.get('path')}" if is_output(row) else str(row["project"])


def row_path(run: Run, name: str) -> str:
    """The path in the manifest of the file that the script wrote as ``name``."""
    plain = name.removeprefix("./")
    written = (str(row["path"]) for row in rows(run) if not is_output(row) and row["project"] == plain)
    return next(written, plain.removeprefix("outputs/"))


def names(run: Run) -> dict[str, str]:
    """The names by the paths in the manifest."""
    return {str(row.get("path")): name_of(row) for row in _lines(run.attempt)}


def execute_bits(row: Json) -> int:
    """Of the file's mode, who may execute it; nothing else of a mode comes from a target."""
    who = row.get("executable")
    return sum(bit for letter, bit in _EXECUTE.items() if isinstance(who, str) and letter in who)


def kept(run: Run) -> Json:
    """What the runner says of files outside outputs/: kept, not kept because of a limit, and ignored."""
    event = next((event for event in run.events if event.get("type") == "kept"), {})
    files = [row for row in listed(run) if not is_output(row)]
    return {
        "files": len(files),
        "bytes": sum(int(str(row["size"])) for row in files),
        "limit": event.get("limit"),
        "max_files": event.get("max_files"),
        "above": _above(event.get("above"), files),
        "not_kept": _counts(event.get("not_kept")),
        "ignored": _counts(event.get("ignored")),
    }


def _above(folder: object, files: list[Json]) -> Json | None:
    """The folder that stands for ../, and what the script wrote there."""
    sizes = [int(str(row["size"])) for row in files if str(row["project"]).startswith(f"{folder}/")]
    return {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes)} if folder and sizes else None


def _counts(recorded: object) -> Json:
    counts = recorded if isinstance(recorded, dict) else {}
    rows = counts.get("paths")
    paths = [
        {
            "path": str(row.get("path")),
            **{name: _count(row.get(name)) for name in ("files", "bytes")},
            **({"built_in": True} if row.get("built_in") is True else {}),
        }
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    ]
    return {**{name: _count(counts.get(name)) for name in ("files", "bytes", "more")}, "paths": paths}


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def path_of(run: Run, row: Json) -> str:
    return untrusted.below(layout.outputs(run.attempt), local_name(str(row["path"])))


def local_name(name: str) -> str:
    """The name as this process spells it, whose locale may know fewer characters than the manifest's UTF-8."""
    return os.fsdecode(as_bytes(name))


def is_here(run: Run, row: Json) -> bool:
    """Whether the file is in this store with the right length; ``store verify`` compares contents."""
    try:
        return os.lstat(path_of(run, row)).st_size == row.get("size") or "link" in row
    except (OSError, ValueError):
        return False


def not_brought(run: Run) -> dict[str, str]:
    """Outputs that were to come to this machine and could not, as last noted, by name, and why."""
    note = next((line for line in reversed(run.client) if line.get("type") == NOTE), {})
    problems = note.get("problems")
    return {str(name): str(why) for name, why in problems.items()} if isinstance(problems, dict) else {}


def trouble(run: Run) -> list[str]:
    """Line by line what the runner could not keep when the script ended."""
    closed = next((event for event in run.events if event.get("type") == "closed"), {})
    lines = str(closed.get("outputs_trouble") or "").splitlines()
    if not is_late(run, closed):
        return lines
    known = names(run)
    late = [f"{known[name]} could not be read: {why}" for name, why in unread(run).items()]
    return [line for line in lines if line != closed.get("unlisted")] + late


def is_late(run: Run, closed: Json) -> bool:
    """Whether the manifest was written after the run had been closed: the disk was full before."""
    return not is_vouched_for(closed) and os.path.lexists(layout.manifest(run.attempt))


def is_missing(run: Run) -> bool:
    """Whether the run has ended without a manifest, and its target may have one by now or be able to write it."""
    kinds = {str(event.get("type")): event for event in run.events}
    if "exited" not in kinds or "closed" not in kinds or is_vouched_for(kinds["closed"]):
        return False
    return not os.path.lexists(layout.manifest(run.attempt))


def is_vouched_for(closed: Json) -> bool:
    """Whether the closing event has the manifest's hash."""
    files = closed.get("files")
    return isinstance(files, dict) and layout.manifest.name in files


def problems(run: Run) -> list[str]:
    """One line for everything that makes the outputs of a closed run incomplete; empty when all is well."""
    missing = not_brought(run)
    known = names(run) if missing else {}
    lines = [f"{known.get(name, f'outputs/{name}')} was not downloaded: {why}" for name, why in missing.items()]
    return trouble(run) + lines + _too_large(run)


def _sorted_out(attempt: str) -> tuple[list[Json], dict[str, str]]:
    usable: dict[str, Json] = {}
    unusable: dict[str, str] = {}
    for row in _lines(attempt):
        if "skipped" in row:
            continue
        why = _problem(row)
        name = str(row.get("path"))
        if not why and name in usable:
            why = "the manifest lists it twice"
        if why:
            unusable[name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."] = why
        else:
            usable[name] = row
    return list(usable.values()), unusable


def _problem(row: Json) -> str:
    try:
        untrusted.relative(row.get("path"))  # type: ignore[type-var]
        if "sha256" in row:
            untrusted.hexadecimal(row["sha256"], 64)
        if "project" in row and not _is_project_path(row):
            return "its path in the project is invalid"
    except untrusted.Untrusted as error:
        return str(error)
    size = row.get("size")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        return "its size is invalid"
    return "" if "sha256" in row or isinstance(row.get("link"), str) else "the manifest has no hash of it"


def _is_project_path(row: Json) -> bool:
    """Whether it is the same path, without the folder that has such files in outputs/."""
    path = untrusted.relative(row["project"])  # type: ignore[type-var]
    return str(row["path"]).partition("/")[2] == path and path.partition("/")[0] != layout.outputs.name


def _lines(attempt: str) -> list[Json]:
    try:
        return _read(attempt)
    except (OSError, untrusted.TooLargeError):
        return []  # a file that cannot be read costs this field, not the history; `store verify` tells of it


def _read(attempt: str) -> list[Json]:
    return read_lines(as_bytes(layout.manifest(attempt)), most=MOST_ROWS)


def _too_large(run: Run) -> list[str]:
    try:
        if os.path.getsize(layout.manifest(run.attempt)) > MOST_ROWS:  # bytes; fewer cannot be that many lines
            _read(run.attempt)
    except untrusted.TooLargeError as error:
        return [str(error)]
    except OSError:
        pass
    return []
