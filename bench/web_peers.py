"""Trackers with a web interface, beside the page of runs: the same numbers of runs, parameters and metrics in each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import peers
from history import METRICS, PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE = 300.0

_MLFLOW = f"""
import random, sys
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.entities import Metric, Param
store = SqlAlchemyStore("sqlite:///mlflow.db", "artifacts")
experiment = store.create_experiment("bench", artifact_location="artifacts", tags=[])
rng = random.Random(1)
for number in range(int(sys.argv[1])):
    run = store.create_run(experiment, "ada", number, [], f"run{{number}}").info.run_id
    metrics = [Metric(f"metric{{at}}", rng.random(), number, 0) for at in range({METRICS})]
    params = [Param(f"param{{at}}", str(rng.random())) for at in range({PARAMETERS})]
    store.log_batch(run, metrics, params, [])
"""
_AIM = f"""
import random, sys, aim
rng = random.Random(1)
for number in range(int(sys.argv[1])):
    run = aim.Run(repo=".", log_system_params=False, capture_terminal_logs=False)
    run["params"] = {{f"param{{at}}": rng.random() for at in range({PARAMETERS})}}
    for at in range({METRICS}):
        for step in range(10):
            run.track(rng.random(), name=f"metric{{at}}", step=step)
    run.close()
"""
_AIM_COMMAND = "from aim.cli.cli import cli_entry_point; cli_entry_point()"
_TENSORBOARD = f"""
import random, sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
rng = random.Random(1)
for number in range(int(sys.argv[1])):
    writer = EventFileWriter(f"logs/run{{number}}")
    for at in range({METRICS}):
        for step in range(10):
            value = Summary(value=[Summary.Value(tag=f"metric{{at}}", simple_value=rng.random())])
            writer.add_event(Event(step=step, summary=value))
    writer.close()
"""
_TRACKIO = f"""
import random, sys, trackio
rng = random.Random(1)
for number in range(int(sys.argv[1])):
    params = {{f"param{{at}}": rng.random() for at in range({PARAMETERS})}}
    trackio.init(project="bench", name=f"run{{number}}", config=params, embed=False)
    for step in range(10):
        trackio.log({{f"metric{{at}}": rng.random() for at in range({METRICS})}}, step=step)
    trackio.finish()
"""


class Peer(NamedTuple):
    """``write`` makes the runs; ``ready`` is what its page has when rows or charts can be used."""

    name: str
    package: str
    runs: int
    write: str
    command: tuple[str, ...]
    page: str
    ready: str


PEERS = (
    Peer(
        "MLflow",
        "mlflow==3.17.2",
        10_000,
        _MLFLOW,
        ("-m", "mlflow", "server", "--backend-store-uri", "sqlite:///mlflow.db", "--port", "{port}", "--workers", "1"),
        "/#/experiments/1/runs",
        "text=run{last}",
    ),
    Peer("Aim", "aim==3.29.1", 1000, _AIM, ("-c", _AIM_COMMAND, "up", "--port", "{port}"), "/runs", "text=metric1"),
    Peer(
        "TensorBoard",
        "tensorboard==2.21.0",
        1000,
        _TENSORBOARD,
        ("-m", "tensorboard.main", "--logdir", "logs", "--port", "{port}", "--load_fast=false"),
        "/",
        "scalar-card, mat-paginator",
    ),
    Peer("Trackio", "trackio==0.43.0", 320, _TRACKIO, ("-m", "trackio.cli", "show"), "/?project=bench", "text=metric1"),
)


def written(peer: Peer, folder: Path, count: int) -> Path | None:
    """A folder with that many runs of the peer; nothing where it cannot be installed."""
    python = peers.interpreter(peer.package)
    if python is None:
        return None
    place = folder / f"{peer.name.lower()}-{count}"
    if not (place / "ready").exists():
        place.mkdir(parents=True, exist_ok=True)
        print(f"{peer.name}: writing {count:,} runs ...", file=sys.stderr, flush=True)
        began = time.perf_counter()
        done = subprocess.run(
            [str(python), "-c", peer.write, str(count)], cwd=place, env=_environment(place), check=False
        )
        if done.returncode:
            return None
        print(f"{peer.name}: written in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        (place / "ready").touch()
    return place


@contextmanager
def served(peer: Peer, place: Path) -> Iterator[tuple[str, int]]:
    """The address of its page and the process that answers."""
    python, port = peers.interpreter(peer.package), _free_port()
    command = [word.format(port=port) for word in peer.command]
    env = {**_environment(place), "GRADIO_SERVER_PORT": port}
    with (
        open(place / "server.log", "wb") as log,
        subprocess.Popen(
            [str(python), *command], cwd=place, env=env, stdout=log, stderr=log, start_new_session=True
        ) as server,
    ):
        try:
            _wait_for(f"http://127.0.0.1:{port}/", server)
            yield f"http://127.0.0.1:{port}{peer.page}", server.pid
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)


def _environment(place: Path) -> dict[str, str]:
    quiet = {"AIM_UI_TELEMETRY_ENABLED": "0", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
    return {**os.environ, **quiet, "HOME": str(place), "TRACKIO_DIR": str(place / "trackio")}


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=20).close()
            return
        time.sleep(0.5)
    raise SystemExit(f"no answer from {address}; see server.log")


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
