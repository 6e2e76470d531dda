"""``holdfast history export`` and ``holdfast history import``"""

from __future__ import annotations

import os
import sys

from holdfast import lifecycle
from holdfast import project as projects
from holdfast.cli import pick
from holdfast.errors import StoreError, UsageError
from holdfast.present.terminal import Progress, human_bytes, show
from holdfast.store import runs
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.store.runs import Run

_SHOWN = 10
_FORMATS = ("mlflow", "tensorboard", "csv", "parquet")


def export(parsed: Parsed) -> int:
    home, project, index = pick.here(parsed)
    try:
        everything = parsed.flag("all")
        if everything:
            uids = [str(row["uid"]) for row in index.of_project(project.id)]
        else:
            uids = [index.find(project.id, name) for name in parsed.texts("runs")]
        pick.settle(home, index, uids)
    finally:
        index.close()
    chosen = [runs.read(home, uid) for uid in dict.fromkeys(uids)]
    if not chosen:
        from shlex import quote

        to = quote(parsed.text("to") or "runs.zip")
        hint = f"holdfast export -r 12 -r 13 --to {to}, or holdfast export --all --to {to}"
        raise UsageError("no ended run in this project" if everything else "no run given", hint=hint)
    ended = [run for run in chosen if lifecycle.state_of(run.events) in lifecycle.FINAL and not run.problem]
    _refuse_open(chosen, ended, everything)
    if parsed.text("to") in _FORMATS:
        return _export_format(parsed, ended)
    if parsed.text("into"):
        raise UsageError("--into belongs to a format", hint=f"--to {', '.join(_FORMATS)}, or --to FILE without --into")
    from holdfast.store import archive_export

    path = os.path.abspath(parsed.text("to") or "")
    with Progress(sys.stderr) as progress:
        done = archive_export.export(home, ended, path, lambda at, of: progress.update(f"writing: {at} of {of} files"))
    show_skipped(done.left_out)
    sys.stdout.write(f"{show(path)}\n")
    number = f"{counted(len(ended), 'run')}, {counted(done.files, 'file')}"
    sys.stderr.write(f"{number}, {human_bytes(done.bytes)} unpacked\n")
    return 0


def _export_format(parsed: Parsed, ended: list[Run]) -> int:
    name, into = str(parsed.text("to")), parsed.text("into")
    folder = into or f"holdfast-{name}"
    with Progress(sys.stderr) as progress:

        def tell(done: int, count: int) -> None:
            progress.update(f"writing: {done} of {counted(count, 'run')}")

        if name == "mlflow":
            from holdfast.present.export import mlflow_runs

            written = mlflow_runs.write(ended, into, tell)
        elif name == "tensorboard":
            from holdfast.present.export import tensorboard_files

            written = tensorboard_files.write(ended, folder, tell)
        else:
            from holdfast.present.export import tables

            write = tables.write_csv if name == "csv" else tables.write_parquet
            written = write(ended, folder, tell)
    show_skipped(written.left_out)
    sys.stdout.write(f"{show(written.place)}\n")
    present = f", {written.present} already present" if written.present else ""
    sys.stderr.write(f"{counted(written.runs, 'run')} exported{present}\n")
    return 0


def take_in(parsed: Parsed) -> int:
    home, project = open_home(), projects.find(parsed.text("project") or os.getcwd())
    archive, store = parsed.text("file"), parsed.text("mlflow")
    if (archive is None) == (store is None):
        raise UsageError("give an archive, or an MLflow store with --mlflow", hint="holdfast history import runs.zip")
    path = archive or store or ""
    if not os.path.exists(path):
        raise UsageError("no such file", where=path)
    with Progress(sys.stderr) as progress:
        if archive is not None:
            from holdfast.engine.transfer import import_archive

            done = import_archive.take_in(
                home, project, path, lambda at, of: progress.update(f"reading: {at} of {of} files")
            )
            new, here, going = done.new, done.here, 0
            elsewhere = done.elsewhere
        else:
            from holdfast.engine.transfer import import_mlflow

            project = projects.remember(project)
            result = import_mlflow.bring(
                home, project, path, lambda at, _: progress.update(f"reading: {counted(at, 'run')}")
            )
            new, here, going = result.new, result.here, result.going
            elsewhere = []
            show_skipped(result.left_out)
    _tell(new, here, going)
    if elsewhere:
        names = show(", ".join(elsewhere))
        sys.stderr.write(f"of another project ({names}): holdfast runs -A lists runs of all projects\n")
    return 0


def _refuse_open(chosen: list[Run], ended: list[Run], everything: bool) -> None:
    """Running runs are left out of many, and refused if named."""
    going = [str(run.request.get("run_id") or run.uid) for run in chosen if run not in ended]
    damaged = next((run for run in chosen if run not in ended and run.damage), None)
    if damaged is not None and not everything:
        hint = f"holdfast history delete -r {damaged.request.get('run_number')} deletes it"
        raise StoreError("this run is damaged", where=damaged.path, answer=damaged.damage, hint=hint)
    if going and (not everything or not ended):
        raise UsageError("this run has not ended, or cannot be read", where=going[0], hint="wait for its end")
    show_skipped([f"{name}: it has not ended" for name in going])


def _tell(new: list[str], here: int, going: int) -> None:
    sys.stdout.write("".join(f"{show(name)}\n" for name in new))
    sys.stdout.flush()
    parts = [f"{counted(len(new), 'run')} imported"]
    parts += [f"{here} already present"] if here else []
    parts += [f"{going} skipped because they have not ended"] if going else []
    sys.stderr.write(", ".join(parts) + "\n")


def show_skipped(lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        sys.stderr.write(f"skipped: {show(line)}\n")
    if len(lines) > _SHOWN:
        sys.stderr.write(f"skipped: {len(lines) - _SHOWN} more\n")


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
