"""Scripts that log with MLflow, wandb or tensorboardX, the real ones: their values are in the run's own metrics."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libraries
from holdfast.metrics import reader

if TYPE_CHECKING:
    from conftest import Desk

ROOT = Path(__file__).resolve().parents[2]
MLFLOW = """
import mlflow, numpy
mlflow.set_experiment("e")
with mlflow.start_run(run_name="first", tags={"team": "red"}):
    mlflow.log_params({"lr": 0.1, "opt": "adam"})
    mlflow.log_param("depth", 3)
    mlflow.set_tag("stage", "dev")
    for step in range(3):
        mlflow.log_metric("loss", 1 / (step + 1), step=step * 10)
        mlflow.log_metrics({"counted": step, "odd": float("nan")})
    mlflow.MlflowClient().log_metric(mlflow.active_run().info.run_id, "direct", 5, step=7)
    mlflow.log_text("hello", "notes/a.txt")
    mlflow.log_image(numpy.zeros((4, 5, 3), dtype="uint8"), key="picture", step=2)
    with mlflow.start_run(run_name="child", nested=True):
        mlflow.log_metric("loss", 7.0)
        mlflow.log_param("lr", 9)
"""
WANDB = """
import wandb, numpy
assert wandb.login() is False
with wandb.init(project="p", config={"lr": 0.1, "model": {"depth": 3}}, tags=["base"]) as run:
    for step in range(3):
        run.log({"loss": 1 / (step + 1), "inner": {"x": step}})
    wandb.log({"late": 1.5}, step=10)
    wandb.log({"late": 9.5, "back": 1}, step=4)  # ignored by wandb: its step goes back
    wandb.log({"late": 2.5}, step=10)
    run.log({"half": 1}, commit=False)
    run.log({"scalar": numpy.float32(0.25), "histogram": wandb.Histogram([1, 2, 3])})
    run.log({"picture": wandb.Image(numpy.zeros((4, 5, 3), dtype="uint8"))})
    run.log({"rows": wandb.Table(columns=["a", "b"], data=[[1, 2]])})
    run.config.batch = 7
    run.summary["best"] = 0.9
    run.summary.update({"deep": {"x": 2}})
    open("model.txt", "w").write("weights")
    artifact = wandb.Artifact("model", type="model")
    artifact.add_file("model.txt")
    run.log_artifact(artifact)
with wandb.init("team", name="second", settings={"silent": True}) as run:
    run.log({"loss": 7.0})
"""
TENSORBOARDX = """
import numpy
from tensorboardX import SummaryWriter
with SummaryWriter("logs/first") as writer:
    for step in range(3):
        writer.add_scalar("loss", 0.5 ** step, step)
    writer.add_scalar("bad", float("inf"), 0)
    writer.add_scalar(None, 1.0, 0)
    writer.add_image("picture", numpy.zeros((3, 4, 5), dtype="uint8"), 2)
    writer.add_text("note", "hello", 1)
    writer.add_histogram("weights", numpy.arange(9), 1)
    writer.add_hparams({"lr": 0.5, "opt": "adam", "fast": True}, {"final": 0.25})
with SummaryWriter("logs/second") as writer:
    writer.add_scalar("loss", 9.0, 4)
    writer.add_scalar(None, 1.0, 0)
