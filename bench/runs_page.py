"""How long the page of runs takes in a browser until its rows can be used, cold, beside peers that are installed.

``python bench/runs_page.py [--runs 10000] [--full] [--keep FOLDER] [--peers PYTHON]`` makes the runs of
``bench/history.py``, and the same numbers of runs, parameters and metrics for MLflow and TensorBoard where the
interpreter named by ``--peers`` has them. All are opened in turn, each time in a new context of one browser. Medians,
and ratios to our page of ``--runs`` runs; jumps are to rows all over the grid.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from history import METRICS, PARAMETERS, store
from playwright.sync_api import sync_playwright
from workbench import answering, memory_mb, processor_seconds, sign_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright._impl._api_structures import SetCookieParam
    from playwright.sync_api import Browser, Page, Response

ROUNDS = 5
_HEAP = "performance.memory ? performance.memory.usedJSHeapSize : 0"
_MLFLOW = f"""
import random, sys, time
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.entities import Metric, Param, RunTag
store = SqlAlchemyStore(sys.argv[1], sys.argv[2])
experiment = store.create_experiment("bench", artifact_location=sys.argv[2], tags=[])
rng = random.Random(1)
for number in range(int(sys.argv[3])):
    run = store.create_run(experiment, "ada", number, [], f"run{{number}}").info.run_id
    metrics = [Metric(f"metric{{at}}", rng.random(), number, 0) for at in range({METRICS})]
    params = [Param(f"param{{at}}", str(rng.random())) for at in range({PARAMETERS})]
    store.log_batch(run, metrics, params, [])
"""
_TENSORBOARD = f"""
import random, sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
rng = random.Random(1)
for number in range(int(sys.argv[2])):
    writer = EventFileWriter(f"{{sys.argv[1]}}/run{{number}}")
    for at in range({METRICS}):
        for step in range(10):
            value = Summary(value=[Summary.Value(tag=f"metric{{at}}", simple_value=rng.random())])
            writer.add_event(Event(step=step, summary=value))
    writer.close()
