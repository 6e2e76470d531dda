"""What a run says of files outside outputs/ that were not kept: their sizes, where they are and how to keep them."""

from __future__ import annotations

import os

from holdfast.present.terminal import human_bytes
from holdfast.runner.store import layout
from holdfast.store import output_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json
    from holdfast.store.runs import Run

_NAMED = 5
_WORTH_NAMING = 1_000_000  # bytes
_COMPILED = ("__pycache__", ".pyc", ".pyo")


def lines(run: Run) -> Iterator[tuple[str, str]]:
    """Labels and texts for ``info``: what exceeded a limit, and what the rules leave out."""
    kept = output_manifest.kept(run)
    if above := _above(kept):
        yield "above", above
    if not_kept := _counted(kept["not_kept"]):
        yield "not kept", f"{not_kept}; {_remedy(run, kept)}"
    if ignored := _counted(kept["ignored"]):
        yield "ignored", f"{ignored}, by rules (.keepignore and names of caches)"


def warning(run: Run) -> str:
    """What the last lines of a submit say; empty where everything was kept."""
    kept = output_manifest.kept(run)
    not_kept = _counted(kept["not_kept"])
    above = _above(kept)
    lines = [f"Kept {above}"] if above else []
    lines += [f"Not kept: {not_kept}\n  {_remedy(run, kept)}"] if not_kept else []
    rows = [row for row in _paths(kept["ignored"]) if _is_worth_a_word(row)]
    if rows:
        shown = _counted({"paths": rows, "bytes": sum(_size(row) for row in rows)})
        lines.append(f"Not kept by built-in rules: {shown}\n  to keep it: !{rows[0]['path']} in a file .keepignore")
    return "\n".join(lines)


def _above(kept: Json) -> str:
    """``above/ (1 file, 7.0 kB): what the script wrote to ../``"""
    above = kept.get("above")
    if not isinstance(above, dict):
        return ""
    return f"{_one({**above, 'path': above['folder'] + '/'})}: what the script wrote to ../"


def _is_worth_a_word(row: Json) -> bool:
    """Whether a script may have meant it as a result: what Python compiles never is."""
    name = str(row["path"]).rstrip("/").rpartition("/")[2]
    return bool(row.get("built_in")) and _size(row) >= _WORTH_NAMING and not name.endswith(_COMPILED)


def _paths(counts: object) -> list[Json]:
    rows = counts.get("paths") if isinstance(counts, dict) else None
    return rows if isinstance(rows, list) else []


def _size(row: Json) -> int:
    return int(str(row["bytes"]))


def _counted(recorded: object) -> str:
    """``data/ (1,200 files, 3.4 GB), big.bin (5 GB) and 3 more``"""
    counts: Json = recorded if isinstance(recorded, dict) else {}
    paths = _paths(counts)
    more = len(paths) - _NAMED + int(str(counts.get("more") or 0))
    listed = ", ".join(_one(row) for row in paths[:_NAMED])
    if more > 0:
        listed += f" and {more} more ({human_bytes(int(str(counts['bytes'])))} in all)"
    return listed


def _one(row: Json) -> str:
    size = human_bytes(int(str(row["bytes"])))
    many = f"{row['files']:,} file{'' if row['files'] == 1 else 's'}, " if str(row["path"]).endswith("/") else ""
    return f"{row['path']} ({many}{size})"


def _remedy(run: Run, kept: Json) -> str:
    limit = kept.get("limit")
    if not limit:
        return "keepLimit is 0"
    limits = f"limits: keepLimit {human_bytes(int(str(limit)))}, keepFiles {kept.get('max_files')}"
    if os.path.isdir(layout.worked_in(run.attempt)):
        return f"{limits}; kept for a limited time (keepWork) in {layout.worked_in(run.attempt)}"
    if not run.request.get("reached_by"):
        return limits
    folder = layout.work(layout.attempt(layout.run(str(run.request.get("home")), run.uid), run.attempt_number))
    return f"{limits}; until holdfast clean they are in {folder} on {run.request.get('target')}"
