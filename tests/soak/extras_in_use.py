"""Uses the libraries of the extras ``mlflow``, ``parquet`` and ``remote``; run in a folder and a store of its own.

``test_dependency_ranges.py`` runs it with the lowest and with the highest versions that pyproject.toml allows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import holdfast

TRAIN = "import holdfast\nfor step in range(3):\n    holdfast.log('loss', 1 / (step + 1))\n"
# Not in a file of the project, so that it is sent by value.
REMOTE = (
    "import holdfast\n@holdfast.remote(target='local')\ndef double(value):\n    return 2 * value\nresult = double(21)\n"
)


def main() -> None:
    os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_ALLOW_FILE_STORE="true")
    Path("train.py").write_text(TRAIN)
    _command("submit", "train.py")
    store = Path("mlruns").absolute().as_uri()
    _command("export", "--all", "--to", "mlflow", "--into", store)
    _command("export", "--all", "--to", "parquet", "--into", "tables")
    _read_back(store)
    names: dict[str, object] = {"__name__": "typed"}
    exec(compile(REMOTE, "<typed>", "exec"), names)
    assert names["result"] == 42
    print("used with", holdfast.__file__)


def _command(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "holdfast", *words], check=True)


def _read_back(store: str) -> None:
    import mlflow
    import pyarrow.parquet

    client = mlflow.MlflowClient(store)
    (run,) = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [point.value for point in history] == [1, 1 / 2, 1 / 3]
    (row,) = pyarrow.parquet.read_table("tables/runs.parquet").to_pylist()
    assert (row["metrics.loss"], row["status"]) == (1 / 3, "Completed"), row


if __name__ == "__main__":
    main()
