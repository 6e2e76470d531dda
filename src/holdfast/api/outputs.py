"""The files that a run left, in its ``outputs`` folder and elsewhere, fetched when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import lifecycle
from holdfast.api.documented_errors import documented_errors
from holdfast.api.metrics import some
from holdfast.engine.runs import outputs
from holdfast.errors import StoreError
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
        return iter(_by_name(self._run()))

    def __len__(self) -> int:
        return len(_by_name(self._run()))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _row(self._run(), name) is not None

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
        problems = outputs.bring(
            self._home, run, None if wanted is None else [_manifest_path(run, name) for name in wanted]
        )
        if problems:
            known = output_manifest.names(run)
            answer = "\n".join(f"{known.get(path, f'outputs/{path}')}: {why}" for path, why in problems.items())
            hint = f"holdfast return -r {run.request.get('run_number')} tries again"
            raise StoreError("outputs of the run could not be fetched", where=run.path, answer=answer, hint=hint)
        paths = {name: _row(run, name) for name in (_by_name(run) if wanted is None else wanted)}
        return {name: Path(output_manifest.path_of(run, row)) for name, row in paths.items() if row is not None}

    @documented_errors
    def _run(self) -> Run:
        return runs.read(self._home, self._uid)


def _by_name(run: Run) -> dict[str, Json]:
    """The rows of the manifest by the names that the mapping shows."""
    rows = _files(run)
    elsewhere = {str(row["project"]): row for row in rows if not output_manifest.is_output(row)}
    return {**elsewhere, **{str(row["path"]): row for row in rows if output_manifest.is_output(row)}}


def _files(run: Run) -> list[Json]:
    return [row for row in output_manifest.rows(run) if "sha256" in row]


def _row(run: Run, name: str) -> Json | None:
    """By the name that is shown, by the whole path (``outputs/model.bin``), or by the path in the manifest."""
    rows = _by_name(run)
    if name in rows:
        return rows[name]
    return next((row for row in _files(run) if name in (output_manifest.name_of(row), row["path"])), None)


def _manifest_path(run: Run, name: str) -> str:
    row = _row(run, name)
    return name if row is None else str(row["path"])
