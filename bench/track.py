"""What ``holdfast.log`` costs a training loop, and whether kill -9 loses a value.

The yardstick is a bare 24-byte ``os.write`` to an O_APPEND file in the same loop. Both run in turn, many short rounds;
the best round of each counts, because slower rounds were disturbed by other work.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.metrics import reader

CALLS = 10_000
ROUNDS = 25
KILLS = 20
READ_POINTS = 1_000_000
GOAL = 0.5


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-track-") as folder:
        ratio = compare_with_a_bare_write(Path(folder))
        lost = count_values_lost_to_kills(Path(folder))
        time_reading(Path(folder))
    return 0 if ratio >= GOAL and lost == 0 else 1


def compare_with_a_bare_write(folder: Path) -> float:
    os.environ["HOLDFAST_METRICS_DIR"] = new_folder(folder, "speed")
    import holdfast  # the environment decides at import whether this is a run

    descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    data = bytes(24)
    loops: dict[str, Callable[[], None]] = {
        "bare 24-byte write": lambda: write_bare(descriptor, data),
        "log(name, float, step)": lambda: log_with_step(holdfast.log),
        "log(name, float)": lambda: log_without_step(holdfast.log),
    }
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            best[name] = min(best[name], seconds(loop) / CALLS)
    bare = best["bare 24-byte write"]
    for name, cost in best.items():
        print(f"{name:<24} {cost * 1e9:6.0f} ns   {bare / cost:.2f} of bare")
    p50, p99 = percentiles(lambda: holdfast.log("loss", 0.5, 1))
    print(f"{'one call of log':<24} p50 {p50} ns, p99 {p99} ns")
    return bare / best["log(name, float, step)"]


def write_bare(descriptor: int, data: bytes) -> None:
    write = os.write
    for _ in range(CALLS):
        write(descriptor, data)


def log_with_step(log: Callable[[str, object, int], None]) -> None:
    for step in range(CALLS):
        log("loss", 0.5, step)


def log_without_step(log: Callable[[str, object], None]) -> None:
    for _ in range(CALLS):
        log("accuracy", 0.5)


def percentiles(call: Callable[[], None]) -> tuple[int, int]:
    costs = []
    for _ in range(CALLS):
        start = time.perf_counter_ns()
        call()
        costs.append(time.perf_counter_ns() - start)
    costs.sort()
    return costs[CALLS // 2], costs[CALLS * 99 // 100]


VICTIM = """
import holdfast, os
for step in range(10**9):
    holdfast.log("loss", step / 2)
    os.write(1, b".")
"""


def count_values_lost_to_kills(folder: Path) -> int:
    """Kill a logging process at random moments and compare with what it had said was logged."""
    acknowledged = lost = 0
    for number in range(KILLS):
        place = new_folder(folder, f"kill-{number}")
        said = len(output_until_killed({**os.environ, "HOLDFAST_METRICS_DIR": place}))
        series = reader.read_dir(place).by_name.get("loss")
        kept = list(series.values) if series else []
        wrong = sum(value != step / 2 for step, value in enumerate(kept))
        acknowledged += said
        lost += max(0, said - len(kept)) + wrong
    print(f"{'kill -9, ' + str(KILLS) + ' times':<24} {acknowledged:,} values acknowledged, {lost} lost or wrong")
    return lost


def output_until_killed(environment: dict[str, str]) -> bytes:
    with subprocess.Popen([sys.executable, "-c", VICTIM], env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout
        said = child.stdout.read(random.randint(1, 50_000))
        child.send_signal(signal.SIGKILL)
        return said + child.stdout.read()


FILLER = f"""
import holdfast
for step in range({READ_POINTS // 4}):
    holdfast.log_many({{"loss": 0.5, "accuracy": step / 3, "rate": 1e-3, "norm": 2.5}})
"""


def time_reading(folder: Path) -> None:
    place = new_folder(folder, "read")
    subprocess.run([sys.executable, "-c", FILLER], env={**os.environ, "HOLDFAST_METRICS_DIR": place}, check=True)
    best = min(seconds(lambda: read_and_reduce(place)) for _ in range(5))
    print(f"{'read and reduce':<24} {READ_POINTS:,} values in {best * 1e3:.0f} ms")


def read_and_reduce(place: str) -> None:
    found = reader.read_dir(place)
    for series in found.by_name.values():
        reader.digest(series)


def seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def new_folder(parent: Path, name: str) -> str:
    (parent / name).mkdir()
    return str(parent / name)


if __name__ == "__main__":
    sys.exit(main())
