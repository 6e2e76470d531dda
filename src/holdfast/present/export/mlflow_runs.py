"""Runs as runs of MLflow, through the library mlflow: in a database, a folder or a server, whatever it can reach."""

from __future__ import annotations

import os
import re

from holdfast import lifecycle
from holdfast.errors import HoldfastError, UsageError
from holdfast.metrics import values as logged_values
from holdfast.present.export import exported_run
from holdfast.present.install_hint import install_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.present.export.exported_run import ExportedRun, Written
    from holdfast.store.runs import Run

_STATES = {lifecycle.COMPLETED: "FINISHED", lifecycle.FAILED: "FAILED"}
_UID = "holdfast.uid"
_ODD = re.compile(r"[^\w. /:-]")  # what MLflow takes in no name
_LONGEST = 6000  # characters of a parameter
_METRICS_AT_ONCE, _PARAMS_AT_ONCE = 1000, 100
_MS = 1_000_000


def write(chosen: list[Run], uri: str | None, tell: Callable[[int, int], None]) -> Written:
    """To the tracking server of ``uri``, by default to the one that mlflow finds. A run that is there is left alone."""
    try:
        from mlflow.tracking import MlflowClient, get_tracking_uri
    except ImportError as error:
        what, hint = "exporting to MLflow needs the optional package mlflow", install_hint("mlflow")
        raise UsageError(what, answer=str(error), hint=hint) from error
    left_out: list[str] = []
    present = 0
    uri = uri or str(get_tracking_uri())
    try:
        client = MlflowClient(tracking_uri=uri)
        for done, run in enumerate(map(exported_run.read, chosen)):
            tell(done, len(chosen))
            present += not _write_run(client, run, left_out)
    except HoldfastError:
        raise
    except Exception as error:
        hint = "--into names another tracking URI, such as sqlite:///mlflow.db or http://127.0.0.1:5000"
        raise UsageError("MLflow could not store the runs", where=uri, answer=str(error)[:500], hint=hint) from error
    return exported_run.Written(uri, len(chosen) - present, present, left_out)


def _write_run(client: Any, run: ExportedRun, left_out: list[str]) -> bool:
    """False where the run is there already."""
    project = str(run.run.request.get("project") or "holdfast")
    experiment = client.get_experiment_by_name(project)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(project)
    if client.search_runs([experiment_id], f"tags.`{_UID}` = '{run.run.uid}'", max_results=1):
        return False
    times = [moment for event in run.run.events if isinstance(moment := event.get("wall_ns"), int)]
    start, end = (times[0] // _MS, times[-1] // _MS) if times else (0, 0)
    name = run.record.get("name") or f"{run.record.get('script_name')} {run.record.get('run_number')}"
    created = client.create_run(experiment_id, start_time=start, tags=_tags(run), run_name=str(name))
    run_id = created.info.run_id
    _log_parameters(client, run_id, run)
    _log_metrics(client, run_id, run, left_out)
    for path, file in run.outputs:
        client.log_artifact(run_id, file, os.path.dirname(path) or None)
    client.set_terminated(run_id, _STATES.get(str(run.record["status"]), "KILLED"), end)
    return True


def _tags(run: ExportedRun) -> dict[str, str]:
    given = run.record.get("tags")
    tags = {_named(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}
    system = {
        _UID: run.run.uid,
        "holdfast.run_id": run.run_id,
        "mlflow.user": run.record.get("user"),
        "mlflow.source.name": run.record.get("script_name"),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": (run.run.request.get("git") or {}).get("commit"),  # type: ignore[attr-defined]
        "mlflow.note.content": run.record.get("description"),
    }
    tags.update((name, str(value)) for name, value in system.items() if value)
    return tags


def _log_parameters(client: Any, run_id: str, run: ExportedRun) -> None:
    from mlflow.entities import Param

    params = [Param(_named(name), str(value)[:_LONGEST]) for name, value in run.parameters.items()]
    for start in range(0, len(params), _PARAMS_AT_ONCE):
        client.log_batch(run_id, params=params[start : start + _PARAMS_AT_ONCE])


def _log_metrics(client: Any, run_id: str, run: ExportedRun, left_out: list[str]) -> None:
    waiting = []
    for metric in _metrics(client, run_id, run, left_out):
        waiting.append(metric)
        if len(waiting) == _METRICS_AT_ONCE:
            client.log_batch(run_id, metrics=waiting)
            waiting = []
    if waiting:
        client.log_batch(run_id, metrics=waiting)


def _metrics(client: Any, run_id: str, run: ExportedRun, left_out: list[str]) -> Iterator[Any]:
    """The numbers; pictures are logged as artifacts on the way, and other values are named in ``left_out``."""
    from mlflow.entities import Metric

    for series in run.metrics.by_name.values():
        skipped = 0
        for step, moment, value in zip(series.steps, series.times, series.values, strict=True):
            image = logged_values.image(value)
            if isinstance(value, (bool, int, float)):
                yield Metric(_named(series.name), float(value), moment // _MS, step)
            elif image and logged_values.read_image(run.metrics_folder, image) is not None:
                client.log_artifact(
                    run_id, os.path.join(run.metrics_folder, image.file), f"images/{_named(series.name)}"
                )
            else:
                skipped += 1
        if skipped:
            left_out.append(f"{run.run_id}: {series.name}: {skipped} values that are not numbers")


def _named(name: str) -> str:
    """A name that MLflow takes."""
    return _ODD.sub("_", name)[:250].strip("/") or "_"
