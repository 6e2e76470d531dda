"""One value logged per call, by Holdfast and by its peers in environments of their own: values a second, and one call.

Every round runs all of them in turn, each in a process of its own for as long as ``--seconds``; the median of the
rounds is shown. What a peer does behind the call (threads, a server) is its own affair: the clock runs until it says
that all is kept. Peers are installed into .tools/peers on first use; one that cannot be is named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools" / "peers"
BIN = Path(sys.executable).parent
ROUNDS = 3

# Each: what to install, and a program with `log(step)` and `end()`; the common part measures.
PEERS: dict[str, tuple[str, str]] = {
    "bare write": (
        "",
        """
fd = os.open("bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def log(step): os.write(fd, bytes(24))
def end(): os.fsync(fd)
""",
    ),
    "csv": (
        "",
        """
file = open("values.csv", "w", buffering=1)
def log(step): file.write("loss,%d,%r\\n" % (step, 0.5))
def end(): os.fsync(file.fileno())
""",
    ),
    "holdfast": (
        "",
        f"""
os.makedirs("metrics")
os.environ["HOLDFAST_METRICS_DIR"] = os.path.abspath("metrics")
sys.path.insert(0, {str(ROOT / "src")!r})
import holdfast
def log(step): holdfast.log("loss", 0.5, step)
def end(): os.sync()
""",
    ),
    "trackio": (
        "trackio==0.43.0",
        """
os.environ["TRACKIO_DIR"] = os.path.abspath("trackio")
import trackio
run = trackio.init(project="bench")
def log(step): trackio.log({"loss": 0.5}, step=step)
def end(): trackio.finish()
""",
    ),
    "tensorboard": (
        "tensorboardx==2.6.5",
        """
from tensorboardX import SummaryWriter
writer = SummaryWriter("tb")
def log(step): writer.add_scalar("loss", 0.5, step)
def end(): writer.close()
""",
    ),
    "aim": (
        "aim==3.29.1",
        """
import aim
run = aim.Run(repo=".", log_system_params=False, capture_terminal_logs=False)
def log(step): run.track(0.5, name="loss", step=step)
def end(): run.close()
""",
    ),
    "wandb offline": (
        "wandb==0.31.0",
        """
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_CONSOLE="off")
import wandb
run = wandb.init(project="bench", dir=".")
def log(step): run.log({"loss": 0.5}, step=step)
def end(): run.finish()
""",
    ),
    "mlflow file": (
        "mlflow-skinny==3.17.2",
        """
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
mlflow.set_tracking_uri("file://" + os.path.abspath("mlruns"))
mlflow.start_run()
def log(step): mlflow.log_metric("loss", 0.5, step=step)
def end(): mlflow.end_run()
""",
    ),
    "mlflow sqlite": (
        "mlflow==3.17.2",
        """
import mlflow
mlflow.set_tracking_uri("sqlite:///" + os.path.abspath("mlflow.db"))
mlflow.start_run()
def log(step): mlflow.log_metric("loss", 0.5, step=step)
def end(): mlflow.end_run()
""",
    ),
}
_MEASURE = """
import json, resource, time
calls, step = [], 0
now = time.perf_counter_ns
began = now()
while now() - began < seconds * 1e9:
    for _ in range(20):
        start = now()
        log(step)
        calls.append(now() - start)
        step += 1
end()
took = (now() - began) / 1e9
calls.sort()
with open("answer.json", "w") as target:
    json.dump({"rate": step / took, "p50": calls[len(calls) // 2], "p99": calls[len(calls) * 99 // 100],
               "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}, target)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", help="names, comma between")
    asked = parser.parse_args()
    names = [name for name in PEERS if not asked.only or name in asked.only.split(",")]
    pythons = {name: python for name in names if (python := interpreter(PEERS[name][0])) is not None}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    for _ in range(asked.rounds):
        for name, python in pythons.items():
            answer = measure(name, python, asked.seconds)
            if answer is not None:
                found[name].append(answer)
    bare = statistics.median(row["rate"] for row in found["bare write"]) if found.get("bare write") else 0.0
    print(f"{'one value a call':<18}{'values/s':>12}{'of bare':>9}{'p50 us':>10}{'p99 us':>10}{'MB':>7}")
    for name, rows in found.items():
        if rows:
            rate, p50, p99, size = (statistics.median(row[key] for row in rows) for key in ("rate", "p50", "p99", "mb"))
            share = f"{rate / bare:>9.3f}" if bare else f"{'':>9}"
            print(f"{name:<18}{rate:>12,.0f}{share}{p50 / 1e3:>10.1f}{p99 / 1e3:>10.1f}{size:>7.0f}")
    return 0


def interpreter(packages: str) -> Path | None:
    """The Python of an environment with these packages; it is installed on first use."""
    if not packages:
        return BIN / "python"
    place = TOOLS / packages.replace("==", "-")
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        print(f"installing {packages} ...", file=sys.stderr, flush=True)
        steps = (
            [str(BIN / "uv"), "venv", "-q", "--clear", str(place)],
            [str(BIN / "uv"), "pip", "install", "-q", "--python", str(python), *packages.split()],
        )
        for step in steps:
            done = subprocess.run(step, check=False, capture_output=True, text=True)
            if done.returncode:
                print(f"{packages}: cannot be installed here: {done.stderr.strip()[-300:]}", flush=True)
                return None
        (place / "ready").touch()
    return python


def measure(name: str, python: Path, seconds: float) -> dict[str, float] | None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-peers-") as folder:
        text = f"import os, sys\nseconds = {seconds}\n{PEERS[name][1]}{_MEASURE}"
        env = {**os.environ, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [str(python), "-c", text], cwd=folder, env=env, check=False, capture_output=True, text=True
        )
        try:
            answer: dict[str, float] = json.loads((Path(folder) / "answer.json").read_text())
        except FileNotFoundError:
            print(f"{name}: failed: {done.stderr.strip()[-400:]}", flush=True)
            return None
        return answer


if __name__ == "__main__":
    sys.exit(main())
