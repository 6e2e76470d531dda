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


def lines(run: Run) -> Iterator[tuple[str, str]]:
    """Labels and texts for ``info``: what exceeded a limit, and what the rules leave out."""
    told = output_manifest.kept(run)
    if not_kept := _counted(told["not_kept"]):
        yield "not kept", f"{not_kept}; {_remedy(run, told)}"
    if ignored := _counted(told["ignored"]):
        yield "ignored", f"{ignored}, by rules (.keepignore and names of caches)"


def warning(run: Run) -> str:
    """What the last lines of a submit say; empty where everything was kept."""
    told = output_manifest.kept(run)
    not_kept = _counted(told["not_kept"])
    return f"Not kept: {not_kept}\n  {_remedy(run, told)}" if not_kept else ""


def _counted(said: object) -> str:
    """``data/ (1,200 files, 3.4 GB), big.bin (5 GB) and 3 more``"""
    counts: Json = said if isinstance(said, dict) else {}
    rows = counts.get("paths")
    paths = rows if isinstance(rows, list) else []
    more = len(paths) - _NAMED + int(str(counts.get("more") or 0))
    words = ", ".join(_one(row) for row in paths[:_NAMED])
    if more > 0:
        words += f" and {more} more ({human_bytes(int(str(counts['bytes'])))} in all)"
    return words


def _one(row: Json) -> str:
    size = human_bytes(int(str(row["bytes"])))
    many = f"{row['files']:,} file{'' if row['files'] == 1 else 's'}, " if str(row["path"]).endswith("/") else ""
    return f"{row['path']} ({many}{size})"


def _remedy(run: Run, told: Json) -> str:
    limit = told.get("limit")
    if not limit:
        return "keepLimit is 0"
    limits = f"limits: keepLimit {human_bytes(int(str(limit)))}, keepFiles {told.get('max_files')}"
    if os.path.isdir(layout.work(run.attempt)):
        return f"{limits}; kept for a limited time (keepWork) in {layout.work(run.attempt)}"
    if not run.request.get("reached_by"):
        return limits
    folder = layout.work(layout.attempt(layout.run(str(run.request.get("home")), run.uid), run.attempt_number))
    return f"{limits}; until holdfast clean they are in {folder} on {run.request.get('target')}"