"""


def submit(desk: Desk, library: tuple[str, ...], script: str, *options: str) -> dict[str, Any]:
    desk.script(script)
    python = libraries.interpreter(ROOT, library)
    done = desk.submit("--python", str(python), "-e", "MLFLOW_DISABLE_TELEMETRY=true", *options, "train.py")
    assert done.code == 0, done
    return desk.record()


def steps(desk: Desk, name: str) -> list[int]:
    return list(reader.read_dir(str(desk.attempt() / "metrics")).by_name[name].steps)


def test_mlflow_values_reach_the_run_and_mlflow(desk: Desk, tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    record = submit(desk, libraries.MLFLOW, MLFLOW, "-e", f"MLFLOW_TRACKING_URI=sqlite:///{database}")
    assert record["loss"] == [1.0, 0.5, 1 / 3]
    assert (steps(desk, "loss"), steps(desk, "counted")) == ([0, 10, 20], [0, 1, 2])
    assert (record["odd"], record["direct"], record["child/loss"]) == ([None, None, None], 5.0, 7.0)
    assert record["parameters"] == {"lr": 0.1, "opt": "adam", "depth": 3, "child/lr": 9}
    run_id = record["tags"].pop("mlflow.run_id")
    assert record["tags"] == {"team": "red", "stage": "dev"}
    assert (record["picture"]["width"], steps(desk, "picture")) == (5, [2])
    assert (desk.attempt() / "outputs" / "artifacts" / "notes" / "a.txt").read_text() == "hello"
    assert record["outputs"]["files"] == 1  # and not the files of the picture
    with closing(sqlite3.connect(database)) as store:
        rows = store.execute("SELECT step FROM metrics WHERE run_uuid = ? AND key = 'loss'", (run_id,)).fetchall()
    assert sorted(rows) == [(0,), (10,), (20,)]
    (row,) = desk.holdfast("history", "list", "--where", "param.lr < 0.2 and tag.team = 'red'").json
    assert row["run_id"] == record["run_id"]
    assert "parameters" in desk.holdfast("info", "-o", "table").text


def test_wandb_without_login_works_offline_and_its_values_reach_the_run(desk: Desk) -> None:
    record = submit(desk, libraries.WANDB, WANDB)
    log = desk.holdfast("logs").text
    assert "holdfast: wandb: there is no login in this run, so wandb works offline" in log
    assert "holdfast: wandb: values of the type wandb.Histogram are not recorded" in log
    assert (record["loss"], record["inner.x"]) == ([1.0, 0.5, 1 / 3], [0, 1, 2])
    assert (steps(desk, "loss"), steps(desk, "late"), steps(desk, "half")) == ([0, 1, 2], [10, 10], [10])
    assert (record["scalar"], record["best"], record["late"]) == (0.25, 0.9, [1.5, 2.5])
    assert "back" not in record
    assert (record["deep.x"], record["second/loss"]) == (2.0, 7.0)
    assert record["parameters"] == {"lr": 0.1, "model.depth": 3, "batch": 7}
    assert record["tags"].pop("wandb.run_id")
    assert record["tags"] == {"base": True}
    assert (record["picture"]["width"], record["rows"]["rows"]) == (5, [[1, 2]])
    assert (desk.attempt() / "outputs" / "artifacts" / "model" / "model.txt").read_text() == "weights"
    assert record["outputs"]["files"] == 1


def test_wandb_mode_and_login_of_the_user_are_kept(desk: Desk) -> None:
    script = "import wandb\nrun = wandb.init()\nprint('mode', run.settings.mode)\nrun.log({'loss': 1.0})"
    record = submit(desk, libraries.WANDB, script, "-e", "WANDB_MODE=disabled")
    assert "mode disabled" in desk.holdfast("logs").text
    assert "loss" not in record  # what the user turned off is not recorded
    desk.script("import wandb\nwandb.init(settings=wandb.Settings(init_timeout=1))")
    (desk.user_home / ".netrc").write_text(f"machine 127.0.0.1:9\n  login user\n  password {'0' * 40}\n")
    (desk.user_home / ".netrc").chmod(0o600)
    python = str(libraries.interpreter(ROOT, libraries.WANDB))
    desk.submit("--python", python, "-e", "WANDB_BASE_URL=http://127.0.0.1:9", "--timeout", "60s", "train.py")
    assert "works offline" not in desk.holdfast("logs").text


def test_tensorboardx_values_reach_the_run_and_the_event_files(desk: Desk) -> None:
    record = submit(desk, libraries.TENSORBOARDX, TENSORBOARDX, "--keep-work")
    assert "holdfast: tensorboard: histograms are not recorded" in desk.holdfast("logs").text
    assert (record["loss"], record["second/loss"], record["bad"]) == ([1.0, 0.5, 0.25], 9.0, None)
    assert (steps(desk, "loss"), steps(desk, "second/loss")) == ([0, 1, 2], [4])
    names = reader.read_dir(str(desk.attempt() / "metrics")).by_name
    assert sorted(names) == ["bad", "final", "loss", "note", "picture", "second/loss"]
    assert (record["note"], record["picture"]["width"], record["final"]) == ("hello", 5, 0.25)
    assert record["parameters"] == {"lr": 0.5, "opt": "adam", "fast": True}
    assert list((desk.attempt() / "outputs" / ".project" / "logs" / "first").glob("events.*"))


def test_capture_is_turned_off_by_option_and_by_run_configuration(desk: Desk) -> None:
    record = submit(desk, libraries.TENSORBOARDX, TENSORBOARDX, "--no-capture")
    assert "loss" not in record
    assert "HOLDFAST_CAPTURE" not in desk.holdfast("submit", "-c", "local", "--dry-run", "train.py").text
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.runconfig").write_text("Target: local\nFramework: Python\ncapture: false\n")
    record = submit(desk, libraries.TENSORBOARDX, TENSORBOARDX)
    assert "loss" not in record
    desk.script("import os; print('variable', os.environ['HOLDFAST_CAPTURE'])")
    desk.submit("train.py")
    assert "variable 0" in desk.holdfast("logs").text


READ_BACK = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1])
found.Reload()
print(json.dumps({
    "scalars": {name: [(e.step, str(e.value)) for e in found.Scalars(name)] for name in found.Tags()["scalars"]},
    "images": {name: [(e.step, e.width, e.height) for e in found.Images(name)] for name in found.Tags()["images"]},
    "texts": {n: [e.tensor_proto.string_val[0].decode() for e in found.Tensors(n)] for n in found.Tags()["tensors"]},
    "plugins": sorted(found.PluginTagToContent("hparams")),
}))
"""
NATIVE = """
import holdfast
for step in range(3):
    holdfast.log("loss", 0.5 ** step, step * 10)
holdfast.log("bad", float("nan"))
holdfast.log("huge", 1e300)
holdfast.log("done", True)
holdfast.log("note", "a text")
holdfast.log("list", [1, 2])
holdfast.log("mixed", [1, "a"])
holdfast.log_image("picture", bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8ffff3f0005fe02fe"
    "dccc59e70000000049454e44ae426082"), 4)
open("outputs/model.txt", "w").write("weights")
"""


