"""What Holdfast says about a GPU, held against what the GPU says itself: writes docs/gpu-proof.md.

    make gpu-proof PYTHON=/path/to/python/with/torch

Runs as root on a machine with an NVIDIA GPU that is thrown away afterwards, for it sets up podman and an sshd on
loopback from .gpu/ (tools/gpu_proof/kit.sh fetches that, where something can be fetched). Takes about nine minutes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import kernel_proof

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
KIT = ROOT / ".gpu"
PLACE = Path("/tmp/holdfast-gpu-proof")
NOT_SHOWN = (
    "several GPUs in one machine (the queue is tested with four that are simulated at the level of NVIDIA's library)",
    "TensorFlow on a GPU",
    "docker's --gpus and its runtime nvidia (podman with CDI is shown)",
    "GPUs divided by MIG, and those of Windows, macOS (Metal) and AMD (ROCm)",
    "a real loss of a GPU, a real Xid, and a driver that really hangs (simulated at the level of NVIDIA's library)",
)


class Page:
    """docs/gpu-proof.md as it grows; what failed stays in it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failed: list[str] = []

    def add(self, *lines: str) -> None:
        for line in lines:
            self.lines.append(line.replace(f"{ROOT}/", ""))
            print(self.lines[-1], flush=True)

    def judge(self, what: str, holds: bool) -> None:
        self.add("", f"{'Holds' if holds else 'FAILS'}: {what}")
        if not holds:
            self.failed.append(what)

    def receipt(self, record: dict[str, Any]) -> None:
        self.add("", "<details><summary>the receipt</summary>", "", "```json")
        self.add(json.dumps(record["gpu"], indent=1), "```", "", "</details>")


class Desk:
    def __init__(self) -> None:
        shutil.rmtree(PLACE, ignore_errors=True)
        self.project = PLACE / "project"
        self.project.mkdir(parents=True)
        for script in (HERE / "project").glob("*.py"):
            shutil.copy(script, self.project)
        self.env = {
            **os.environ,
            "HOLDFAST_HOME": str(PLACE / "store"),
            "PYTHONPATH": f"{ROOT / 'src'}:{KIT / 'site'}",
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:{os.environ['PATH']}",
            "USER": os.environ.get("USER", "root"),
        }
        self._write("local.compute", "type: local\nuserManagedEnvironment: true\n")
        self._write("local.runconfig", "Framework: Python\nTarget: local\n")
        self._write("short.runconfig", "Framework: Python\nTarget: local\nrequireGpu: true\ngpuGrace: 5s\ngpus: 1\n")

    def holdfast(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.holdfast("history", "info", "-r", "last", "-o", "json")[1])
        return found

    def span(self, record: dict[str, Any]) -> tuple[float, float]:
        """From the start of the watching to the last count, by the clock of this machine."""
        lines = (PLACE / "store" / "runs" / record["uid"] / "a1" / "events.jsonl").read_text().splitlines()
        events = {event["type"]: event["wall_ns"] / 1e9 for event in map(json.loads, lines)}
        return events["started"], events["gpu_receipt"]

    def _write(self, name: str, text: str) -> None:
        path = self.project / "aml_config" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def local(page: Page, desk: Desk) -> None:
    page.add("", "## (a) MNIST in PyTorch, on this machine", "")
    words = ("submit", "-c", "local", "--gpus", "1", "--require-gpu", "mnist.py", str(KIT / "mnist"), "6")
    code, said = desk.holdfast(*words)
    page.add("```", f"$ holdfast {' '.join(words)}", said.rstrip(), "```")
    record = desk.record()
    accuracy = max(record.get("accuracy") or [0])
    on_gpu = min(record["epoch_s"])
    page.judge(
        f"{accuracy:.2%} of the unseen digits right (99 % asked for), exit code {code}", code == 0 and accuracy >= 0.99
    )
    page.judge(
        f"the receipt says: {record['gpu']['verdict']}; {record['gpu']['evidence']}", record["gpu"]["verdict"] == "used"
    )
    page.receipt(record)
    desk.holdfast("submit", "-c", "local", "--gpus", "0", "mnist.py", str(KIT / "mnist"), "1")
    slow = desk.record()
    cpu = slow["epoch_s"]
    page.add("", f"The same script without a GPU (`--gpus 0`): {cpu:.1f} s an epoch on {os.cpu_count()} cores against")
    page.add(f"{on_gpu:.2f} s, {cpu / on_gpu:.1f} times as long; receipt: {slow['gpu']['verdict']}.")
    page.judge("without a GPU the receipt says absent", slow["gpu"]["verdict"] == "absent")


