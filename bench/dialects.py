"""What it costs a script that its calls of MLflow, wandb and TensorBoard are recorded too.

Each library logs in a process of its own: short rounds of calls, in turn with the hook and with the function that the
hook replaced, so that a busy machine is busy for both. Measured is the processor time of all threads of the process,
and that of the calling thread; shown are the least and the median of the rounds.
Libraries come from .tools, where a library that is missing is installed first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import libraries  # noqa: E402

ROUNDS = 100
GOAL = 1.1
LOOP = """
import importlib, json, time
{prepare}
owner, name = getattr(importlib.import_module({module!r}), {owner!r}), {name!r}
functions = [owner.__dict__[name].__wrapped__, owner.__dict__[name]]
def measure(function, first):
    setattr(owner, name, function)
    process, thread = time.process_time(), time.thread_time()
    for step in range(first, first + {count}):
        {call}
    return (time.process_time() - process) / {count}, (time.thread_time() - thread) / {count}
found = [[], []]
for number in range({rounds} + 3):
    for hooked in (0, 1) if number % 2 else (1, 0):
        taken = measure(functions[hooked], number * {count} * 2 + hooked * {count})
        if number >= 3:
            found[hooked].append(taken)
print(json.dumps(found), flush=True)
{finish}
"""


class Case(NamedTuple):
    """``hooked``: module, class and function that the hook replaces. ``calls``: in a round."""

    packages: tuple[str, ...]
    prepare: str
    call: str
    finish: str
    hooked: tuple[str, str, str]
    calls: int


WANDB = ("wandb.sdk.wandb_run", "Run", "log")
MLFLOW = "import mlflow; mlflow.set_tracking_uri('{}'); mlflow.start_run()"
FIVE = "{'a': step / 3, 'b': step / 5, 'c': step / 7, 'd': step, 'e': 0.5}"
CASES = {
    "mlflow, sqlite": Case(
        libraries.MLFLOW,
        MLFLOW.format("sqlite:///mlflow.db"),
        "mlflow.log_metric('loss', step / 3, step=step)",
        "mlflow.end_run()",
        ("mlflow.tracking.client", "MlflowClient", "log_metric"),
        5,
    ),
    "mlflow, folder": Case(
        libraries.MLFLOW,
        MLFLOW.format("file:mlruns"),
        "mlflow.log_metric('loss', step / 3, step=step)",
        "mlflow.end_run()",
        ("mlflow.tracking.client", "MlflowClient", "log_metric"),
        20,
    ),
    "mlflow, folder, five": Case(
        libraries.MLFLOW,
        MLFLOW.format("file:mlruns"),
        f"mlflow.log_metrics({FIVE}, step=step)",
        "mlflow.end_run()",
        ("mlflow.tracking.client", "MlflowClient", "log_batch"),
        10,
    ),
    "wandb, offline": Case(
        libraries.WANDB,
        "import wandb; run = wandb.init(mode='offline')",
        "run.log({'loss': step / 3})",
        "wandb.finish()",
        WANDB,
        50,
    ),
    "wandb, offline, five": Case(
        libraries.WANDB,
        "import wandb; run = wandb.init(mode='offline')",
        f"run.log({FIVE})",
        "wandb.finish()",
        WANDB,
        50,
    ),
    "tensorboardX": Case(
        libraries.TENSORBOARDX,
        "from tensorboardX import SummaryWriter; writer = SummaryWriter('logs')",
        "writer.add_scalar('loss', step / 3, step)",
        "writer.close()",
        ("tensorboardX.event_file_writer", "EventFileWriter", "add_event"),
        200,
    ),
    "torch SummaryWriter": Case(
        libraries.TORCH,
        "from torch.utils.tensorboard import SummaryWriter; writer = SummaryWriter('logs')",
        "writer.add_scalar('loss', step / 3, step)",
        "writer.close()",
        ("tensorboard.summary.writer.event_file_writer", "EventFileWriter", "add_event"),
        200,
    ),
}


def main() -> int:
    chosen = sys.argv[1:] or list(CASES)
    worst = 0.0
    print(f"{'us for a call':<24}{'process: least':>24}{'median':>24}{'thread: least':>24}{'median':>24}")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-dialects-") as folder:
        site = libraries.make_site(Path(folder) / "site")
        for name in chosen:
            figures = measure(CASES[name], Path(folder), site)
            cells = [f"{alone * 1e6:8.1f}{hooked * 1e6:8.1f}{hooked / alone:8.3f}" for alone, hooked in figures]
            print(f"{name:<24}{''.join(cells)}", flush=True)
            worst = max(worst, figures[0][1] / figures[0][0])
        bare, hooked = start_of_python(Path(folder), site)
        print(f"{'start of Python':<24}{bare * 1e3:8.1f} ms, with the hook {hooked * 1e3:.1f} ms")
    return 0 if worst <= GOAL else 1


def measure(case: Case, folder: Path, site: Path) -> list[tuple[float, float]]:
    """Seconds for a call, without the hook and with it: least and median of the process, then of the thread."""
    python = libraries.interpreter(ROOT, case.packages)
    module, owner, name = case.hooked
    calls = {"prepare": case.prepare, "call": case.call, "finish": case.finish, "count": case.calls}
    script = LOOP.format(**calls, module=module, owner=owner, name=name, rounds=ROUNDS)
    place = Path(tempfile.mkdtemp(dir=folder))
    quiet = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_SILENT": "true"}
    done = subprocess.run(
        [python, "-c", script],
        cwd=place,
        env={**os.environ, **quiet, **libraries.run_variables(place, site)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rounds: list[list[tuple[float, float]]] = json.loads(
        next(line for line in done.stdout.splitlines() if "[[" in line)
    )
    return [
        (summary(taken[which] for taken in rounds[0]), summary(taken[which] for taken in rounds[1]))
        for which in (0, 1)
        for summary in (min, median)
    ]


def start_of_python(folder: Path, site: Path) -> tuple[float, float]:
    """Seconds for ``python -c pass``, without and with our folder on its path."""
    import time

    best = [float("inf"), float("inf")]
    variables = libraries.run_variables(folder, site)
    for _ in range(20):
        for hooked in (0, 1):
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", "pass"], env={**os.environ, **(variables if hooked else {})}, check=True
            )
            best[hooked] = min(best[hooked], time.perf_counter() - start)
    return best[0], best[1]


if __name__ == "__main__":
    sys.exit(main())
