"""``holdfast history ...``"""

from __future__ import annotations

import os
import sys

from holdfast import settings
from holdfast.cli import pick
from holdfast.cli.copying import Copier, refresh, tell_links
from holdfast.engine.runs import outputs
from holdfast.engine.runs.destinations import RESULTS, Destinations, through_link
from holdfast.errors import StoreError, UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import is_tty, show
from holdfast.store import history_record, output_manifest, runs, trash
from holdfast.store.home import Named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json
    from holdfast.store.runs import Run


def info(parsed: Parsed) -> int:
    home, run = pick.run(parsed)
    artifact = parsed.text("artifact")
    if artifact is not None:
        for why in outputs.bring(home, run, [output_manifest.row_path(run, artifact)]).values():
            raise StoreError("this file could not be downloaded", where=artifact, answer=why)
        return _print_artifact(run, artifact)
    chart = parsed.text("gpu_chart")
    if chart is not None:
        from holdfast.present.gpu_chart import draw

        draw(run, chart)
        sys.stdout.write(f"{show(chart)}\n")
        return 0
    if parsed.flag("packages"):
        return _list_packages(parsed, run)
    as_card = parsed.text("output") == "table" or (parsed.text("output") is None and is_tty(sys.stdout))
    if not as_card or parsed.text("query"):
        emit(_details(run), **parsed.form())
        return 0
    from holdfast.present.run_card import card

    sys.stdout.write(card(home, run, sys.stdout))
    return 0


def _details(run: Run) -> Json:
    """The record, and what is too long for the list of all runs: its packages and attempts."""
    from holdfast.store import package_list

    recorded = package_list.read(run) or {}
    details: Json = {**history_record.record(run), "attempts": history_record.attempts(run)}
    details.update(packages=recorded.get("packages"), conda_packages=recorded.get("conda") or None)
    return dict(sorted(details.items()))


def _list_packages(parsed: Parsed, run: Run) -> int:
    from holdfast.store import package_list

    recorded = package_list.read(run)
    if recorded is None:
        raise UsageError("no packages were recorded", where=str(run.request.get("run_id")), hint=_why_no_packages(run))
    form = parsed.text("output")
    packages, conda = (package_list.rows(recorded, name) for name in ("packages", "conda"))
    if form in ("table", "tsv", "csv") or (form is None and is_tty(sys.stdout)):
        of_pip = [{"name": row["name"], "version": package_list.described(row)} for row in packages]
        rows = [*of_pip, *({"name": row["name"], "version": f"{row['version']}={row['build']}"} for row in conda)]
        emit(rows, **parsed.form(), columns=("name", "version"))
    else:
        emit([*packages, *conda], **parsed.form())
    return 0


def _why_no_packages(run: Run) -> str:
    if any(event.get("type") == "started" for event in run.events):
        return "runs of earlier versions, and scripts that no Python ran, have none"
    reason = history_record.record(run)["reason"]
    return f"its script was not started: {reason}" if reason else "its script was not started yet"


def last(parsed: Parsed) -> int:
    home, project, index = pick.here(parsed)
    try:
        uid = index.find(project.id, "last")
        pick.settle(home, index, [uid])
        record = index.record(uid)
    finally:
        index.close()
    emit(record, **parsed.form())
    return 0


def download(parsed: Parsed) -> int:
    home, run = pick.run(parsed)
    wanted = parsed.text("artifact")
    problems = outputs.bring(home, run, None if wanted is None else [output_manifest.row_path(run, wanted)])
    refresh(home, run)
    copier = Copier()
    names = output_manifest.names(run)
    left_out = {names.get(name, f"outputs/{name}") for name in problems}
    for name, why in problems.items():
        copier.problem(names.get(name, f"outputs/{name}"), why)
    for why in output_manifest.trouble(run) if wanted is None else ():
        copier.problem("when the script ended", why)
    folder = parsed.text("directory") or "."
    pairs = _pairs(run, [wanted] if wanted is not None else None, folder, left_out)
    if wanted is None:
        pairs = _without_reserved(run, pairs, folder)
    taken = [target for _, target in pairs if os.path.lexists(target)]
    if taken and not parsed.flag("overwrite"):
        raise UsageError(
            "these files already exist; nothing was copied",
            answer="\n".join(taken[:10]),
            hint="--overwrite replaces them",
        )
    execute = {
        output_manifest.path_of(run, row): output_manifest.execute_bits(row) for row in output_manifest.rows(run)
    }
    for source, target in pairs:
        if link := through_link(os.path.dirname(target), folder):
            copier.problem(target, link)
        elif copier.copy(source, target, execute=execute.get(source, 0)):
            sys.stdout.write(f"{show(target)}\n")
    copier.finish("file", "try again when this is fixed")
    return 0