def in_container(page: Page, desk: Desk) -> None:
    page.add("", "## (b) Through ssh into a container", "")
    made = subprocess.run(["sh", str(HERE / "box.sh"), str(KIT / "debs")], stdout=subprocess.PIPE, check=True)
    key = made.stdout.decode().split()[-1]
    words = ["computetarget", "attach", "remotedocker", "--name", "box", "--address", "127.0.0.1", "--port", "2222"]
    words += ["--username", "root", "--accept-host-key", key]
    code, said = desk.holdfast(*words)
    page.add("```", f"$ holdfast {' '.join(words)}", said.rstrip(), "```")
    page.judge(f"attach ends with {code}", code == 0)
    compute = desk.project / "aml_config" / "box.compute"
    kept = [
        line
        for line in compute.read_text().splitlines()
        if not line.startswith(("baseDockerImage", "nvidiaDocker", "environment", "engine"))
    ]
    more = ["baseDockerImage: rootfs:/", "engine: podman", "nvidiaDocker: true", "network: host"]
    more += [f"pythonLocation: {sys.executable}", "userManagedEnvironment: true"]
    more += ['dockerArguments: ["--cgroups=disabled", "--ulimit", "host"]', f"root: {PLACE}/box"]
    compute.write_text("\n".join([*kept, *more, ""]))
    (desk.project / "aml_config" / "box.runconfig").write_text("Framework: Python\nTarget: box\n")
    desk.holdfast("trust", "box")
    page.add(
        "",
        "box.compute, as this machine without cgroups and without a registry needs it (its own root is the image):",
        "",
    )
    page.add("```yaml", compute.read_text().rstrip(), "```", "")
    code, said = desk.holdfast("computetarget", "test", "box")
    page.add("```", "$ holdfast computetarget test box", said.rstrip(), "```")
    page.judge(f"the test ends with {code}", code == 0)
    words = ["submit", "-c", "box", "--gpus", "1", "--require-gpu", "mnist.py", str(KIT / "mnist"), "2"]
    code, said = desk.holdfast(*words)
    page.add("", "```", f"$ holdfast {' '.join(words)}", said.rstrip(), "```")
    record = desk.record()
    page.judge(
        f"the run ends with {code}, the receipt says: {record['gpu']['verdict']}",
        code == 0 and record["gpu"]["verdict"] == "used",
    )
    page.receipt(record)


def idle(page: Page, desk: Desk) -> None:
    page.add("", "## (c) A script that never touches its GPU", "")
    began = time.monotonic()
    code, said = desk.holdfast("submit", "-c", "short", "on_cpu.py")
    took = time.monotonic() - began
    page.add("```", "$ holdfast submit -c short on_cpu.py      # requireGpu: true, gpuGrace: 5s", said.rstrip(), "```")
    page.judge(f"ended after {took:.1f} s with exit code {code} (79 is gpu-idle)", code == 79 and took < 30)
    page.receipt(desk.record())


def held(page: Page, desk: Desk) -> None:
    page.add("", "## (f) A script that holds a GPU, and one that leaves it unused", "")
    code, output = desk.holdfast("submit", "-c", "local", "--gpus", "1", "holds.py")
    page.add("```", "$ holdfast submit -c local --gpus 1 holds.py      # takes 2 GB and computes nothing")
    page.add(output.rstrip(), "```")
    record = desk.record()
    page.judge(f"exit code {code}, the receipt says: {record['gpu']['verdict']}", record["gpu"]["verdict"] == "held")
    page.receipt(record)
    code, output = desk.holdfast("submit", "-c", "local", "unused.py")
    page.add(
        "", "```", "$ holdfast submit -c local unused.py      # imports torch, asks for no GPU", output.rstrip(), "```"
    )
    hints = [line for line in output.splitlines() if line.startswith("GPU not used:")]
    page.judge(f"exit code {code}, one line says that the GPU was not used", code == 0 and len(hints) == 1)


