"""Many runs as a data frame: ``holdfast.runs().to_pandas()`` against ``mlflow.search_runs``, plain SQLite beside each.

    python bench/tables.py [--full] [--runs N] [--peer-runs N] [--rounds N] [--keep DIR]

The runs are those of ``bench/history.py``: 20 parameters and 20 metrics of 10 points each; MLflow has the same in a
SQLite file of its own form. 10,000 runs on both sides; with ``--full`` 100,000 of ours. Every round measures all
candidates in turn, each in a new process after its imports, all by the same interpreter.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import history  # noqa: E402

import libraries  # noqa: E402

FILL = f"""
import random, sqlite3, sys, uuid, mlflow
path, count = sys.argv[1], int(sys.argv[2])
mlflow.set_tracking_uri("sqlite:///" + path)
with mlflow.start_run() as first:  # makes the tables, and a run from which the others are copied
    pass
chance = random.Random(1)
db = sqlite3.connect(path)
db.row_factory = sqlite3.Row
row = dict(db.execute("SELECT * FROM runs").fetchone())
tags = [(tag["key"], tag["value"]) for tag in db.execute("SELECT * FROM tags")]
ids = [uuid.UUID(int=chance.getrandbits(128)).hex for _ in range(count - 1)]
rows = [dict(row, run_uuid=name, start_time=row["start_time"] + n, name="run-%d" % n) for n, name in enumerate(ids)]
db.executemany("INSERT INTO runs (%s) VALUES (%s)" % (", ".join(row), ", ".join(":" + key for key in row)), rows)
ids.append(first.info.run_id)
db.executemany("INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)",
    [(key, value, name) for name in ids[:-1] for key, value in tags])
db.executemany("INSERT INTO params (key, value, run_uuid) VALUES (?, ?, ?)",
    [("param%d" % n, "%.6f" % chance.random(), name) for name in ids for n in range({history.PARAMETERS})])
columns = "(key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, 0, ?)"
for name in ids:
    values = [("metric%d" % n, chance.random(), 1700000000000 + step, step, name)
        for n in range({history.METRICS}) for step in range({history.POINTS})]
    db.executemany("INSERT INTO metrics " + columns, values)
    db.executemany("INSERT INTO latest_metrics " + columns, values[{history.POINTS} - 1 :: {history.POINTS}])
db.commit()
"""
MEASURE = """
import time
{prepare}
process, clock = time.process_time(), time.perf_counter()
result = {call}
print(time.perf_counter() - clock, time.process_time() - process, len(result), flush=True)
"""
RAW = """
import sqlite3, sys
db = sqlite3.connect({path!r})
def read():
    return [db.execute("SELECT * FROM " + table).fetchall() for table in {tables!r}][0]
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--peer-runs", type=int, default=10_000)
    parser.add_argument("--full", action="store_true", help="100,000 runs of ours")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder for the stores, used again if they are there")
    options = parser.parse_args()
    count = 100_000 if options.full else options.runs
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-tables-") as scratch:
        place = (options.keep or Path(scratch)).absolute()
        place.mkdir(parents=True, exist_ok=True)
        home = history.store(place, count)
        python = libraries.interpreter(ROOT, libraries.MLFLOW)
        env = {**os.environ, "HOLDFAST_HOME": home.path, "PYTHONPATH": str(ROOT / "src"), "HOME": str(place)}
        env["MLFLOW_DISABLE_TELEMETRY"] = "true"
        peer = place / f"mlflow-{options.peer_runs}.db"
        if not peer.exists():
            making = place / "mlflow.making"
            making.unlink(missing_ok=True)
            subprocess.run([python, "-c", FILL, making, str(options.peer_runs)], cwd=place, env=env, check=True)
            making.rename(peer)
        programs = candidates(home.index_file, str(peer), options.peer_runs)
        call(python, programs["holdfast.runs().to_pandas()"], place, env)  # makes the index
        measure(python, programs, options.rounds, place, env)
    return 0


def candidates(index: str, peer: str, peer_runs: int) -> dict[str, str]:
    imports = f"import mlflow, pandas; mlflow.set_tracking_uri('sqlite:///{peer}'); mlflow.get_experiment('0')"
    ours = {"path": index, "tables": ["runs", "vals"]}
    theirs = {"path": peer, "tables": ["runs", "params", "latest_metrics", "tags"]}
    search = f"mlflow.search_runs(['0'], max_results={peer_runs})"
    return {
        "holdfast.runs().to_pandas()": MEASURE.format(
            prepare="import holdfast, pandas; holdfast.runs", call="holdfast.runs().to_pandas()"
        ),
        "plain SQLite, the rows of our index": MEASURE.format(prepare=RAW.format(**ours), call="read()"),
        "mlflow.search_runs": MEASURE.format(prepare=imports, call=search),
        "plain SQLite, the rows of MLflow": MEASURE.format(prepare=RAW.format(**theirs), call="read()"),
    }


def measure(python: Path, programs: dict[str, str], rounds: int, place: Path, env: dict[str, str]) -> None:
    taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            taken[name].append(call(python, program, place, env))
    print(f"{'':<40}{'runs':>9}{'median s':>10}{'least s':>9}{'cpu s':>8}{'us of cpu a run':>17}")
    costs = {}
    for name, seen in taken.items():
        clock, used = [each[0] for each in seen], min(each[1] for each in seen)
        runs = seen[0][2]
        costs[name] = used / runs
        figures = f"{statistics.median(clock):>10.2f}{min(clock):>9.2f}{used:>8.2f}{costs[name] * 1e6:>17.1f}"
        print(f"{name:<40}{runs:>9,}{figures}", flush=True)
    ours, raw, theirs, raw_theirs = costs.values()
    print(
        f"\nfor a run: mlflow.search_runs {theirs / ours:.1f} x holdfast.runs; against plain SQLite of its own rows: "
    )
    print(f"holdfast.runs {ours / raw:.1f} x, mlflow.search_runs {theirs / raw_theirs:.1f} x")


def call(python: Path, program: str, place: Path, env: dict[str, str]) -> tuple[float, float, int]:
    """Seconds by the clock and of processor time, and how many rows there are."""
    command = [str(python), "-c", program]
    done = subprocess.run(command, cwd=place / "project", env=env, check=True, stdout=subprocess.PIPE, text=True)
    clock, used, rows = done.stdout.split()[-3:]
    return float(clock), float(used), int(rows)


if __name__ == "__main__":
    sys.exit(main())
