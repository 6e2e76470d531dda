"""The index, after the open runs in it were looked up on their targets."""

from __future__ import annotations

from holdfast.store import runs
from holdfast.store.index.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.store.home import Home

_MOST_DAMAGED = 5  # warnings at a time


def open_index(home: Home, tell: Callable[[str], None] | None = None, project_id: str | None = None) -> Index:
    """The index, with every open run (of that project) looked up on its target first; ``tell`` as for ``settle``."""
    index = Index(home)
    index.read_changed(project_id)
    settle_in(home, index, index.open_runs(project_id), tell)
    for reason in index.damaged(_MOST_DAMAGED, project_id) if tell is not None else ():
        tell(f"a run is damaged: {reason}; see holdfast store verify")  # type: ignore[misc]
    return index


def settle_in(home: Home, index: Index, uids: list[str], tell: Callable[[str], None] | None = None) -> None:
    """Look these runs up on their targets where they are open, and read them into the index again."""
    waiting = set(uids) & set(index.open_runs())
    if waiting:
        from holdfast.engine.runs.reconcile import settle  # what connects to targets takes its time to load

        settle(home, [runs.read(home, uid) for uid in sorted(waiting)], tell)
        index.refresh(waiting)