def test_tensorboard_opens_an_exported_run(desk: Desk) -> None:
    desk.script(NATIVE)
    assert desk.submit("train.py", "--lr", "0.1").code == 0
    done = desk.holdfast("export", "-r", "last", "--to", "tensorboard")
    folder = desk.project / "holdfast-tensorboard"
    assert (done.code, done.text) == (0, f"{folder}\n")
    assert "mixed: 1 values that TensorBoard has no form for" in done.err
    python = libraries.interpreter(ROOT, libraries.TENSORBOARDX)
    command = [python, "-W", "ignore", "-c", READ_BACK, folder / desk.record()["run_id"]]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    assert found["scalars"]["loss"] == [[0, "1.0"], [10, "0.5"], [20, "0.25"]]
    assert found["scalars"]["list"] == [[0, "1.0"], [1, "2.0"]]
    assert [found["scalars"][name][0][1] for name in ("bad", "huge", "done")] == ["nan", "inf", "1.0"]
    assert found["images"] == {"picture": [[4, 1, 1]]}
    assert found["texts"]["note"] == ["a text"]
    assert "train.py" in found["texts"]["run"][0]
    assert found["plugins"] == ["_hparams_/session_start_info"]
    again = desk.holdfast("export", "-r", "last", "--to", "tensorboard")
    assert (again.code, "this folder is not empty" in again.err) == (2, True)


def test_runs_are_exported_as_csv(desk: Desk) -> None:
    desk.script(NATIVE)
    assert desk.submit("train.py", "--lr", "0.1", "--name", "=1+1").code == 0
    assert desk.holdfast("export", "--all", "--to", "csv", "--into", "tables").code == 0
    with (desk.project / "tables" / "runs.csv").open() as source:
        (row,) = csv.DictReader(source)
    assert (row["params.lr"], row["params.name"], row["metrics.loss"], row["status"]) == (
        "0.1",
        "'=1+1",
        "0.25",
        "Completed",
    )
    with (desk.project / "tables" / "metrics.csv").open() as source:
        rows = list(csv.DictReader(source))
    assert [(r["step"], r["value"]) for r in rows if r["name"] == "loss"] == [
        ("0", "1.0"),
        ("10", "0.5"),
        ("20", "0.25"),
    ]
    assert [(r["value"], r["text"]) for r in rows if r["name"] in ("bad", "note")] == [("nan", ""), ("", "a text")]


def test_mlflow_needs_its_package_and_both_read_back_what_was_exported(desk: Desk, tmp_path: Path) -> None:
    desk.script(NATIVE)
    assert desk.submit("train.py", "--lr", "0.1").code == 0
    refused = desk.holdfast("export", "--all", "--to", "mlflow")
    assert (refused.code, "pip install 'holdfast[mlflow]'" in refused.err) == (2, True)
    refused = desk.holdfast("export", "--all", "--to", "runs.zip", "--into", "folder")
    assert (refused.code, "--into belongs to a format" in refused.err) == (2, True)
    python = libraries.interpreter(ROOT, libraries.MLFLOW)
    env = {**desk.env, "PYTHONPATH": str(ROOT / "src"), "MLFLOW_DISABLE_TELEMETRY": "true"}
    uri = f"sqlite:///{tmp_path}/exported.db"
    answers = []
    for words in (("mlflow", "--into", uri), ("mlflow", "--into", uri), ("parquet", "--into", "tables")):
        command = [str(python), "-m", "holdfast", "export", "--all", "--to", *words]
        done = subprocess.run(
            command, cwd=desk.project, env=env, capture_output=True, text=True, check=False, timeout=200
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stderr.splitlines()[-1])
    assert answers == ["1 run exported", "0 runs exported, 1 already present", "1 run exported"]
    check = f"""
import mlflow, pyarrow.parquet
client = mlflow.MlflowClient("{uri}")
(run,) = client.search_runs([e.experiment_id for e in client.search_experiments()])
assert run.data.params == {{"lr": "0.1"}}, run.data.params
assert run.info.status == "FINISHED"
assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")] == [(0, 1), (10, .5), (20, .25)]
assert sorted(f.path for f in client.list_artifacts(run.info.run_id)) == ["images", "model.txt"]
(row,) = pyarrow.parquet.read_table("tables/runs.parquet").to_pylist()
assert (row["params.lr"], row["metrics.loss"], row["status"]) == (.1, .25, "Completed"), row
rows = pyarrow.parquet.read_table("tables/metrics.parquet").to_pylist()
assert [(r["step"], r["value"]) for r in rows if r["name"] == "loss"] == [(0, 1), (10, .5), (20, .25)]
"""
    subprocess.run([python, "-c", check], cwd=desk.project, env=env, check=True, timeout=200)
