"""Run directories with GPUs in them, written by hand: what a runner on a machine with cards would have left."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import time
from typing import TYPE_CHECKING, Any

from holdfast.runner.store import run_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from conftest import Desk

NOBODY = 4_194_999  # above what Linux gives out
WISH: dict[str, Any] = {
    "count": 1,
    "memory": None,
    "name": None,
    "shared": False,
    "wait_s": None,
    "wait_text": "",
    "require": False,
    "grace_s": 600.0,
    "grace_text": "10m",
}
CARD: dict[str, Any] = {
    "index": 0,
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "pci": "0000:3b:00.0",
    "major": 9,
    "minor": 0,
    "memory_clock_mhz": 3201,
    "core_clock_mhz": 1980,
    "memory_total": 150_754_820_096,
    "memory_free": 150_109_093_888,
    "trouble": "",
}
FIVE_LINES = """name: NVIDIA H200
major: 9 minor: 0 memoryClockRate (GHz) 3.2010
pciBusID 0000:3b:00.0
Total memory: 140.40GiB
Free memory: 139.80GiB
"""
USE: dict[str, Any] = {
    "uuid": "GPU-1",
    "index": 0,
    "name": "NVIDIA H200",
    "given": True,
    "used": True,
    "context_after_s": 1.5,
    "lost_after_s": None,
    "busy_s": 41.0,
    "mean_percent": 78.7,
    "peak_percent": 100,
    "memory_total": 150_754_820_096,
    "memory_peak": 12_300_000_000,
    "energy_j": 32_760.0,
    "energy_by": "counter",
    "power_mean_w": 630.0,
    "celsius_peak": 61,
    "throttled_s": {"power": 3.2},
    "xids": [],
    "ecc": {"corrected": 0, "uncorrected": 0},
    "strangers": [],
    "processes": [{"pid": 4711, "program": "python", "memory_peak": 12_300_000_000, "from_s": 1.5, "to_s": 52.0}],
}


def receipt(verdict: str = "used", evidence: str = "", cards: Sequence[dict[str, Any]] = (USE,)) -> dict[str, Any]:
    return {
        "v": 1,
        "verdict": verdict,
        "evidence": evidence or "GPU 0: pid 4711 opened it after 1.5 s; it was busy for 41.0 s",
        "source": "nvml",
        "driver": "550.54.14",
        "cuda": "12.4",
        "seconds": 52.1,
        "samples": 521,
        "cost_s": 0.05,
        "lost_after_s": None,
        "cpu_percent": 12.5,
        "cores": 16,
        "gpus": list(cards),
    }


class HandRun:
    """A run of the desk's project whose attempt is ours to write."""

    def __init__(self, desk: Desk, plan: dict[str, Any] | None = WISH) -> None:
        desk.script("")
        assert desk.submit("train.py").code == 0
        self.attempt = desk.attempt()
        self.record = desk.record()
        kept = json.loads((self.attempt / "plan.json").read_text())
        shutil.rmtree(self.attempt)
        self.attempt.mkdir()
        client = self.attempt.parent / "client.jsonl"  # its ledger says that the run has ended
        client.write_text("".join(line for line in client.read_text().splitlines(True) if '"ledger"' not in line))
        (self.attempt / "plan.json").write_text(json.dumps({**kept, "gpu": plan}))
        for file in desk.home.glob("index.sqlite*"):
            file.unlink()
        self._events = run_files.Events(os.fsencode(self.attempt))
        self._alive = os.open(self.attempt / "alive", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        nobody = dict.fromkeys(("pid", "pgid", "guardian"), NOBODY)
        self.add("accepted", host="lab1", start_time=1, runner="", python="3.11.0", **nobody)

    def add(self, kind: str, **fields: Any) -> None:
        self._events.add(kind, **fields)

    def log(self, text: str) -> None:
        with open(self.attempt / "log", "ab") as target:
            target.write(text.encode())

    def end(self, *, outcome: str = "completed", code: int = 0, reason: str = "", **receipt: Any) -> None:
        self.add("exited", code=code, usage={})
        (self.attempt / "outputs.jsonl").touch()
        if receipt:
            self.add("gpu_receipt", **receipt)
        self.add("closed", outcome=outcome, exit_code=code, reason=reason, files={}, begun={})
        os.close(self._alive)


def write_series(folder: Path, series: Mapping[str, Sequence[float]], every_s: float = 1.0) -> None:
    """Samples in the format of docs/formats.md, one at a time for each name, beginning now."""
    folder.mkdir(exist_ok=True)
    start = time.time_ns()
    lines, offsets, body = b"", {}, b""
    for name in series:
        offsets[name] = len(lines)
        lines += json.dumps({"name": name}).encode() + b"\n"
    longest = max(map(len, series.values()))
    for step in range(longest):
        for name, values in series.items():
            if step < len(values):
                body += struct.pack("<QqQd", offsets[name], step, start + int(step * every_s * 1e9), values[step])
    header = struct.pack("<8sIIQQQ24x", b"hfmetric", 1, 32, 1, 1, start)
    (folder / "1-0.jsonl").write_bytes(lines)
    (folder / "1-0.m").write_bytes(header + body)
