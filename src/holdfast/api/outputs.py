"""The files that a run left, in its ``outputs`` folder and elsewhere, fetched when they are used."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import lifecycle
from holdfast.api.documented_errors import documented_errors
from holdfast.api.metrics import some
from holdfast.engine.runs import outputs
from holdfast.errors import StoreError
from holdfast.runner.store import layout
from holdfast.store import output_manifest, runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run


class Outputs(Mapping[str, Path]):
    """The results of a run by their paths: those below ``outputs/`` without it, others as the script wrote them.

    They are listed when the run has ended. ``run.outputs["model.pkl"]`` fetches the file where it is not here yet,
    checks its hash and returns its path in the store. Treat it as read-only: it is the run's own file. Where there are
    both ``outputs/model.pkl`` and ``model.pkl``, the name means the first.
    """

    def __init__(self, home: Home, uid: str) -> None:
        self._home = home
        self._uid = uid

    def __getitem__(self, name: str) -> Path:
        if name not in self:
            raise KeyError(f"{name}; {self._known()}")
        return self.fetch([name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_listing(self._run()).shown)

    def __len__(self) -> int:
        return len(_listing(self._run()).shown)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _listing(self._run()).row(name) is not None

    def __repr__(self) -> str:
        return f"Outputs({', '.join(self)})"

    def _known(self) -> str:
        if lifecycle.state_of(self._run().events) not in lifecycle.FINAL:
            return "the run has not ended; its outputs are listed then"
        return f"outputs of this run: {some(list(self))}"

    @documented_errors
    def fetch(self, names: Iterable[str] | None = None) -> dict[str, Path]:
        """Fetch these files, all of them without ``names``, and return their paths in the store."""
        run = self._run()
        wanted = None if names is None else list(names)
        if wanted is None or not _are_here(run, wanted):
            self._bring(run, wanted)
        listing = _listing(run)
        rows = {name: listing.row(name) for name in (listing.shown if wanted is None else wanted)}
        return {name: Path(output_manifest.path_of(run, row)) for name, row in rows.items() if row is not None}

    def _bring(self, run: Run, names: list[str] | None) -> None:
        listing = _listing(run)
        problems = outputs.bring(self._home, run, None if names is None else [listing.path(name) for name in names])
        if problems:
            known = output_manifest.names(run)
            answer = "\n".join(f"{known.get(path, f'outputs/{path}')}: {why}" for path, why in problems.items())
            hint = f"holdfast return -r {run.request.get('run_number')} tries again"
            raise StoreError("outputs of the run could not be fetched", where=run.path, answer=answer, hint=hint)

    @documented_errors
    def _run(self) -> Run:
        return runs.read(self._home, self._uid)


class _Listing:
    """The files of one manifest by their names."""

    def __init__(self, rows: list[Json]) -> None:
        files = [row for row in rows if "sha256" in row]
        elsewhere = {str(row["project"]): row for row in files if not output_manifest.is_output(row)}
        self.shown = {**elsewhere, **{str(row["path"]): row for row in files if output_manifest.is_output(row)}}
        self._others: dict[str, Json] = {}
        for row in files:
            for name in (output_manifest.name_of(row), str(row["path"])):
                self._others.setdefault(name, row)

    def row(self, name: str) -> Json | None:
        """By the name that is shown, by the whole path (``outputs/model.bin``), or by the path in the manifest."""
        return self.shown.get(name) or self._others.get(name)

    def path(self, name: str) -> str:
        row = self.row(name)
        return name if row is None else str(row["path"])


def _listing(run: Run) -> _Listing:
    """A manifest of thousands of files is read once, not again for each of its files."""
    try:
        state = os.stat(layout.manifest(run.attempt))
    except OSError:
        return _Listing([])
    return _read_listing(run.attempt, (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@functools.lru_cache(maxsize=8)
def _read_listing(attempt: str, _state: tuple[int, ...]) -> _Listing:
    return _Listing(output_manifest.rows_of(attempt))


def _are_here(run: Run, names: list[str]) -> bool:
    """Whether these files are in this store, so that nothing has to be fetched or noted."""
    listing, missing = _listing(run), output_manifest.not_brought(run)
    rows = [listing.row(name) for name in names]
    return all(row is not None and row["path"] not in missing and output_manifest.is_here(run, row) for row in rows)