def picture(page: Page, desk: Desk) -> None:
    """The picture of the README; needs the machine that part b sets up."""
    wrapper = PLACE / "bin" / "holdfast"
    wrapper.parent.mkdir()
    python_path = desk.env["PYTHONPATH"]
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={python_path} exec {sys.executable} -m holdfast "$@"\n')
    wrapper.chmod(0o755)
    env = {**os.environ, "PATH": f"{wrapper.parent}:/usr/local/bin:{os.environ['PATH']}"}
    argv = [sys.executable, str(HERE.parent / "transcript.py"), "--gpu", str(ROOT / "docs" / "gpu-run.svg")]
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    page.add("", "## (g) The picture of the README", "", f"[gpu-run.svg](gpu-run.svg){done.stdout.decode()}")
    page.judge("all commands of the picture end with 0", done.returncode == 0)


def kernel(page: Page, desk: Desk) -> None:
    page.add("", "## (h) A Jupyter kernel that holds a GPU by the queue", "")
    page.add(
        "`holdfast kernel install -c local --gpus 1`; `jupyter_client` starts the kernel, runs a cell with torch on"
    )
    page.add("CUDA and shuts it down. Meanwhile a second run asks for the same GPU.", "")
    argv = [_notebook_python(desk), str(HERE / "kernel_proof.py"), str(desk.project)]
    done = subprocess.run(argv, cwd=desk.project, env=desk.env, capture_output=True, check=False)
    if done.returncode:
        page.judge(f"kernel_proof.py ended with {done.returncode}: {done.stderr.decode()[-2000:]}", False)
        return
    findings = json.loads(done.stdout)
    page.add("```", findings["cell"]["text"].rstrip(), "```")
    for what, holds in kernel_proof.verdicts(findings):
        page.judge(what, holds)
    receipt = findings["kernel"]["receipt"] or {}
    page.judge(f"the receipt of the kernel says: {receipt.get('verdict')}", receipt.get("verdict") == "used")
    page.receipt({"gpu": receipt})


def _notebook_python(desk: Desk) -> str:
    """An interpreter that has what this one has, and ipykernel with Jupyter's client of the kit."""
    folder = PLACE / "notebook"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for wheel in (KIT / "notebook").glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(packages)
    known = [entry for entry in sys.path if "-packages" in entry]
    (packages / "proof.pth").write_text("\n".join([*desk.env["PYTHONPATH"].split(":"), *known]))
    return str(folder / "bin" / "python")


def measures(page: Page, desk: Desk) -> None:
    page.add("", "## (d) Busy time, energy and memory against other clocks", "")
    page.add("Busy: CUDA's own events in the script. Energy: power, integrated 20 times a second by this tool. Memory:")
    page.add("`mem_get_info` in the script, which counts the context too.", "")
    titles = ("share", "period", "busy, events", "receipt", "off", "energy, integrated", "receipt", "off")
    page.add(f"| {' | '.join((*titles, 'memory, CUDA', 'receipt', 'off'))} |", "|" + " ---: |" * 11)
    wrong: list[str] = []
    for share, period in ((1.0, 0.1), (0.6, 0.1), (0.6, 1.0), (0.3, 0.1), (0.3, 0.5), (0.1, 0.1), (0.1, 1.0)):
        with Power() as power:
            code, said = desk.holdfast("submit", "-c", "local", "--gpus", "1", "duty.py", str(share), str(period), "20")
        if code:
            page.judge(f"duty.py ended with {code}: {said}", False)
            return
        record = desk.record()
        card = record["gpu"]["gpus"][0]
        limit = 0.05 if share >= 0.3 else 0.15
        pairs = (
            ("busy", record["busy_s"], card["busy_s"], limit, "s", 1),
            ("energy", power.between(*desk.span(record)), card["energy_j"], 0.05, "J", 1),
            ("memory", record["memory"], card["memory_peak"], 0.02, "MB", 1e6),
        )
        cells = [f"{share:.0%}", f"{period} s"]
        for what, theirs, ours, most, unit, scale in pairs:
            off = ours / theirs - 1
            cells += [f"{theirs / scale:.4g} {unit}", f"{ours / scale:.4g} {unit}", f"{off:+.1%}"]
            if abs(off) > most:
                wrong.append(f"{what} at {share:.0%} every {period} s: {off:+.1%}")
        page.add(f"| {' | '.join(cells)} |")
    words = "busy within 5 % at 30 % and more, 15 % below; energy within 5 %; memory within 2 %"
    page.judge("; ".join([words, *wrong]), not wrong)
    page.receipt(record)


