"""``make bench``: what Holdfast costs, as ratios against bare programs that do the same work in the same minutes.

Every round runs all candidates in turn, so that a busy machine is busy for all of them; the median of the rounds is
shown. Nothing here passes or fails by the clock.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
ROUNDS = 25


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        place = Path(scratch)
        start_up(place)
        submit(place)
    failed = 0
    for script in (
        "track.py",
        "snapshot.py",
        "history.py",
        "tables.py",
        "environment.py",
        "remote.py",
        "engines.py",
        "spark_jobs.py",
    ):
        print(f"\n{'=' * 20} {script}", flush=True)
        failed |= subprocess.run([sys.executable, str(BENCH / script)], check=False).returncode
    return failed


def start_up(place: Path) -> None:
    env = environment(place)
    times = interleave(
        {
            "python -c pass": lambda: total([BIN / "python", "-c", "pass"], place, env),
            "holdfast --version": lambda: total([BIN / "holdfast", "--version"], place, env),
        }
    )
    bare = statistics.median(times["python -c pass"])
    print(f"{'start-up':<34}{'ms':>8}{'x bare':>9}")
    for name, values in times.items():
        print(f"{name:<34}{statistics.median(values) * 1e3:>8.1f}{statistics.median(values) / bare:>9.2f}")


def submit(place: Path) -> None:
    """A trivial script in a folder of twenty files: to its first line, and until the command has returned."""
    project = place / "project"
    project.mkdir()
    for number in range(19):
        (project / f"file{number}.dat").write_bytes(os.urandom(2000))
    (project / "main.py").write_text("print('hello')\n")
    env = environment(place)
    command: list[str | Path] = [BIN / "holdfast", "submit", "-c", "local", "main.py"]
    subprocess.run(command, cwd=project, env=env, check=True, capture_output=True)
    candidates: dict[str, list[str | Path]] = {
        "python main.py": [BIN / "python", "main.py"],
        "floor: copy, hash, spawn, stream": [BIN / "python", BENCH / "floor.py", "main.py"],
        "holdfast submit -c local main.py": command,
    }
    first: dict[str, list[float]] = {name: [] for name in candidates}
    whole: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, argv in candidates.items():
            seen, ended = watched(argv, project, env)
            first[name].append(seen)
            whole[name].append(ended)
    heads = "".join(f"{head:>8}" for head in ("first", "+bare", "total", "+bare"))
    print(f"\n{'a trivial script, 20 files':<34}{heads}{'x bare':>9}   (ms, median)")
    base_first, base_whole = statistics.median(first["python main.py"]), statistics.median(whole["python main.py"])
    for name in candidates:
        one, all_ = statistics.median(first[name]), statistics.median(whole[name])
        figures = (one, one - base_first, all_, all_ - base_whole)
        print(f"{name:<34}" + "".join(f"{value * 1e3:>8.1f}" for value in figures) + f"{all_ / base_whole:>9.2f}")


def environment(place: Path) -> dict[str, str]:
    """No PYTHONDONTWRITEBYTECODE: an installed program has its bytecode beside it."""
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(place),
        "HOLDFAST_HOME": str(place / "store"),
        "LANG": "C.UTF-8",
    }


def interleave(candidates: dict[str, object]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(ROUNDS + 2):
        for name, measure in candidates.items():
            value = measure()  # type: ignore[operator]
            if number >= 2:
                times[name].append(value)
    return times


def total(argv: list[str | Path], folder: Path, env: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def watched(argv: list[str | Path], folder: Path, env: dict[str, str]) -> tuple[float, float]:
    """Seconds until ``hello`` is seen, and until the command has ended."""
    started = time.perf_counter()
    with subprocess.Popen(
        argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        assert process.stdout is not None
        said, seen = b"", 0.0
        while block := process.stdout.read(65536):
            said += block
            if not seen and b"hello" in said:
                seen = time.perf_counter() - started
    if process.returncode or not seen:
        raise SystemExit(f"{argv} failed: {said!r}")
    return seen, time.perf_counter() - started


if __name__ == "__main__":
    shutil.rmtree(BENCH.parent / ".bench", ignore_errors=True)
    sys.exit(main())
