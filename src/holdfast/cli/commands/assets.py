"""``holdfast history promote`` and ``holdfast asset ...``: outputs of runs under names of their own."""

from __future__ import annotations

import hashlib
import os
import sys

from holdfast import project as projects
from holdfast.cli import pick
from holdfast.engine.runs import outputs
from holdfast.errors import StoreError, UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import human_bytes, show
from holdfast.runner.store.files import UNSYNCED, WholeFile
from holdfast.store import assets, output_manifest, runs
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json
    from holdfast.store.assets import Asset
    from holdfast.store.home import Home

_BLOCK = 1024 * 1024


def promote(parsed: Parsed) -> int:
    path = parsed.text("artifact_path") or ""
    home, run = pick.run(parsed)
    project = projects.find(parsed.text("project") or os.getcwd())
    name = parsed.text("name") or os.path.basename(path)
    asset = assets.promote(home, project, run, path, name)
    sys.stdout.write(f"{show(assets.link_of(project, name))}\n")
    written = output_manifest.names(run).get(asset.path, asset.path)
    sys.stderr.write(f"version {asset.version} of {show(name)}: {show(written)} of {show(asset.run_id)}\n")
    return 0


def list_assets(parsed: Parsed) -> int:
    project = projects.find(parsed.text("project") or os.getcwd())
    columns = ("name", "version", "run_id", "path", "size", "promoted_utc")
    home = open_home(create=False)
    rows = [{**row, "path": _as_written(home, row)} for row in assets.listed(home, project.id)]
    emit(rows, **parsed.form(), columns=columns)
    return 0


def _as_written(home: Home, row: Json) -> str:
    """The path of a file outside outputs/ as the script wrote it; the run may be gone."""
    path = str(row.get("path"))
    if path.startswith(".project") and runs.is_uid(uid := str(row.get("uid"))) and os.path.isdir(home.run(uid)):
        return output_manifest.names(runs.read(home, uid)).get(path, path)
    return path


def download(parsed: Parsed) -> int:
    """The file under the asset's name; into the link's own folder scripts find it by ``get_local_path``."""
    link = parsed.text("link") or ""
    asset = assets.read_link(link)
    home, project = open_home(), projects.find(os.path.dirname(os.path.abspath(link)))
    asset = assets.located(home, project, asset)
    run = assets.run_of(home, asset)
    row = assets.output_row(run, asset.path)
    if row["sha256"] != asset.sha256 or (asset.size and row.get("size") != asset.size):
        raise StoreError("the run's file does not match the link", where=link)
    target = os.path.join(parsed.text("directory") or os.path.dirname(os.path.abspath(link)), asset.name)
    if os.path.lexists(target) and _digest(target) != asset.sha256 and not parsed.flag("overwrite"):
        raise UsageError("a different file with this name exists", where=target, hint="--overwrite replaces it")
    for name, why in outputs.bring(home, run, [asset.path]).items():
        raise StoreError("this output could not be downloaded", where=f"outputs/{name}", answer=why)
    _copy(output_manifest.path_of(run, row), target, asset)
    sys.stdout.write(f"{show(target)}\n")
    sys.stderr.write(f"version {asset.version} of {show(asset.name)}, {human_bytes(os.path.getsize(target))}\n")
    return 0


def _copy(source: str, target: str, asset: Asset) -> None:
    """Beside, hashed on the way, and under its name only if it is the promoted content."""
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    state = hashlib.sha256()
    with WholeFile(target, 0o666, UNSYNCED) as sink, open(source, "rb") as stream:
        while block := stream.read(_BLOCK):
            state.update(block)
            sink.write(block)
        if state.hexdigest() != asset.sha256:
            hint = "holdfast store verify lists all damage"
            raise StoreError("this output was changed after its run ended", where=source, hint=hint)


def _digest(path: str) -> str:
    state = hashlib.sha256()
    try:
        with open(path, "rb") as source:
            while block := source.read(_BLOCK):
                state.update(block)
    except OSError:
        return ""
    return state.hexdigest()
