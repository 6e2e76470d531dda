"""A run as other programs get it: its record, parameters, metrics and the files of its outputs."""

from __future__ import annotations

import os
import re

from holdfast import parameters
from holdfast.errors import UsageError
from holdfast.metrics import reader
from holdfast.record import Record
from holdfast.runner.store import layout
from holdfast.store import history_record, output_manifest, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.metrics.reader import Metrics
    from holdfast.model import Json
    from holdfast.store.runs import Run


class ExportedRun(Record):
    """``metrics_folder`` has the files of pictures; ``outputs`` are name and path of those that are on this machine."""

    run: Run
    record: Json
    metrics: Metrics
    metrics_folder: str
    parameters: Mapping[str, object]
    outputs: tuple[tuple[str, str], ...]

    @property
    def run_id(self) -> str:
        return str(self.record["run_id"])

    @property
    def folder_name(self) -> str:
        """The run's id as the name of one folder."""
        return re.sub(r"[^\w.-]", "_", self.run_id).lstrip(".") or self.run.uid


class Written(Record):
    """Where the runs went, how many of them, how many were there already, and what could not be written."""

    place: str
    runs: int
    present: int
    left_out: list[str]


def read(run: Run) -> ExportedRun:
    record = history_record.record(run)
    folder = layout.metrics(run.attempt)
    metrics = reader.read_lately(runs.metric_folders(run))
    arguments = record.get("arguments")
    argv = [word for word in arguments if isinstance(word, str)] if isinstance(arguments, list) else []
    rows = [row for row in output_manifest.rows(run) if "link" not in row and output_manifest.is_here(run, row)]
    return ExportedRun(
        run,
        record,
        metrics,
        folder,
        {**parameters.read(argv), **metrics.parameters},
        tuple((str(row["path"]), output_manifest.path_of(run, row)) for row in rows),
    )


def new_folder(path: str) -> str:
    """A folder to write to, made if need be; one that has files in it is refused."""
    path = os.path.abspath(path)
    try:
        os.makedirs(path, exist_ok=True)
        is_empty = not os.listdir(path)
    except (FileExistsError, NotADirectoryError):
        is_empty = False
    if not is_empty:
        raise UsageError("this folder is not empty; nothing was written", where=path, hint="use --into for another one")
    return path
