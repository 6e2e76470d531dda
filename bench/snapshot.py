"""Snapshots against the tools one would use instead, as ratios of one interleaved run on a file system in memory.

    python bench/snapshot.py [--quick] [--rounds N] [--place FOLDER]

First time: against hashing plus copying the bytes. Unchanged: against a bare scandir + stat walk.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from holdfast.runner.store.checkout import checkout
from holdfast.snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

FILE_SIZE = 4096
PER_FOLDER = 100
NO_GIT_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def main() -> None:
    options = parse()
    place = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=options.place))
    try:
        bench = Bench(place, 1000 if options.quick else 10_000, (1 << 26) if options.quick else (1 << 30))
        bench.run(options.rounds)
        bench.report()
    finally:
        shutil.rmtree(place)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 files and 64 MB instead of 10,000 and 1 GB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--place", default="/dev/shm" if os.path.isdir("/dev/shm") else None, help="folder to work in")
    return parser.parse_args()


class Bench:
    """Every contender once per round, so that a busy moment of the machine hits all of them."""

    def __init__(self, place: Path, files: int, big: int) -> None:
        self.place = place
        self.project = place / "project"
        self.times: dict[str, list[float]] = {}
        self.taken: list[snapshot.Snapshot] = []
        make_project(self.project, files, big)
        self.label = f"{files:,} files of {FILE_SIZE} bytes and one of {big / 1e6:,.0f} MB"
        self.others = other_tools(self.project)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.first_time()
            self.unchanged()
            for made in ("store", "cp", "run", "rsync", "git", "dvc"):
                shutil.rmtree(self.place / made, ignore_errors=True)

    def first_time(self) -> None:
        self.time("first: cp -r", lambda: call("cp", "-r", self.project, self.place / "cp"))
        self.time("first: sha256 of the bytes", lambda: hash_all(self.project))
        self.time("first: holdfast", lambda: self.taken.append(self.take()))
        tree = self.taken[-1].tree
        store = os.fsencode(self.place / "store/objects")
        self.time("first: holdfast checkout", lambda: checkout(store, tree, os.fsencode(self.place / "run")))
        for name, command in self.others.items():
            prepare(name, self.project)
            self.time(f"first: {name}", partial(call, *command))

    def unchanged(self) -> None:
        time.sleep(0.2)  # until the project is older than a tick of the file system's clock
        self.take()
        for _ in range(5):
            self.time("unchanged: scandir + stat", lambda: walk(str(self.project)))
            self.time("unchanged: holdfast", self.take)
            for name, command in self.others.items():
                self.time(f"unchanged: {name}", partial(call, *command))

    def take(self) -> snapshot.Snapshot:
        return snapshot.take(
            str(self.project), objects=str(self.place / "store/objects"), cache=str(self.place / "store/cache")
        )

    def time(self, name: str, action: Callable[[], object]) -> None:
        start = time.perf_counter()
        action()
        self.times.setdefault(name, []).append(time.perf_counter() - start)

    def report(self) -> None:
        middle = {name: median(times) for name, times in self.times.items()}
        hash_and_copy = middle["first: cp -r"] + middle["first: sha256 of the bytes"]
        bases = {"first": hash_and_copy, "unchanged": middle["unchanged: scandir + stat"]}
        print(f"{self.label}, in {self.place.parent}; median of {len(self.times['first: holdfast'])} rounds")
        print(f"ratios: first time to cp -r plus sha256 ({hash_and_copy:.2f} s), unchanged to the walk\n")
        for name, seconds in middle.items():
            print(f"{name:32} {seconds * 1000:10.1f} ms {seconds / bases[name.split(':')[0]]:8.2f} x")
        print(f"\nsyncs made by holdfast, first time: {self.taken[-1].syncs}")


def make_project(root: Path, files: int, big: int) -> None:
    for number in range(files):
        folder = root / f"d{number // PER_FOLDER:03}"
        if number % PER_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"f{number}.py").write_bytes(os.urandom(FILE_SIZE))
    with (root / "big.bin").open("wb") as stream:
        for _ in range(big >> 20):
            stream.write(os.urandom(1 << 20))


def other_tools(project: Path) -> dict[str, tuple[str | Path, ...]]:
    """None of them may leave a file in the project, where the others would then walk over it."""
    beside = project.parent
    tools: dict[str, tuple[str | Path, ...]] = {
        "rsync -a": ("rsync", "-a", f"{project}/", beside / "rsync"),
        "git add": ("git", f"--git-dir={beside / 'git'}", f"--work-tree={project}", "add", "-A", "-f", project),
        "dvc add": ("dvc", "--cd", beside / "dvc", "add", "-q", "project"),
    }
    absent = [name for name, command in tools.items() if shutil.which(str(command[0])) is None]
    for name in absent:
        print(f"!!! {name} IS NOT PART OF THIS COMPARISON: {tools[name][0]} was not found on PATH")
    return {name: command for name, command in tools.items() if name not in absent}


def prepare(tool: str, project: Path) -> None:
    if tool == "git add":
        call("git", "init", "-q", "--bare", project.with_name("git"))
    elif tool == "dvc add":
        project.with_name("dvc").mkdir()
        call("dvc", "--cd", project.with_name("dvc"), "init", "-q", "--no-scm")
        call("cp", "-r", project, project.with_name("dvc"))


def call(*command: str | Path) -> None:
    subprocess.run(command, env={**os.environ, **NO_GIT_SETTINGS}, check=True, capture_output=True)


def hash_all(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            hasher = hashlib.sha256()
            with open(os.path.join(folder, name), "rb", buffering=0) as stream:
                while piece := stream.read(1 << 20):
                    hasher.update(piece)
            hasher.digest()


def walk(folder: str) -> int:
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                count += walk(entry.path)
            else:
                entry.stat(follow_symlinks=False)
                count += 1
    return count


if __name__ == "__main__":
    main()