def _without_reserved(run: runs.Run, pairs: list[tuple[str, str]], folder: str) -> list[tuple[str, str]]:
    """Without files that git or Holdfast would act on: those are copied only if the user names them."""
    names = {target: os.path.relpath(target, folder) for _, target in pairs}
    allowed = Destinations(folder, names.values(), RESULTS)
    kept = [pair for pair in pairs if not allowed.is_reserved(names[pair[1]])]
    for name, why in allowed.refused.items():
        from shlex import quote

        command = (
            f"holdfast history download -r {quote(str(run.request.get('run_id')))} -a NAME -d FOLDER copies one file"
        )
        sys.stderr.write(f"not copied: {show(os.path.join(folder, name))} ({why}; {show(command)})\n")
    return kept


def _pairs(run: runs.Run, names: list[str] | None, folder: str, left_out: set[str]) -> list[tuple[str, str]]:
    """Files to copy with their destinations. Links of a run on another machine are reported."""
    known = history_record.artifact_paths(run)
    absent = [name for name, path in known.items() if name not in left_out and not os.path.lexists(path)]
    tell_links(absent if names is None else [])
    pairs = []
    for name in names if names is not None else [name for name in known if name not in absent]:
        source = known.get(name) or history_record.artifact_path(run, name)
        if name in left_out:
            continue
        if source is None:
            raise _no_artifact(run, name)
        file = {"driver_log": "driver_log.txt", "control_log": "control_log.txt"}.get(name, name)
        pairs.append((source, os.path.join(folder, output_manifest.local_name(file))))
    return pairs


def delete(parsed: Parsed) -> int:
    home, project, index = pick.here(parsed)
    try:
        names = parsed.texts("runs")
        if not names:
            raise UsageError("no run given", hint="holdfast history delete -r 12 -r 13")
        uids = [index.find(project.id, name) for name in names]
        pick.settle(home, index, uids)
        records = [index.record(uid) for uid in uids]
        going = [record for record in records if record["end_time_utc"] is None and record["status"] != "Damaged"]
        if going:
            hint = f"holdfast cancel -r {going[0]['run_number']}"
            raise UsageError(
                "this run has not ended", where=str(going[0]["run_id"]), answer=str(going[0]["status"]), hint=hint
            )
        _confirm(parsed, records)
        for record in records:
            trash.put(home, str(record["uid"]))
            if parsed.flag("now"):
                trash.purge(home, str(record["uid"]))
        index.refresh()
    finally:
        index.close()
    count = f"{len(records)} run{'' if len(records) == 1 else 's'}"
    after = "holdfast store prune frees their disk space"
    if not parsed.flag("now"):
        kept = settings.read(home.settings)["keepTrash"]
        after = f"in the trash for {kept}: holdfast history undelete -r {records[0]['run_number']} restores it"
    sys.stderr.write(f"deleted {count}; {after}\n")
    return 0


def undelete(parsed: Parsed) -> int:
    """Bring runs back from the trash; without a name, list what is there."""
    home, project, index = pick.here(parsed)
    try:
        names = parsed.texts("runs")
        if not names:
            rows = trash.rows(home, None if parsed.flag("all") else project.id)
            columns = ("run_number", "run_id", "uid", "deleted_utc")
            emit(rows, **parsed.form(), columns=columns)
            return 0
        uids = [trash.find(home, project.id, name) for name in names]
        for uid in dict.fromkeys(uids):
            trash.restore(home, uid)
        index.refresh()
    finally:
        index.close()
    sys.stderr.write(f"{len(set(uids))} run{'' if len(set(uids)) == 1 else 's'} restored\n")
    return 0


def _confirm(parsed: Parsed, records: list[Json]) -> None:
    if parsed.flag("yes"):
        return
    names = ", ".join(show(str(record["run_id"])) for record in records)
    if is_tty(sys.stdin):
        sys.stderr.write(f"Delete {names} with logs, metrics and outputs? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError("nothing was deleted", hint="use --yes")


def _print_artifact(run: runs.Run, name: str) -> int:
    from holdfast.cli.show import LogWriter

    path = history_record.artifact_path(run, name)
    if path is None or not os.path.isfile(path):
        raise _no_artifact(run, name)
    out = LogWriter(sys.stdout)
    with Named(path), open(path, "rb") as source:
        while block := source.read(1024 * 1024):
            out.write(block)
    return 0


def _no_artifact(run: runs.Run, name: str) -> UsageError:
    return UsageError(
        f"this run has no artifact {name!r}",
        where=str(run.request.get("run_id")),
        hint="it has: " + ", ".join(history_record.artifacts(run)[:20]),
    )