class Power:
    """Watts over time, by a reader that is not Holdfast's."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Power:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._reader.join()

    def between(self, start: float, end: float) -> float:
        """Joules."""
        pairs = itertools.pairwise(self._seen)
        return sum(a[1] * max(0.0, min(b[0], end) - max(a[0], start)) for a, b in pairs)

    def _read(self) -> None:
        sys.path.insert(0, str(KIT / "site"))
        import pynvml  # type: ignore[import-untyped, unused-ignore]

        pynvml.nvmlInit()
        card = pynvml.nvmlDeviceGetHandleByIndex(0)
        while not self._over.wait(0.05):
            self._seen.append((time.time(), pynvml.nvmlDeviceGetPowerUsage(card) / 1000))


def cost(page: Page, desk: Desk, pairs: int) -> None:
    page.add("", "## (e) What the watching costs", "")
    plain, watched = PLACE / "plain", PLACE / "watched"
    receipts = []
    for _ in range(pairs):
        subprocess.run([sys.executable, "steady.py", str(plain), "400"], cwd=desk.project, env=desk.env, check=True)
        code, said = desk.holdfast("submit", "-c", "local", "--gpus", "1", "steady.py", str(watched), "400")
        if code:
            page.judge(f"steady.py ended with {code}: {said}", False)
            return
        receipts.append(desk.record()["gpu"])
    without, with_it = ([float(line) for line in path.read_text().split()] for path in (plain, watched))
    ratios = [b / a - 1 for a, b in zip(without, with_it, strict=True)]
    mean, spread = statistics.mean(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios))
    upper = mean + _STUDENT[len(ratios)] * spread
    page.add(f"{pairs} pairs in turn, bare `python steady.py` and the same under Holdfast; 4,000 products of", "")
    page.lines[-2] += " 4096 x 4096, in steps of ten:"
    page.add("| pair | bare | watched | more |", "| ---: | ---: | ---: | ---: |")
    for number, (bare, under) in enumerate(zip(without, with_it, strict=True), 1):
        page.add(f"| {number} | {bare:.4f} s | {under:.4f} s | {under / bare - 1:+.3%} |")
    shares = [receipt["cost_s"] / receipt["seconds"] for receipt in receipts]
    cores = sum(receipt["cost_s"] for receipt in receipts) / sum(receipt["seconds"] for receipt in receipts)
    rate = min(receipt["samples"] / receipt["seconds"] for receipt in receipts)
    page.add("", f"Mean {mean:+.3%}, upper 95 % bound {upper:+.3%}. The watching itself takes {cores:.2%} of one")
    page.add(f"core ({max(shares):.2%} in the run with the most), at {rate:.1f} looks a second.")
    holds = upper <= 0.01 and cores < 0.01 and rate >= 10
    page.judge("the upper 95 % bound is at most 1 %, under 1 % of a core, ten looks a second", holds)


# Upper 95 % point of Student's t by number of pairs.
_STUDENT = {3: 2.920, 4: 2.353, 5: 2.132, 6: 2.015, 8: 1.895, 10: 1.833, 12: 1.796, 20: 1.729}
PARTS = {"a": local, "b": in_container, "c": idle, "d": measures, "f": held, "g": picture, "h": kernel}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="abcdefgh")
    parser.add_argument("--pairs", type=int, default=10, choices=sorted(_STUDENT))
    parser.add_argument("--to", default=str(ROOT / "docs" / "gpu-proof.md"))
    asked = parser.parse_args()
    page, desk = Page(), Desk()
    facts = json.loads(desk.holdfast("gpu", "-c", "local", "-o", "json")[1])
    card = facts["gpus"][0]
    torch = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE, check=True
    )
    page.add("# GPU receipts compared with the GPU", "")
    page.add("What Holdfast reports about a GPU, compared with the GPU's own counters by `make gpu-proof`. Written by")
    page.add("`tools/gpu_proof/prove.py`; nothing here is written by hand.", "")
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    page.add(f"- {when}, {card['name']}, driver {facts['driver']}, CUDA {facts['cuda']},")
    page.add(f"  PyTorch {torch.stdout.decode().strip()}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    page.add("- Not shown: " + ";\n  ".join(NOT_SHOWN) + ".")
    for name, part in PARTS.items():
        if name in asked.parts:
            part(page, desk)
    if "e" in asked.parts:
        cost(page, desk, asked.pairs)
    if page.failed:
        page.add("", "## What failed", "", *(f"- {what}" for what in page.failed))
    Path(asked.to).write_text("\n".join([*page.lines, ""]))
    return 1 if page.failed else 0


if __name__ == "__main__":
    sys.exit(main())
