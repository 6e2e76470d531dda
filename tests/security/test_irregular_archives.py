"""Archives and MLflow stores whose files are links, pipes, devices, bombs or programs: refused, and nothing leaks."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast.engine.transfer import import_mlflow
from holdfast.errors import UsageError
from holdfast.model import Project
from holdfast.store.home import Home
from security.sentinel import Sentinel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Desk

UID = "0123456789abcdef0123456789abcdef"
EXPERIMENT = "artifact_location: ''\nexperiment_id: '1'\nlifecycle_stage: active\nname: digits\n"
RUN = (
    f"artifact_uri: ''\nend_time: 1700000001000\nexperiment_id: '1'\nlifecycle_stage: active\nrun_id: {UID}\n"
    f"run_name: calm-fox\nstart_time: 1700000000000\nstatus: 3\nuser_id: ada\n"
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "store").mkdir()
    return Home(str(tmp_path / "store"), "1" * 32)


def irregular(path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as sink:
            sink.truncate(1 << 40)
    else:
        path.write_bytes(b"\x00\xff" * 500)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["fifo", "zero", "folder", "huge", "binary"])
@pytest.mark.parametrize("words", [("history", "import"), ("history", "import", "--mlflow"), ("passport", "verify")])
def test_file_to_be_read_that_is_no_archive_is_refused_at_once(desk: Desk, kind: str, words: tuple[str, ...]) -> None:
    irregular(desk.project / "given", kind)
    done = desk.holdfast(*words, "given")
    assert done.code in (2, 80), done.err
    assert "Traceback" not in done.err


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["fifo", "zero", "folder", "huge", "binary"])
def test_env_file_that_is_no_small_text_file_is_refused_at_once(desk: Desk, kind: str) -> None:
    desk.script("print(1)")
    irregular(desk.user_home / "given", kind)
    done = desk.submit("--env-file", str(desk.user_home / "given"), "train.py")
    assert done.code in (2, 65), done.err


def folder_store(top: Path) -> Path:
    run = top / "mlruns" / "1" / UID
    for name in ("metrics", "params", "tags", "artifacts"):
        (run / name).mkdir(parents=True)
    (top / "mlruns" / "1" / "meta.yaml").write_text(EXPERIMENT)
    (run / "meta.yaml").write_text(RUN)
    (run / "metrics" / "loss").write_text("1700000000500 0.5 1\n")
    (run / "artifacts" / "model.txt").write_text("model")
    return run


def bring(home: Home, store: Path) -> import_mlflow.Brought:
    project = Project(str(store), "00000000-0000-4000-8000-000000000000", "digits")
    return import_mlflow.bring(home, project, str(store / "mlruns"), lambda _at, _of: None)


def test_folder_store_is_imported_with_its_metrics_and_artifacts(home: Home, tmp_path: Path) -> None:
    folder_store(tmp_path / "given")
    assert len(bring(home, tmp_path / "given").new) == 1
    with open(home.run(UID, "a1", "outputs", "model.txt")) as source:
        assert source.read() == "model"


@pytest.mark.parametrize("name", ["artifacts", "metrics", "params", "tags", "artifacts/more", "artifacts/model.txt"])
def test_mlflow_links_that_lead_out_bring_nothing_of_what_they_lead_to(home: Home, tmp_path: Path, name: str) -> None:
    run = folder_store(tmp_path / "given")
    sentinel = Sentinel(tmp_path, ("store", "given"))
    place = run / name
    if place.is_file():
        place.unlink()
    elif place.exists():
        for inner in place.iterdir():
            inner.unlink()
        place.rmdir()
    place.symlink_to(sentinel.file if "." in place.name else sentinel.file.parent)
    bring(home, tmp_path / "given")
    sentinel.check()


@pytest.mark.parametrize("name", ["1", f"1/{UID}"])
def test_mlflow_experiment_or_run_that_is_a_link_out_is_not_read(home: Home, tmp_path: Path, name: str) -> None:
    folder_store(tmp_path / "elsewhere")
    (tmp_path / "given" / "mlruns").mkdir(parents=True)
    if name != "1":
        (tmp_path / "given" / "mlruns" / "1").mkdir()
        (tmp_path / "given" / "mlruns" / "1" / "meta.yaml").write_text(EXPERIMENT)
    (tmp_path / "given" / "mlruns" / name).symlink_to(tmp_path / "elsewhere" / "mlruns" / name)
    try:
        assert bring(home, tmp_path / "given").new == []
    except UsageError:
        assert name == "1"  # no experiment is left


def _bomb(merge: bool) -> str:
    """Ten levels of ten aliases each; as lists, or as maps that take each other in."""
    lines = ["a0: &a0 {k: v}" if merge else "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        below = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {{<<: [{below}]}}" if merge else f"a{level}: &a{level} [{below}]")
    return "\n".join(lines) + "\nrun_name: *a11\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("bomb", [_bomb(False), _bomb(True), "[" * 50_000, "{a: " * 15_000, "x: 1\n" * 12_000])
def test_mlflow_yaml_bomb_costs_that_run_and_no_more(home: Home, tmp_path: Path, bomb: str) -> None:
    run = folder_store(tmp_path / "given")
    other = run.with_name("f" * 32)
    other.mkdir()
    (other / "meta.yaml").write_text(RUN.replace(UID, "f" * 32) + bomb)
    assert len(bring(home, tmp_path / "given").new) >= 1


@pytest.mark.timeout(20)
@pytest.mark.parametrize("bomb", [_bomb(False), _bomb(True)])
def test_aml_config_yaml_bomb_is_refused_at_once(desk: Desk, bomb: str) -> None:
    desk.script("print(1)")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "x.compute").write_text("type: local\n" + bomb)
    done = desk.holdfast("submit", "-c", "x", "train.py")
    assert done.code == 65, done.err


@pytest.mark.parametrize(
    "meta", ["start_time: 99999999999999999999999999", "start_time: 9999999999999999", "status: [1]"]
)
def test_mlflow_values_that_make_no_sense_are_left_out(home: Home, tmp_path: Path, meta: str) -> None:
    run = folder_store(tmp_path / "given")
    (run / "meta.yaml").write_text(RUN.replace("start_time: 1700000000000", "").replace("status: 3", "") + meta + "\n")
    bring(home, tmp_path / "given")


SCHEMA = """
CREATE TABLE experiments (experiment_id INTEGER, name TEXT, lifecycle_stage TEXT);
CREATE TABLE runs (run_uuid TEXT, name TEXT, user_id TEXT, status TEXT, start_time, end_time, artifact_uri TEXT,
  experiment_id INTEGER, lifecycle_stage TEXT);
CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE metrics (key TEXT, value, timestamp, step, is_nan, run_uuid TEXT);
INSERT INTO experiments VALUES (1, 'digits', 'active');
"""


def database(top: Path, more: str) -> Path:
    top.mkdir(exist_ok=True)
    with closing(sqlite3.connect(top / "mlflow.db")) as db:
        db.executescript(SCHEMA + more)
    return top


def bring_database(home: Home, top: Path) -> import_mlflow.Brought:
    project = Project(str(top), "00000000-0000-4000-8000-000000000000", "digits")
    return import_mlflow.bring(home, project, str(top / "mlflow.db"), lambda _at, _of: None)


RUN_ROW = f"INSERT INTO runs VALUES ('{UID}', 'n', 'u', 'FINISHED', 1, 2, '', 1, 'active');"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'a' AS key, i AS value"
PROGRAMS = {
    "recursive view": f"DROP TABLE params; CREATE VIEW params AS {ENDLESS}, '{UID}' AS run_uuid FROM n;",
    "view in another case": f"DROP TABLE params; CREATE VIEW PARAMS AS {ENDLESS}, '{UID}' AS run_uuid FROM n;",
    "computed column": "DROP TABLE tags; CREATE TABLE tags (key TEXT, run_uuid TEXT,"
    " value AS (hex(zeroblob(400000))));"
    f"INSERT INTO tags (key, run_uuid) VALUES ('a', '{UID}');",
    "virtual table": "DROP TABLE params; CREATE VIRTUAL TABLE params USING rtree(key, value, run_uuid);",
    "no table": "DROP TABLE params;",
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", PROGRAMS)
def test_mlflow_database_with_a_program_in_place_of_rows_is_refused(home: Home, tmp_path: Path, kind: str) -> None:
    top = database(tmp_path / "given", RUN_ROW + PROGRAMS[kind])
    with pytest.raises(UsageError, match="not an MLflow database"):
        bring_database(home, top)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("end", ["-wal", "-journal", "-shm"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["fifo", "zero"])
def test_mlflow_database_with_a_pipe_beside_it_is_refused(
    home: Home, tmp_path: Path, end: str, make: Callable[[Path], None]
) -> None:
    top = database(tmp_path / "given", RUN_ROW)
    make(top / f"mlflow.db{end}")
    with pytest.raises(UsageError):
        bring_database(home, top)


def test_mlflow_database_with_values_of_any_type_is_read(home: Home, tmp_path: Path) -> None:
    values = ("'text'", "x'00ff'", "NULL", "1e999", "9223372036854775807", "0.5")
    rows = "".join(f"INSERT INTO metrics VALUES ('m', {one}, {one}, {one}, {one}, '{UID}');" for one in values)
    top = database(tmp_path / "given", RUN_ROW + rows)
    assert len(bring_database(home, top).new) == 1


@pytest.mark.parametrize("named", ["given/x/outside/artifacts", "outside/artifacts"])
@pytest.mark.parametrize("uid", ["outside", "..", "../outside", "/outside", ""])
def test_mlflow_database_brings_no_artifacts_of_other_folders(home: Home, tmp_path: Path, uid: str, named: str) -> None:
    sentinel = Sentinel(tmp_path, ("store", "given"))
    (tmp_path / "outside" / "artifacts").mkdir()
    (tmp_path / "outside" / "artifacts" / "key").write_bytes(sentinel.file.read_bytes())
    places = [tmp_path / "given" / "mlruns" / "1" / "outside", tmp_path / "given" / "x" / "outside"]
    for place in places:
        place.mkdir(parents=True)
        (place / "artifacts").symlink_to(sentinel.file.parent)
    row = RUN_ROW.replace(UID, uid).replace("2, ''", f"2, '{tmp_path}/{named}'")
    bring_database(home, database(tmp_path / "given", row))
    assert not [name for _, _, names in os.walk(tmp_path / "store") for name in names if name in ("key", "secret")]
