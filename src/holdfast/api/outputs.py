"""The files that a run left in its ``outputs`` folder, fetched when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.documented_errors import documented_errors
from holdfast.engine.runs import outputs
from holdfast.errors import StoreError
from holdfast.store import output_manifest, runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.store.home import Home


class Outputs(Mapping[str, Path]):
    """The outputs of a run by their paths below ``outputs/``. They are listed when the run has ended.

    ``run.outputs["model.pkl"]`` fetches the file where it is not here yet, checks its hash and returns its path in the
    store. Treat it as read-only: it is the run's own file.
    """

    def __init__(self, home: Home, uid: str) -> None:
        self._home = home
        self._uid = uid

    def __getitem__(self, name: str) -> Path:
        name = name.removeprefix("outputs/")
        if name not in self._rows():
            raise KeyError(name)
        return self.fetch([name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())

    def __contains__(self, name: object) -> bool:
        return name in self._rows()

    def __repr__(self) -> str:
        return f"Outputs({', '.join(self)})"

    @documented_errors
    def fetch(self, names: Iterable[str] | None = None) -> dict[str, Path]:
        """Fetch these files, all of them without ``names``, and return their paths in the store."""
        run = runs.read(self._home, self._uid)
        wanted = None if names is None else list(names)
        problems = outputs.bring(self._home, run, wanted)
        if problems:
            answer = "\n".join(f"outputs/{name}: {why}" for name, why in problems.items())
            hint = f"holdfast experiment return -r {run.request.get('run_number')} tries again"
            raise StoreError("outputs of the run could not be fetched", where=run.path, answer=answer, hint=hint)
        rows = self._rows()
        return {name: rows[name] for name in (rows if wanted is None else wanted) if name in rows}

    def _rows(self) -> dict[str, Path]:
        run = runs.read(self._home, self._uid)
        return {
            str(row["path"]): Path(output_manifest.path_of(run, row))
            for row in output_manifest.rows(run)
            if "sha256" in row
        }
