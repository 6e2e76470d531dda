"""A Jupyter kernel that holds a GPU by the queue: started, used and ended by Jupyter's own client.

    python tools/gpu_proof/kernel_proof.py PROJECT [CELL]

Runs in an interpreter with ipykernel, jupyter_client and what Holdfast needs, as ``prove.py`` makes one; its variables
HOLDFAST_HOME and PYTHONPATH say which Holdfast and which store. CELL is a file with what the first cell executes;
without it, the cell computes with torch on CUDA for some seconds. Prints a JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KERNEL = "holdfast-gpu-proof"
START_S = 180.0  # for the kernel and for a cell, the first import of torch included
END_S = 120.0
CELL = """
import time, torch
device = torch.device("cuda:0")
numbers, count, began = torch.randn(4096, 4096, device=device), 0, time.time()
while time.time() - began < 8:
    numbers = torch.nn.functional.normalize(numbers @ numbers)
    torch.cuda.synchronize()
    count += 1
print(torch.cuda.get_device_name(device), "visible:", torch.cuda.device_count(), "products:", count)
"""
SECOND = "print('the second run has the GPU')\n"


class Session:
    """The command line and the kernel of one project."""

    def __init__(self, project: Path, data: str) -> None:
        self._project = project
        self._env = {**os.environ, "JUPYTER_DATA_DIR": data}
        os.environ["JUPYTER_DATA_DIR"] = data  # where Jupyter's client, in this process, looks for kernels

    def holdfast(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            cwd=self._project,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"holdfast {' '.join(words)} ended with {done.returncode}: {done.stderr.decode()}")
        return done.stdout.decode()

    def record(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.holdfast("history", "info", "-r", run, "-o", "json"))
        return found

    def queue(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.holdfast("gpu", "-c", "local", "-o", "json"))["queue"]
        return rows

    def wait_for_end(self, run: str) -> dict[str, Any]:
        deadline = time.monotonic() + END_S
        while True:
            record = self.record(run)
            if record["end_time_utc"] is not None or time.monotonic() > deadline:
                return record
            time.sleep(0.5)


def prove(project: Path, cell: str) -> dict[str, Any]:
    """``cell``: what the kernel executes while it holds the GPU."""
    from jupyter_client.manager import KernelManager  # type: ignore[import-not-found, unused-ignore]

    with tempfile.TemporaryDirectory(prefix="holdfast-jupyter-") as data:
        session = Session(project, data)
        words = ("kernel", "install", "-c", "local", "--gpus", "1", "--python", sys.executable, "--name", KERNEL)
        session.holdfast(*words)
        manager = KernelManager(kernel_name=KERNEL)
        manager.start_kernel(cwd=str(project))
        try:
            client = manager.client()
            client.start_channels()
            client.wait_for_ready(timeout=START_S)
            findings = _while_it_lives(session, client, cell)
            client.stop_channels()
        finally:
            manager.shutdown_kernel(now=False)
        kernel = session.wait_for_end(findings["kernel"]["run_id"])
        second = session.wait_for_end(findings["second"]["run_id"])
        findings["kernel"].update(status=kernel["status"], receipt=kernel.get("gpu"))
        findings["second"].update(status=second["status"])
        findings["queue_afterwards"] = session.queue()
        return findings


def _while_it_lives(session: Session, client: Any, cell: str) -> dict[str, Any]:
    texts: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        texts.append(content.get("text") or "\n".join(content.get("traceback") or ()))

    reply = client.execute_interactive(cell, timeout=START_S, output_hook=hear)
    kernel = session.record("last")
    holding = session.queue()
    script = session._project / "second.py"
    script.write_text(SECOND)
    session.holdfast("submit", "-c", "local", "--gpus", "1", "--no-wait", script.name)
    second = session.record("last")
    return {
        "cell": {"status": reply["content"]["status"], "text": "".join(texts)},
        "kernel": {"run_id": kernel["run_id"], "status_alive": kernel["status"]},
        "queue": holding,
        "second": {"run_id": second["run_id"]},
        "queue_with_second": _await_waiting(session, second["run_id"]),
    }


def _await_waiting(session: Session, run_id: str) -> list[dict[str, Any]]:
    """The queue, once the second run is in it."""
    deadline = time.monotonic() + END_S
    while True:
        queue = session.queue()
        if any(ticket["run_id"] == run_id for ticket in queue) or time.monotonic() > deadline:
            return queue
        time.sleep(0.2)


def verdicts(findings: dict[str, Any]) -> list[tuple[str, bool]]:
    """What has to hold, with what was found; the receipt itself is judged by the caller."""
    kernel, second = findings["kernel"], findings["second"]
    held = [ticket for ticket in findings["queue"] if ticket["run_id"] == kernel["run_id"] and ticket["taken"]]
    waiting = [ticket for ticket in findings["queue_with_second"] if ticket["taken"] is None]
    is_waiting = [ticket["run_id"] for ticket in waiting] == [second["run_id"]]
    return [
        (f"the cell on the GPU ends with {findings['cell']['status']}", findings["cell"]["status"] == "ok"),
        (f"while the kernel is {kernel['status_alive']}, its run holds one GPU of the queue", len(held) == 1),
        ("a second run that asks for the GPU waits for it", is_waiting),
        (f"shut down by Jupyter, the kernel's run is {kernel['status']}", kernel["status"] == "Completed"),
        (f"the second run then has the GPU and is {second['status']}", second["status"] == "Completed"),
        ("the queue is empty afterwards", not findings["queue_afterwards"]),
    ]


if __name__ == "__main__":
    print(json.dumps(prove(Path(sys.argv[1]), Path(sys.argv[2]).read_text() if sys.argv[2:] else CELL)))
