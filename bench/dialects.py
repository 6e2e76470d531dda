"""What it costs a script that its calls of MLflow, wandb and TensorBoard are recorded too.

Each library logs in a process of its own, in turn with and without the hook; the best of several rounds counts.
Measured is the processor time of the whole process, which other work on the machine and waiting for disks do not blur.
Libraries come from .tools, where a library that is missing is installed first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import libraries  # noqa: E402

ROUNDS = 3
GOAL = 1.1
LOOP = """
import sys, time
{prepare}
count = {count}
for step in range(count // 10):
    {call}
start = time.process_time()
for step in range(count):
    {call}
print((time.process_time() - start) / count)
sys.stdout.flush()
{finish}
"""
# name -> packages, what comes before the loop, the call, what comes after it, how many calls
CASES = {
    "mlflow, sqlite": (
        libraries.MLFLOW,
        "import mlflow; mlflow.set_tracking_uri('sqlite:///mlflow.db'); mlflow.start_run()",
        "mlflow.log_metric('loss', step / 3, step=step)",
        "mlflow.end_run()",
        200,
    ),
    "mlflow, folder": (
        libraries.MLFLOW,
        "import mlflow; mlflow.set_tracking_uri('file:mlruns'); mlflow.start_run()",
        "mlflow.log_metric('loss', step / 3, step=step)",
        "mlflow.end_run()",
        1000,
    ),
    "wandb, offline": (
        libraries.WANDB,
        "import wandb; run = wandb.init(mode='offline')",
        "run.log({'loss': step / 3})",
        "wandb.finish()",
        3000,
    ),
    "tensorboardX": (
        libraries.TENSORBOARDX,
        "from tensorboardX import SummaryWriter; writer = SummaryWriter('logs')",
        "writer.add_scalar('loss', step / 3, step)",
        "writer.close()",
        10000,
    ),
    "torch SummaryWriter": (
        libraries.TORCH,
        "from torch.utils.tensorboard import SummaryWriter; writer = SummaryWriter('logs')",
        "writer.add_scalar('loss', step / 3, step)",
        "writer.close()",
        10000,
    ),
}


def main() -> int:
    chosen = sys.argv[1:] or list(CASES)
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-dialects-") as folder:
        site = libraries.make_site(Path(folder) / "site")
        for name in chosen:
            alone, recorded = measure(name, Path(folder), site)
            print(
                f"{name:<22} alone {alone * 1e6:8.1f} µs   recorded {recorded * 1e6:8.1f} µs   {recorded / alone:.3f} x"
            )
            worst = max(worst, recorded / alone)
        bare, hooked = start_of_python(Path(folder), site)
        print(f"{'start of Python':<22} alone {bare * 1e3:8.1f} ms   with the hook {hooked * 1e3:5.1f} ms")
    return 0 if worst <= GOAL else 1


def measure(name: str, folder: Path, site: Path) -> tuple[float, float]:
    """Seconds for a logged value: the library alone, and with the hook."""
    packages, prepare, call, finish, count = CASES[name]
    python = libraries.interpreter(ROOT, packages)
    script = LOOP.format(prepare=prepare, call=call, finish=finish, count=count)
    best = [float("inf"), float("inf")]
    for number in range(ROUNDS):
        for hooked in (0, 1) if number % 2 else (1, 0):
            place = Path(tempfile.mkdtemp(dir=folder))
            variables = libraries.run_variables(place, site) if hooked else {}
            done = subprocess.run(
                [python, "-c", script],
                cwd=place,
                env={**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true", "WANDB_SILENT": "true", **variables},
                capture_output=True,
                text=True,
                check=True,
            )
            best[hooked] = min(best[hooked], float(done.stdout.split()[0]))
    return best[0], best[1]


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
