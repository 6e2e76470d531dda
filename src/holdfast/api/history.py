"""``holdfast.runs`` and ``holdfast.run``: the history."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from holdfast import project as projects
from holdfast.api.dialog import warn
from holdfast.api.documented_errors import documented_errors
from holdfast.api.option_checks import checked_project, checked_text
from holdfast.api.run_handle import Run
from holdfast.engine.runs.open_index import open_index, settle_in
from holdfast.errors import UsageError
from holdfast.store.home import open_home
from holdfast.store.index.index import Index
from holdfast.store.index.select import Wish, uids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.home import Home

    StrPath = str | os.PathLike[str]


@documented_errors
def run(name: str | int = "last", *, project: StrPath | None = None) -> Run:
    """A run by ``"last"``, its number in the project, its run id, or any unique beginning of that.

    ``project`` is the project's folder, by default the current one.
    """
    project_id = projects.find(checked_project(project)).id
    home = open_home(create=False)
    index = Index(home)
    try:
        uid = index.find(project_id, str(name))
        settle_in(home, index, [uid], warn)
    finally:
        index.close()
    return Run(home, uid)


@documented_errors
def runs(
    where: str | None = None,
    *,
    sort: str | None = None,
    limit: int | None = None,
    project: StrPath | None = None,
    all_projects: bool = False,
    archived: bool = False,
) -> RunList:
    """The runs of a project, newest first.

    ``where`` and ``sort`` are those of ``holdfast history list``: ``where="accuracy > 0.9 and lr < 0.1"``,
    ``sort="-accuracy"``. ``project`` is the project's folder, by default the current one.
    """
    if limit is not None and (type(limit) is not int or limit < 0):
        raise UsageError("limit must be a whole number, 0 or more", answer=ascii(limit)[:200])
    for name, text in (("where", where), ("sort", sort)):
        if text is not None and not isinstance(text, str):
            checked_text(name, text)
    root = checked_project(project)
    home = open_home(create=False)
    project_id = None if all_projects else projects.find(root).id
    index = open_index(home, warn, project_id)
    try:
        return RunList(home, uids(index, Wish(project_id, where, sort, limit, None, archived)))
    finally:
        index.close()


_MOST_SHOWN = 50  # rows in a notebook


class RunList(Sequence[Run]):
    """Runs in the order that was asked for; a sequence of ``Run``, and a table by ``to_pandas`` and others.

    Tables have a column for each fixed field (``run_number``, ``status``, ``duration`` in seconds, ...), and then
    ``params.NAME``, ``metrics.NAME`` (the last value) and ``tags.NAME``.
    """

    def __init__(self, home: Home, uids: Sequence[str]) -> None:
        self._home = home
        self._uids = uids

    def __len__(self) -> int:
        return len(self._uids)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> RunList: ...

    def __getitem__(self, index: int | slice) -> Run | RunList:
        if isinstance(index, slice):
            return RunList(self._home, self._uids[index])
        return Run(self._home, self._uids[index])

    def __iter__(self) -> Iterator[Run]:
        return (Run(self._home, uid) for uid in self._uids)

    def _repr_html_(self) -> str:
        from holdfast.api.run_table import RunTable

        return f"{RunTable(self[:_MOST_SHOWN])._repr_html_()}<p>{len(self)} runs</p>"

    def __repr__(self) -> str:
        return f"<RunList of {len(self)} runs>"

    @documented_errors
    def to_columns(self) -> dict[str, list[Any]]:
        """Names and cells of all columns, without any package; None where a run has no value."""
        from holdfast.api import frames

        return frames.columns(self._home, self._uids)

    @documented_errors
    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``."""
        from holdfast.api import frames

        return frames.to_pandas(self.to_columns)

    @documented_errors
    def to_polars(self) -> Any:
        """A ``polars.DataFrame``."""
        from holdfast.api import frames

        return frames.to_polars(self.to_columns)

    @documented_errors
    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``."""
        from holdfast.api import frames

        return frames.to_arrow(self.to_columns)
