"""Runs of MLflow as runs of ours: both kinds of its store, made by MLflow itself where it is there, and by hand."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import eventually
from holdfast.metrics import reader
from holdfast.store import mlflow_reader
from lab.shelf import interpreter

if TYPE_CHECKING:
    from conftest import Desk

ROOT = Path(__file__).resolve().parents[2]
MAKES = """
import os, sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
for experiment in ("alpha", "beta/x y"):
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=experiment + "-run", tags={"team": "red"}, description="a note"):
        mlflow.log_params({"lr": 0.1, "opt": "adam", "odd name": "v w"})
        for step in range(5):
            mlflow.log_metric("loss", 1 / (step + 1), step=step * 10)
        mlflow.log_metric("val/acc", 0.9)
        mlflow.log_metric("bad", float("nan"))
        mlflow.log_metric("big", float("inf"))
        mlflow.log_text("hello", "notes/a.txt")
        with mlflow.start_run(run_name="child", nested=True):
            mlflow.log_metric("loss", 7.0)
try:
    with mlflow.start_run(run_name="fails"):
        raise ValueError
except ValueError:
    pass
mlflow.start_run(run_name="open")
os._exit(0)
"""
UIDS = [f"{number:032x}" for number in range(1, 4)]
SCHEMA = """
CREATE TABLE experiments (experiment_id INTEGER, name TEXT, artifact_location TEXT, lifecycle_stage TEXT);
CREATE TABLE runs (run_uuid TEXT, name TEXT, user_id TEXT, status TEXT, start_time BIGINT, end_time BIGINT,
                   lifecycle_stage TEXT, artifact_uri TEXT, experiment_id INTEGER);
CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT, is_nan BOOLEAN);
"""


def of(desk: Desk, name: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = desk.holdfast("history", "list", "-o", "json").json
    return next(row for row in rows if row["name"] == name)


@pytest.mark.parametrize("kind", ["database", "folder"])
def test_what_mlflow_itself_writes(desk: Desk, tmp_path: Path, kind: str) -> None:
    real = interpreter(ROOT, "mlflow-written", "mlflow==3.17.2")
    place = tmp_path / "ml"
    place.mkdir()
    uri = f"sqlite:///{place}/mlflow.db" if kind == "database" else f"file://{place}/mlruns"
    env = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "HOME": str(tmp_path)}
    subprocess.run([real, "-c", MAKES, uri], cwd=place, env=env, check=True, capture_output=True, timeout=250)
    done = desk.holdfast("history", "import", "--mlflow", str(place))
    assert (done.code, "5 runs imported, 1 skipped" in done.err) == (0, True), done.err
    run = of(desk, "beta/x y-run")
    assert (run["status"], run["loss"], run["val/acc"]) == ("Completed", [1.0, 0.5, 1 / 3, 0.25, 0.2], 0.9)
    assert (run["bad"], run["big"], run["description"]) == (None, None, "a note")
    assert run["tags"] == {"experiment": "beta/x y", "team": "red"}
    assert sorted(run["arguments"]) == ["--lr=0.1", "--odd_name=v w", "--opt=adam"]
    folder = desk.home / "runs" / run["uid"] / "a1"
    assert list(reader.read_dir(str(folder / "metrics")).by_name["loss"].steps) == [0, 10, 20, 30, 40]
    assert (folder / "outputs" / "notes" / "a.txt").read_text() == "hello"
    assert of(desk, "fails")["status"] == "Failed"
    found = desk.holdfast("history", "list", "-o", "json", "--where", "lr = 0.1 and tags.team = 'red'").json
    assert len(found) == 2
    children = [row for row in desk.holdfast("history", "list", "-o", "json").json if row["name"] == "child"]
    assert {row["parent_run_id"] for row in children} == {of(desk, "alpha-run")["run_id"], run["run_id"]}
    assert desk.holdfast("store", "verify").code == 0
    again = desk.holdfast("history", "import", "--mlflow", str(place))
    assert "0 runs imported, 5 already present" in again.err


def database(place: Path) -> Path:
    path = place / "mlflow.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        db.execute("INSERT INTO experiments VALUES (1, 'alpha', '', 'active'), (2, 'gone', '', 'deleted')")
        for number, (uid, status) in enumerate(zip(UIDS, ("FINISHED", "KILLED", "FAILED"), strict=True)):
            stage, experiment = ("deleted" if number == 2 else "active"), 1
            uri = f"{place}/elsewhere/{uid}/artifacts"
            row = (uid, f"run{number}", "ada", status, 1_700_000_000_000, 1_700_000_001_500, stage, uri, experiment)
            db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("INSERT INTO params VALUES ('lr', '0.5', ?)", UIDS[:1])
        db.execute("INSERT INTO metrics VALUES ('loss', 0, 1700000000001, ?, 3, 1)", UIDS[:1])
        db.execute("INSERT INTO metrics VALUES ('loss', -1.7976931348623157e308, 1700000000000, ?, 2, 0)", UIDS[:1])
    db.close()
    return path


def test_a_database(desk: Desk, tmp_path: Path) -> None:
    path = database(tmp_path)
    (tmp_path / "elsewhere" / UIDS[0] / "artifacts").mkdir(parents=True)
    (tmp_path / "elsewhere" / UIDS[0] / "artifacts" / "a").write_text("x")
    first, second = mlflow_reader.read(str(path))
    (_, low, step), (_, nan, _) = first.metrics["loss"]
    assert (low, step, math.isnan(nan)) == (-math.inf, 2, True)
    assert (first.artifacts, second.artifacts) == (str(tmp_path / "elsewhere" / UIDS[0] / "artifacts"), "")
    before = path.read_bytes()
    assert desk.holdfast("history", "import", "--mlflow", str(path)).code == 0
    assert path.read_bytes() == before
    assert (of(desk, "run1")["status"], of(desk, "run0")["duration"]) == ("Canceled", "0:00:01.500000")
    assert {row["run_id"] for row in desk.holdfast("history", "list", "-o", "json").json} == {
        "alpha_1700000000000",
        "alpha_1700000000001",
    }


def test_artifacts_of_other_folders_are_not_taken(tmp_path: Path) -> None:
    """A database is untrusted; it does not decide which files of this machine are read."""
    path = database(tmp_path)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    for uri in (str(secret), f"file://{secret}", f"{tmp_path}/x/{UIDS[0]}/artifacts/../../../secret", "s3://bucket/x"):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE runs SET artifact_uri = ?", (uri,))
        assert [run.artifacts for run in mlflow_reader.read(str(path))] == ["", ""], uri


def test_a_folder_with_links_and_nonsense(desk: Desk, tmp_path: Path) -> None:
    run = tmp_path / "mlruns" / "0" / UIDS[0]
    for name in ("params", "metrics", "tags", "artifacts"):
        (run / name).mkdir(parents=True)
    meta = {"experiment_id": "0", "name": "Default", "lifecycle_stage": "active"}
    (tmp_path / "mlruns" / "0" / "meta.yaml").write_text(json.dumps(meta))
    told = {
        "run_id": UIDS[0],
        "run_name": "one",
        "status": 3,
        "start_time": 5,
        "end_time": 3,
        "lifecycle_stage": "active",
    }
    (run / "meta.yaml").write_text(json.dumps(told))
    secret = tmp_path / "secret"
    secret.write_text("secret words")
    for place in ("params/p", "tags/t", "metrics/m", "artifacts/a"):
        (run / place).symlink_to(secret)
    (run / "metrics" / "loss").write_text("1 2\nnonsense\n3 x 1\n9 4.5 7\n")
    broken = tmp_path / "mlruns" / "0" / UIDS[1]
    broken.mkdir()
    (broken / "meta.yaml").write_text("{[")
    done = desk.holdfast("history", "import", "--mlflow", str(tmp_path / "mlruns"))
    assert (done.code, "1 run imported" in done.err, "skipped" in done.err) == (0, True, True), done.err
    assert of(desk, "one")["loss"] == [2.0, 4.5]
    found = [path for path in (desk.home / "runs").rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert found == []


def test_linked_folders_that_are_not_imported_are_named(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    experiment = tmp_path / "mlruns" / "0"
    for uid in UIDS[:2]:
        (experiment / uid).mkdir(parents=True)
        meta = {"run_id": uid, "status": 3, "start_time": 5, "end_time": 6, "lifecycle_stage": "active"}
        (experiment / uid / "meta.yaml").write_text(json.dumps(meta))
    (experiment / "meta.yaml").write_text(json.dumps({"experiment_id": "0", "lifecycle_stage": "active"}))
    (experiment / UIDS[0] / "artifacts").symlink_to(tmp_path / "secret")
    (experiment / UIDS[1] / "artifacts").mkdir()
    (experiment / UIDS[1] / "artifacts" / "model").symlink_to(tmp_path / "secret")
    done = desk.holdfast("history", "import", "--mlflow", str(tmp_path / "mlruns"))
    assert done.code == 0, done
    assert f"skipped: {UIDS[0]}: artifacts: a symbolic link that leads out of the store\n" in done.err
    assert f"skipped: {UIDS[1]}: 'model': a linked folder\n" in done.err


def test_a_folder_as_an_archive_is_refused_with_advice(desk: Desk, tmp_path: Path) -> None:
    result = desk.holdfast("history", "import", str(tmp_path))
    assert result.code == 2, result
    assert "this is a folder, not an archive" in result.err
    assert "--mlflow FOLDER" in result.err


def one_run(place: Path) -> Path:
    """A folder of MLflow with one run that has ended; returns the place of its artifacts."""
    run = place / "0" / UIDS[0]
    for name in ("params", "metrics", "tags", "artifacts"):
        (run / name).mkdir(parents=True)
    meta = {"experiment_id": "0", "name": "Default", "lifecycle_stage": "active"}
    (place / "0" / "meta.yaml").write_text(json.dumps(meta))
    told = {"run_id": UIDS[0], "run_name": "one", "status": 3, "start_time": 5, "end_time": 9}
    (run / "meta.yaml").write_text(json.dumps({**told, "lifecycle_stage": "active"}))
    return run / "artifacts"


def test_sparse_artifacts_stay_sparse_and_too_large_ones_are_left_out(desk: Desk, tmp_path: Path) -> None:
    artifacts = one_run(tmp_path / "mlruns")
    with open(artifacts / "huge", "wb") as huge:
        huge.truncate(1 << 42)
    with open(artifacts / "holes", "wb") as holes:
        holes.write(b"begin")
        holes.truncate(100 << 20)
    done = desk.holdfast("history", "import", "--mlflow", str(tmp_path / "mlruns"))
    assert done.code == 0, done
    assert f"skipped: {UIDS[0]}: 'huge': {1 << 42} bytes, and the store's disk has" in done.err
    [copy] = (desk.home / "runs").rglob("outputs/holes")
    assert copy.stat().st_size == 100 << 20
    assert copy.stat().st_blocks * 512 < 10 << 20
    assert desk.holdfast("store", "verify").code == 0


def test_a_killed_import_is_removed_by_the_next_prune(desk: Desk, tmp_path: Path) -> None:
    artifacts = one_run(tmp_path / "mlruns")
    with open(artifacts / "large", "wb") as large:
        large.truncate(4 << 30)
    process = desk.start("history", "import", "--mlflow", str(tmp_path / "mlruns"))
    with process:
        eventually(lambda: list(desk.home.glob("import-*.tmp/runs/*/a1/outputs/large")) != [])
        process.send_signal(signal.SIGSTOP)
        desk.holdfast("store", "prune")
        assert list(desk.home.glob("import-*.tmp")), "it is still being made"
        process.kill()
    desk.holdfast("store", "prune")
    assert list(desk.home.glob("import-*.tmp")) == []


def test_what_is_no_store_of_mlflow(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("nothing of the kind")
    for path in (tmp_path / "x.db", desk.project, tmp_path / "missing"):
        refused = desk.holdfast("history", "import", "--mlflow", str(path))
        assert refused.code == 2
        assert "Holdfast itself" not in refused.err
    assert desk.holdfast("history", "import").code == 2
