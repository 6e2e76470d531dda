"""What a long history costs: the index made anew, a filtered and sorted list, a series made small enough to draw.

A store of real run folders is written first (10,000 runs of 20 parameters and 20 metrics of 10 points; 100,000 with
``--full``). Beside each figure stands a bare one of the same minutes: SQLite asked for one indexed column, Python
started, files opened and read. ``--keep DIR`` leaves the store there and uses it again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import RunList
from holdfast.metrics import downsample, reader
from holdfast.runner.store.jsonl import sealed
from holdfast.store.home import Home
from holdfast.store.index.index import Index
from holdfast.store.index.select import Wish, select, uids

if TYPE_CHECKING:
    from collections.abc import Callable

BIN = Path(sys.executable).parent
PROJECT = "3bf5de88-dbb3-8d8f-e850-96118358cff0"
PARAMETERS = METRICS = 20
POINTS = 10
SERIES_POINTS = 1_000_000
ROUNDS = 7
BOOT = "2c0af859-2891-47bf-90d7-dbb315930139"
TREE = "b3aca7cf9e799647fccf33122aab9f6a18dbecd51da50efcd598c3cdb543575e"
START_NS = 1_700_000_000_000_000_000
WHERE = "metric0 > 0.9 and target = 'box1'"
WIDE = "metric0 > 0.1 and param3 < 0.95 and metric1.max < 2.9"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--full", action="store_true", help="100,000 runs")
    parser.add_argument("--keep", help="a folder for the store, used again if it is there")
    asked = parser.parse_args()
    count = 100_000 if asked.full else asked.runs
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-history-") as scratch:
        place = Path(asked.keep or scratch)
        home = store(place, count)
        print(f"{count:,} runs of {PARAMETERS} parameters and {METRICS} metrics of {POINTS} points\n")
        time_reindex(home)
        time_lists(home, place, count)
        time_tables(home)
        time_series(place)
    return 0


def store(place: Path, count: int) -> Home:
    """A store of that many runs, and a project to ask from."""
    home = place / f"store-{count}"
    project = place / "project"
    project.mkdir(parents=True, exist_ok=True)
    (project / ".holdfast-project").write_text(json.dumps({"id": PROJECT, "name": "digits"}))
    if not (home / "store.json").exists():
        (home / "runs").mkdir(parents=True)
        started = time.perf_counter()
        share_out(lambda numbers: write_runs(home, numbers), range(count))
        (home / "store.json").write_text(json.dumps({"id": "0" * 32, "layout": 1}))
        print(f"written in {time.perf_counter() - started:.0f} s")
    return Home(str(home), "0" * 32)


def share_out(work: Callable[[range], object], numbers: range) -> None:
    children = []
    for first in range(os.cpu_count() or 1):
        pid = os.fork()
        if not pid:
            try:
                work(numbers[first :: os.cpu_count() or 1])
            finally:
                os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


def write_runs(home: Path, numbers: range) -> None:
    for number in numbers:
        write_run(home, number)


def write_run(home: Path, number: int) -> None:
    chance = random.Random(number)
    uid = f"{chance.getrandbits(128):032x}"
    attempt = home / "runs" / uid / "a1"
    (attempt / "metrics").mkdir(parents=True)
    began = START_NS + number * 60_000_000_000
    target = f"box{number % 5}"
    words = [word for n in range(PARAMETERS) for word in (f"--param{n}", f"{chance.random():.6f}")]
    identity = {"uid": uid, "run_id": f"digits_{began // 1_000_000}", "run_number": number + 1}
    request: dict[str, object] = {
        "project": "digits",
        "project_id": PROJECT,
        "project_root": "/home/ada/digits",
        "script": "train.py",
    }
    request |= {"arguments": words, "config": target, "target": target, "kind": "remote", "home": "/home/ada/.holdfast"}
    request |= {"tree": TREE, "files": 12, "bytes": 34_567, "created_ns": began, "parent_run_id": None, "user": "ada"}
    (attempt.parent / "run.json").write_bytes(sealed({**request, "client": "desk", "holdfast": "0.1.0", **identity}))
    (attempt.parent / "client.jsonl").write_bytes(sealed({"wall_ns": began, "type": "ticket", "ticket": f"{uid}/a1"}))
    plan: dict[str, object] = {
        **identity,
        "attempt": "a1",
        "argv": ["python", "train.py", *words],
        "tree": TREE,
        "env": [],
        "v": 1,
    }
    plan["environment"] = {"key": TREE[:32], "prefix": f"/home/ada/.holdfast/envs/{TREE[:32]}", "source": "", "why": ""}
    (attempt / "plan.json").write_text(json.dumps(plan))
    (attempt / "events.jsonl").write_bytes(b"".join(events(began, target, chance)))
    (attempt / "log").write_text("said\n")
    (attempt / "runner.log").write_text("python runs 'train.py'\n")
    (attempt / "outputs.jsonl").write_text("")
    write_metrics(attempt / "metrics", began, chance)


def events(began: int, host: str, chance: random.Random) -> list[bytes]:
    usage = {"user_s": 40.1, "system_s": 2.2, "max_rss_kb": 143_720}
    failed = chance.random() < 0.1
    facts: list[dict[str, object]] = [
        {"type": "accepted", "host": host, "pid": 22318, "start_time": "147527", "pgid": 22317, "guardian": 22317},
        {"type": "started", "pid": 22319, "start_time": "147527", "program": "/usr/bin/python3"},
        {"type": "exited", "code": int(failed), "usage": usage},
        {"type": "closed", "outcome": "failed" if failed else "completed", "exit_code": int(failed), "reason": ""},
    ]
    facts[-1]["files"] = {name: [100, TREE] for name in ("log", "outputs.jsonl", "metrics/7-0.jsonl", "metrics/7-0.m")}
    length = int(chance.expovariate(1 / 600) * 1e9)
    moments = [began, began + 5_000_000, began + length, began + length + 3_000_000]
    return [
        sealed({"seq": seq, "wall_ns": at, "mono_ns": at - START_NS, "boot_id": BOOT, **fact})
        for seq, (at, fact) in enumerate(zip(moments, facts, strict=True))
    ]


def write_metrics(folder: Path, began: int, chance: random.Random, points: int = POINTS) -> None:
    """The format of docs/formats.md: a header, then four words for every value."""
    lines = [json.dumps({"name": f"metric{n}"}).encode() + b"\n" for n in range(METRICS)]
    starts = [sum(map(len, lines[:n])) for n in range(METRICS)]
    value = struct.Struct("<QqQd")
    records = [
        value.pack(start, step, began + step, chance.random() * (1 + n % 3))
        for step in range(points)
        for n, start in enumerate(starts)
    ]
    (folder / "7-0.jsonl").write_bytes(b"".join(lines))
    (folder / "7-0.m").write_bytes(struct.pack("<8sIIQQQ24x", b"hfmetric", 1, 32, 7, 1, began) + b"".join(records))


def time_reindex(home: Home) -> None:
    bare = seconds(lambda: read_all_files(home))
    code = (
        "import resource, sys, time\n"
        "from holdfast.store.home import Home\n"
        "from holdfast.store.index.index import rebuild\n"
        "began = time.perf_counter(); rebuild(Home(sys.argv[1], '0' * 32)); took = time.perf_counter() - began\n"
        "used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]\n"
        "print(took, *(u.ru_maxrss for u in used), sum(u.ru_utime + u.ru_stime for u in used))"
    )
    said = subprocess.run([sys.executable, "-c", code, home.path], check=True, capture_output=True, text=True)
    took, mine, child, work = map(float, said.stdout.split())
    sizes = [os.path.getsize(home.index_file + suffix) / 1e6 for suffix in ("", ".records")]
    print(f"{'bare: every small file opened and read':<44}{bare:>9.1f} s")
    print(f"{'reindex':<44}{took:>9.1f} s {took / bare:>8.2f} x bare")
    print(f"{'processor time of it':<44}{work:>9.1f} s")
    print(f"{'its memory':<44}{mine / 1024:>9.0f} MB, each reader {child / 1024:.0f} MB")
    print(f"{'index.sqlite, index.sqlite.records':<44}{sizes[0]:>9.0f} MB, {sizes[1]:.0f} MB\n")


def read_all_files(home: Home) -> None:
    for uid in os.listdir(home.runs):
        folder = os.path.join(home.runs, uid)
        for name in ("run.json", "client.jsonl", "a1/plan.json", "a1/events.jsonl", "a1/outputs.jsonl"):
            with open(os.path.join(folder, name), "rb") as source:
                source.read()
        for name in ("7-0.m", "7-0.jsonl"):
            with open(os.path.join(folder, "a1/metrics", name), "rb") as source:
                source.read()


def time_lists(home: Home, place: Path, count: int) -> None:
    raw = raw_database(count)
    index = Index(home)
    wishes = {
        "in process: one metric and the target": Wish(PROJECT, WHERE, "-metric0", 50),
        "in process: three wide conditions": Wish(PROJECT, WIDE, "-metric2,created_utc", 50),
        "in process: with ten columns": Wish(
            PROJECT, WHERE, "-metric0", 50, ",".join(f"metric{n}.max" for n in range(10))
        ),
    }
    query = "SELECT id, value FROM runs WHERE value > 0.9 AND target = 'box1' ORDER BY value DESC LIMIT 50"
    candidates: dict[str, Callable[[], object]] = {
        "raw SQLite, one table, one index": lambda: raw.execute(query).fetchall()
    }
    candidates |= {name: partial(select, index, wish) for name, wish in wishes.items()}
    candidates["the index opened"] = lambda: Index(home).close()
    show(candidates, "raw SQLite, one table, one index")
    index.close()
    words = ["history", "list", "--where", WHERE, "--sort", "-metric0", "--limit", "50"]
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "HOLDFAST_HOME": home.path, "LANG": "C.UTF-8"}

    def run(*argv: str | Path) -> None:
        subprocess.run(argv, cwd=place / "project", env=env, check=True, stdout=subprocess.DEVNULL)

    def after_a_new_run() -> None:
        write_run(Path(home.path), count + random.getrandbits(24))
        run(BIN / "holdfast", *words, "-o", "json")

    commands: dict[str, Callable[[], object]] = {
        "python -c pass": lambda: run(sys.executable, "-c", "pass"),
        "holdfast history list, -o json": lambda: run(BIN / "holdfast", *words, "-o", "json"),
        "holdfast history list, -o table": lambda: run(BIN / "holdfast", *words, "-o", "table"),
        "the same, when a run is new (with writing it)": after_a_new_run,
    }
    show(commands, "python -c pass")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{'memory of the largest of these':<44}{peak / 1024:>9.0f} MB\n")


def time_tables(home: Home) -> None:
    """``holdfast.runs()`` as a table, in process, beside the same rows read with plain SQLite."""
    from holdfast.api.frames import columns as all_columns
    from holdfast.store.index import columns

    index = Index(home)
    every = uids(index, Wish(PROJECT))

    def raw() -> None:
        index.db.execute("SELECT * FROM runs").fetchall()
        index.db.execute("SELECT key, last FROM vals").fetchall()

    candidates: dict[str, Callable[[], object]] = {
        "raw SQLite, all rows": raw,
        "the runs in order": lambda: uids(index, Wish(PROJECT)),
        "all columns": lambda: columns.read(index, every),
        "RunList.to_columns": lambda: all_columns(home, every),
        "RunList.to_pandas": lambda: RunList(home, every).to_pandas(),
    }
    show(candidates, "raw SQLite, all rows")
    index.close()


def raw_database(count: int) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, target TEXT, value REAL)")
    chance = random.Random(1)
    db.executemany("INSERT INTO runs VALUES (?, ?, ?)", ((n, f"box{n % 5}", chance.random()) for n in range(count)))
    db.execute("CREATE INDEX by_value ON runs (value)")
    return db


def time_series(place: Path) -> None:
    folder = place / "series"
    folder.mkdir(exist_ok=True)
    values = array("d", (random.random() for _ in range(SERIES_POINTS)))
    records = b"".join(struct.pack("<QqQd", 0, n, START_NS + n, value) for n, value in enumerate(values))
    (folder / "7-0.jsonl").write_bytes(b'{"name": "loss"}\n')
    (folder / "7-0.m").write_bytes(struct.pack("<8sIIQQQ24x", b"hfmetric", 1, 32, 7, 1, START_NS) + records)

    def bare() -> None:
        with open(folder / "7-0.m", "rb") as source:
            found = array("d", source.read()[64:])[3::4]
        for start in range(0, len(found), 1000):
            part = found[start : start + 1000]
            min(part), max(part)

    def ours() -> None:
        series = reader.read_dir(str(folder)).by_name["loss"]
        assert len(downsample.places(series, 1000)) <= 4000

    show(
        {"bare: read, least and greatest of 1,000 parts": bare, "10^6 points read and reduced to draw": ours},
        "bare: read, least and greatest of 1,000 parts",
    )


def show(candidates: dict[str, Callable[[], object]], base: str) -> None:
    """Medians by the clock, and the least processor time, which a busy machine changes little."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    used: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, work in candidates.items():
            before = processor_time()
            times[name].append(seconds(work))
            used[name].append(processor_time() - before)
    bare = statistics.median(times[base])
    for name, taken in times.items():
        middle = statistics.median(taken)
        figures = (
            f"{middle * 1e3:>9.1f} ms{middle / bare:>8.2f} x bare{min(used[name]) * 1e3:>9.1f} ms of processor time"
        )
        print(f"{name:<44}{figures}", flush=True)
    print()


def processor_time() -> float:
    """Seconds of this process and of all children that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
