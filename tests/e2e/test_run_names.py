"""Which run a name means: never one of another project by default, and never one of several."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from holdfast.runner.store import jsonl

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

COMMANDS = (
    ("cancel",),
    ("status",),
    ("info",),
    ("logs",),
    ("history", "tag", "kept"),
    ("history", "note", "text"),
    ("history", "archive"),
    ("history", "delete", "-r", "last", "--yes"),
    ("experiment", "return"),
)


def test_last_never_means_a_run_of_another_project(desk: Desk) -> None:
    desk.script("import time\ntime.sleep(600)\n")
    assert desk.submit("--no-wait", "train.py").code == 0
    eventually(lambda: desk.record()["status"] == "Running")
    empty = desk.project.parent / "empty"
    empty.mkdir()
    for words in COMMANDS:
        result = desk.holdfast(*words, cwd=empty)
        assert (result.code, result.out) == (2, b""), (words, result)
        assert "this project has no runs" in result.err
    record = desk.record()
    assert (record["status"], record["tags"], record["description"], record["hidden"]) == ("Running", {}, None, False)
    assert desk.holdfast("cancel").code == 0


def test_imported_runs_get_ids_of_their_own_and_name_their_project(desk: Desk, tmp_path: Path) -> None:
    store = tmp_path / "mlruns"
    for name in ("0", "1"):
        experiment = store / name
        run = experiment / (name * 32)
        run.mkdir(parents=True)
        stage = "lifecycle_stage: active\n"
        (experiment / "meta.yaml").write_text(f"experiment_id: '{name}'\nname: Default\n{stage}")
        times = "start_time: 1700000000000\nend_time: 1700000001000\n"
        (run / "meta.yaml").write_text(f"run_id: '{name * 32}'\nstatus: 3\n{times}{stage}")
    (store / "1").rename(tmp_path / "later")
    assert desk.holdfast("history", "import", "--mlflow", str(store)).text == "Default_1700000000000\n"
    (tmp_path / "later").rename(store / "1")
    assert desk.holdfast("history", "import", "--mlflow", str(store)).text == "Default_1700000000001\n"
    archive = tmp_path / "runs.zip"
    assert desk.holdfast("history", "export", "--all", "--to", str(archive)).code == 0
    other = tmp_path / "other"
    other.mkdir()
    env = {"HOLDFAST_HOME": str(tmp_path / "other-store")}
    result = desk.holdfast("history", "import", str(archive), cwd=other, env=env)
    assert result.code == 0
    assert "of another project (project): holdfast runs -A" in result.err, result


def test_id_that_two_runs_have_is_refused_with_the_list(desk: Desk) -> None:
    desk.script("print(1)\n")
    assert desk.submit("train.py").code == 0
    record = desk.record()
    twin = "f" * 32
    folder = desk.home / "runs"
    shutil.copytree(folder / record["uid"], folder / twin)
    request = json.loads((folder / twin / "run.json").read_bytes())
    request.update(uid=twin, run_number=2)
    del request["crc"]
    (folder / twin / "run.json").write_bytes(jsonl.sealed(request))
    refused = desk.holdfast("info", "-r", record["run_id"])
    assert refused.code == 2
    assert record["uid"] in refused.err
    assert twin in refused.err
    assert desk.record(twin)["run_number"] == 2


@pytest.mark.parametrize("name", ["写真の分類", "影像分類 2017", "Größen"])
def test_run_ids_have_the_name_of_the_folder_in_any_script(desk: Desk, name: str) -> None:
    """Also where the locale of the terminal is C."""
    folder = desk.project / name
    folder.mkdir()
    (folder / "train.py").write_text("import os\nprint(os.environ['HOLDFAST_RUN_ID'])\n")
    result = desk.holdfast("submit", "--env", "none", "train.py", cwd=folder, env={"LC_ALL": "C", "LANG": "C"})
    assert result.code == 0, result
    record = desk.holdfast("history", "last", cwd=folder).json
    begin = name.replace(" ", "-")
    assert re.fullmatch(rf"{begin}_\d{{13}}", record["run_id"])
    assert result.text.startswith(f"RunId: {record['run_id']}\n")
    assert f"\n{record['run_id']}\n" in result.text, "in the script"
    assert desk.holdfast("info", "-r", record["run_id"], "-o", "json", cwd=folder).json["run_number"] == 1
