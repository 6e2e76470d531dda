"""What a person adds to a run afterwards: tags, a note, hidden from lists."""

from __future__ import annotations

from holdfast.errors import UsageError
from holdfast.labels import checked_tags
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.store.home import Home

_LONGEST_NOTE = 100_000


def add_tags(home: Home, uids: Iterable[str], tags: Mapping[str, object]) -> None:
    """None as a value removes the tag of that name."""
    checked = checked_tags(tags)
    for uid in uids:
        runs.append_client(home, uid, "tags", tags=checked)


def add_note(home: Home, uids: Iterable[str], text: str) -> None:
    if len(text) > _LONGEST_NOTE:
        hint = "store longer text in a file of the project"
        raise UsageError(f"a note has at most {_LONGEST_NOTE} characters", answer=str(len(text)), hint=hint)
    for uid in uids:
        runs.append_client(home, uid, "note", text=text)


def hide(home: Home, uids: Iterable[str], *, hidden: bool) -> None:
    for uid in uids:
        runs.append_client(home, uid, "hidden", hidden=hidden)
