"""``holdfast history tag``, ``note``, ``archive`` and ``unarchive``: what a person adds to a run afterwards."""

from __future__ import annotations

import sys

from holdfast.cli import pick
from holdfast.engine.runs import annotate
from holdfast.errors import UsageError
from holdfast.labels import checked_tag, read_tags
from holdfast.present.terminal import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.cli.parse import Parsed
    from holdfast.store.home import Home


def tag(parsed: Parsed) -> int:
    tags = read_tags(parsed.texts("tags"))
    tags.update({checked_tag(name): None for name in parsed.texts("remove")})
    if not tags:
        raise UsageError("no tag given", hint="holdfast tag 12 dataset=v3 kept")
    return _add(parsed, lambda home, uids: annotate.add_tags(home, uids, tags))


def note(parsed: Parsed) -> int:
    return _add(parsed, lambda home, uids: annotate.add_note(home, uids, parsed.text("text") or ""))


def archive(parsed: Parsed) -> int:
    return _add(parsed, lambda home, uids: annotate.hide(home, uids, hidden=True))


def unarchive(parsed: Parsed) -> int:
    return _add(parsed, lambda home, uids: annotate.hide(home, uids, hidden=False))


def _add(parsed: Parsed, add: Callable[[Home, list[str]], None]) -> int:
    """The same for each run named; all of them are found before the first is written to."""
    home, project, index = pick.here(parsed)
    try:
        names = parsed.texts("runs") or ("last",)
        uids = list(dict.fromkeys(index.find(project.id, name) for name in names))
        add(home, uids)
        index.refresh(uids)
        records = [index.record(uid) for uid in uids]
    finally:
        index.close()
    sys.stderr.write("".join(f"run {row['run_number']}: {show(str(row['run_id']))}\n" for row in records))
    return 0
