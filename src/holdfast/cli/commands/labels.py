"""``holdfast history tag``, ``note``, ``archive`` and ``unarchive``: what a person adds to a run afterwards."""

from __future__ import annotations

import sys

from holdfast import labels
from holdfast.cli import pick
from holdfast.errors import UsageError
from holdfast.present.terminal import show
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed

_LONGEST_NOTE = 100_000


def tag(parsed: Parsed) -> int:
    tags = labels.read_tags(parsed.texts("tags"))
    tags.update({labels.checked_tag(name): None for name in parsed.texts("remove")})
    if not tags:
        raise UsageError("no tag given", hint="holdfast history tag -r 12 dataset=v3 kept")
    return _add(parsed, "tags", tags=tags)


def note(parsed: Parsed) -> int:
    text = parsed.text("text") or ""
    if len(text) > _LONGEST_NOTE:
        hint = "store longer text in a file of the project"
        raise UsageError(f"a note has at most {_LONGEST_NOTE} characters", answer=str(len(text)), hint=hint)
    return _add(parsed, "note", text=text)


def archive(parsed: Parsed) -> int:
    return _add(parsed, "hidden", hidden=True)


def unarchive(parsed: Parsed) -> int:
    return _add(parsed, "hidden", hidden=False)


def _add(parsed: Parsed, kind: str, **fields: object) -> int:
    """The same line for each run named; all of them are found before the first is written to."""
    home, project, index = pick.here(parsed)
    try:
        names = parsed.texts("runs") or ("last",)
        found = list(dict.fromkeys(index.find(project.id, name) for name in names))
        for uid in found:
            runs.append_client(home, uid, kind, **fields)
        index.refresh(found)
        told = [str(index.record(uid)["run_id"]) for uid in found]
    finally:
        index.close()
    sys.stderr.write("".join(f"{show(run_id)}\n" for run_id in told))
    return 0