"""


class Subject:
    """A server whose page of runs is opened: ``ready`` is what is there when its rows or charts can be used."""

    def __init__(self, name: str, runs: int, address: str, ready: str, pid: int, cookies: Any = None) -> None:
        self.name, self.runs, self.address, self.ready = name, runs, address, ready
        self.pid, self.cookies = pid, cookies
        self.usable: list[float] = []
        self.jumps: list[float] = []
        self.spent: list[float] = []
        self.requests = self.scripts = 0
        self.foreign = 0
        self.heap = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--full", action="store_true", help="100,000 runs too")
    parser.add_argument("--keep", help="a folder for the stores, used again if it is there")
    parser.add_argument("--peers", help="an interpreter that has mlflow or tensorboard")
    parser.add_argument("--peer-runs", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-web-") as scratch, ExitStack() as stack:
        folder = Path(options.keep or scratch)
        playwright = stack.enter_context(sync_playwright())
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        counts = (options.runs, *((100_000,) if options.full else ()))
        subjects = [stack.enter_context(holdfast(browser, folder, count)) for count in counts]
        peers = [peer for peer in (mlflow, tensorboard) if options.peers and has(options.peers, peer.__name__)]
        subjects += [stack.enter_context(peer(options.peers, folder, options.peer_runs)) for peer in peers]
        for _ in range(ROUNDS):
            for subject in subjects:
                show(browser, subject)
        report(subjects)
    return 0


def has(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], check=False, stderr=subprocess.DEVNULL).returncode == 0


@contextmanager
def holdfast(browser: Browser, folder: Path, count: int) -> Iterator[Subject]:
    env = {**os.environ, "HOLDFAST_HOME": store(folder, count).path}
    command: list[str | Path] = [Path(sys.executable).with_name("holdfast"), "ui", "--no-open", "--port", "0"]
    with subprocess.Popen(command, cwd=folder / "project", env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address, code = (server.stdout.readline().split()[1] for _ in range(2))
        try:
            cookies = sign_in(browser, address, code)
            ready = "html[data-ready] #grid tbody tr:nth-child(30)"
            yield Subject("Holdfast", count, f"{address}runs", ready, answering(server.pid), cookies)
        finally:
            server.terminate()


@contextmanager
def mlflow(python: str, folder: Path, count: int) -> Iterator[Subject]:
    database = f"sqlite:///{folder}/mlflow-{count}.db"
    if not (folder / f"mlflow-{count}.db").exists():
        subprocess.run([python, "-c", _MLFLOW, database, str(folder / "artifacts"), str(count)], check=True)
    port = free_port()
    command = [python, "-m", "mlflow", "server", "--backend-store-uri", database, "--port", port, "--workers", "1"]
    with started(command, f"http://127.0.0.1:{port}/") as pid:
        yield Subject("MLflow", count, f"http://127.0.0.1:{port}/#/experiments/1", "text=run999", pid)


@contextmanager
def tensorboard(python: str, folder: Path, count: int) -> Iterator[Subject]:
    logs = folder / f"tensorboard-{count}"
    if not logs.exists():
        subprocess.run([python, "-c", _TENSORBOARD, str(logs), str(count)], check=True)
    port = free_port()
    command = [python, "-m", "tensorboard.main", "--logdir", str(logs), "--port", port, "--load_fast=false"]
    with started(command, f"http://127.0.0.1:{port}/data/runs", lambda body: body.count(b"run") >= count) as pid:
        yield Subject("TensorBoard", count, f"http://127.0.0.1:{port}/", "scalar-card, mat-paginator", pid)


@contextmanager
def started(command: list[str], address: str, is_ready: Callable[[bytes], bool] = lambda _body: True) -> Iterator[int]:
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as server:
        try:
            deadline = time.monotonic() + 300
            while time.monotonic() < deadline:
                with suppress(OSError):
                    if is_ready(urllib.request.urlopen(address, timeout=20).read()):
                        break
                time.sleep(0.5)
            yield server.pid
        finally:
            os.killpg(server.pid, 15)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def show(browser: Browser, subject: Subject) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    if subject.cookies is not None:
        context.add_cookies(cast("list[SetCookieParam]", subject.cookies))
    page = context.new_page()
    answers: list[tuple[str, int]] = []
    page.on("response", _note_into(answers))
    before = processor_seconds(subject.pid)
    began = time.perf_counter()
    page.goto(subject.address, wait_until="commit")
    page.wait_for_selector(subject.ready, timeout=120_000)
    subject.usable.append(time.perf_counter() - began)
    subject.spent.append(processor_seconds(subject.pid) - before)
    subject.requests = len(answers)
    subject.scripts = sum(size for url, size in answers if re.search(r"\.m?js($|\?)", url))
    own = subject.address.split("/")[2]
    subject.foreign = len({url.split("/")[2] for url, _ in answers if url.startswith("http")} - {own})
    subject.heap = float(page.evaluate(_HEAP)) / 1e6
    if subject.cookies is not None:
        subject.jumps += [jump(page, int(subject.runs * part)) for part in (0.7, 0.2, 0.95)]
    context.close()


def jump(page: Page, row: int) -> float:
    began = time.perf_counter()
    page.evaluate(f"document.getElementById('grid').scrollTop = {row * 26}")
    page.wait_for_selector(f'#grid tr[aria-rowindex="{row + 2}"]')
    return time.perf_counter() - began


def _note_into(answers: list[tuple[str, int]]) -> Callable[[Response], None]:
    def note(answer: Response) -> None:
        with suppress(Exception):  # a body that is gone with its page
            answers.append((answer.url, len(answer.body())))

    return note


def report(subjects: list[Subject]) -> None:
    titles = ("runs", "usable s", "ratio", "server s", "jump ms", "requests", "script kB", "heap MB", "server MB")
    print(f"{'':<12}" + "".join(f"{title:>11}" for title in titles))
    base = statistics.median(subjects[0].usable)
    for subject in subjects:
        usable = statistics.median(subject.usable)
        jumped = f"{statistics.median(subject.jumps) * 1e3:.0f}" if subject.jumps else ""
        cells: tuple[str, ...] = (
            f"{subject.runs:,}",
            f"{usable:.2f}",
            f"{usable / base:.2f}",
            f"{statistics.median(subject.spent):.3f}",
        )
        cells += (jumped, str(subject.requests), f"{subject.scripts / 1e3:.1f}", f"{subject.heap:.1f}")
        print(f"{subject.name:<12}" + "".join(f"{cell:>11}" for cell in (*cells, f"{memory_mb(subject.pid):.0f}")))
        if subject.foreign:
            print(f"{'':<12}{subject.foreign} foreign hosts asked")


if __name__ == "__main__":
    sys.exit(main())
