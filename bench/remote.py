"""A machine over SSH, against the bare tools that reach it over the same shared connection.

    python bench/remote.py [--quick] [--rounds N] [--disk FOLDER] [near far many big again flat log]

The machine is one of the lab that the tests use: namespaces of its own with an sshd and a user whose shell files are
empty. Its files and the client's are in memory or, with --disk, in a folder of yours. Everything takes turns and the
median is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chaosproxy import Proxy

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PYTHON = "/usr/bin/python3"
HELLO = "print('hello')\n"
SUBMIT = (HOLDFAST, "submit", "-c", "box", "main.py")
SENT = b"Executing user inputs"  # said when everything is on the machine and the run has started
FILE_SIZE = 4096
PER_FOLDER = 100
DELAY = 0.05
MEMORY = "/dev/shm"
TALK = """
import random, time
for _ in range(100):
    time.sleep(random.uniform(0.01, {gap}))
    print(time.time_ns(), flush=True)
"""


# What the runner does before it starts a run: nothing of it may be missing.
LOOK = """
import glob, sys, time
store, tree = sys.argv[1:]
sys.path.insert(0, glob.glob(store + "/runner/*")[0])
from runner.store import objects
started = time.perf_counter()
assert objects.missing(store.encode() + b"/objects", tree) == []
print((time.perf_counter() - started) * 1e3)
"""


def main() -> int:
    options = parse()
    shares = {"/disk": options.disk} if options.disk else {}
    try:
        with (
            Lab(("box",), shares) as lab,
            tempfile.TemporaryDirectory(prefix="hf-", dir=options.disk or MEMORY) as scratch,
        ):
            print(f"files in {options.disk or 'memory'}; medians of what was run in turn", flush=True)
            bench = Bench(lab, Path(scratch), options)
            part = 10 if options.quick else 1
            parts: dict[str, Callable[[], None]] = {
                "near": bench.near,
                "far": bench.far,
                "many": partial(bench.upload, 5000 // part, FILE_SIZE),
                "big": partial(bench.upload, 1, 500_000_000 // part),
                "again": partial(bench.again, "folders of 100", 20_000 // part, PER_FOLDER),
                "flat": partial(bench.again, "one folder", 20_000 // part, 20_000),
                "log": bench.latency,
            }
            for name in options.parts or parts:
                parts[name]()
    except Unavailable as why:
        print(f"!!! NOT MEASURED: {why}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="what to measure; everything if nothing is named")
    parser.add_argument("--quick", action="store_true", help="a tenth of the files and bytes")
    parser.add_argument("--rounds", type=int, default=25, help="of what is short; what is long takes a fifth of them")
    parser.add_argument("--disk", type=Path, help="folder for the files of both sides, instead of memory")
    return parser.parse_args()


class Moments(NamedTuple):
    """Seconds since a command was typed: until each of its marks was seen, until it had ended, and trips on the way."""

    marks: tuple[float, ...]
    total: float
    trips: int = 0


class Bench:
    def __init__(self, lab: Lab, place: Path, options: argparse.Namespace) -> None:
        self.lab = lab
        self.place = place
        self.rounds: int = options.rounds
        self.host = lab["box"]
        self.user = self.host.user("ada")
        self.user.write("main.py", HELLO)
        self.user.write("look.py", LOOK)
        self.client = lab.client(place / "home")
        self.user.authorize(self.client.key())
        self.there = "/disk/holdfast-bench" if options.disk else self.user.home
        self.is_disk = bool(options.disk)
        self.fresh_folder(self.there)
        self.trivial = Box(self, "trivial", self.host.hostname)

    def near(self) -> None:
        self.submit(self.trivial)

    def far(self) -> None:
        """The same with 50 ms in each direction."""
        with closing(self.client.proxy(self.host, "far.lab")) as proxy:
            box = Box(self, "far", "far.lab")
            proxy.set(delay=DELAY)
            self.submit(box, proxy)
            proxy.set(delay=0)
            box.hang_up()
            while proxy.stats().open:
                time.sleep(0.01)

    def submit(self, box: Box, proxy: Proxy | None = None) -> None:
        """A trivial script in a folder of twenty files: to its first line, and until the command has returned."""
        times = self.in_turn(
            {
                "ssh box python3 main.py": lambda: box.watch(box.ssh(PYTHON, "main.py"), b"hello", proxy=proxy),
                "holdfast submit -c box main.py": lambda: box.watch(SUBMIT, b"hello", proxy=proxy),
            }
        )
        title, aim = ("the same, 100 ms round trip", "3 trips") if proxy else ("a trivial script, 20 files", "+150")
        heads = ("first", "+bare", "total", "+bare", *(("trips",) if proxy else ()))
        print(f"\n{title:<34}" + "".join(f"{head:>8}" for head in heads) + f"   (ms; aim {aim})")
        bare: tuple[float, float] | None = None
        for name, seen in times.items():
            first, total = median(each.marks[0] for each in seen), median(each.total for each in seen)
            bare = bare or (first, total)
            figures = (first, first - bare[0], total, total - bare[1])
            trips = f"{median(each.trips for each in seen):>8.0f}" if proxy else ""
            print(f"{name:<34}" + "".join(f"{value * 1e3:>8.1f}" for value in figures) + trips, flush=True)

    def upload(self, files: int, size: int) -> None:
        """To a machine that has nothing of it; the client's own snapshot was taken before."""
        box = Box(self, "upload", self.host.hostname)
        for number in range(files):
            make_file(box.project, number, PER_FOLDER, size)
        box.warm_up()
        times = self.in_turn(
            {
                "tar | ssh tar x": lambda: box.watch(box.tar()),
                "rsync -a -e ssh": lambda: box.watch(box.rsync("--whole-file")),
                "holdfast submit": lambda: box.watch(SUBMIT, SENT, b"hello"),
            },
            self.rounds // 5,
            before=lambda: self.forget(box),
        )
        self.show(f"upload of {files:,} x {size:,} bytes", "of best", "1.3", times, {})
        self.drop(box)

    def again(self, shape: str, files: int, per_folder: int) -> None:
        """Nothing has changed since the last submit; then one line has."""
        box = Box(self, "again", self.host.hostname)
        for number in range(files):
            make_file(box.project, number, per_folder, FILE_SIZE)
        box.warm_up()
        rsync = box.rsync()
        box.watch(rsync)
        times = self.in_turn(
            {
                "rsync -a -e ssh": lambda: box.watch(rsync),
                "holdfast submit": lambda: box.watch(SUBMIT, SENT),
            },
            self.rounds // 5,
        )
        asked = median(box.milliseconds(box.ssh(PYTHON, "look.py", box.store, box.tree())) for _ in range(5)) / 1e3
        self.show(
            f"{files:,} unchanged files, {shape}", "of rsync", "1", times, {"holdfast: is all of it there?": asked}
        )
        sent: dict[str, list[int]] = {"rsync -a -e ssh": [], "holdfast submit": []}
        for path in random.sample(sorted(box.project.glob("d*/*")), 3):
            change_a_line(path)
            for name, argv in zip(sent, (rsync, SUBMIT), strict=True):
                before = self.lab.traffic(self.host).bytes_to
                box.watch(argv)
                sent[name].append(self.lab.traffic(self.host).bytes_to - before)
        for name, sizes in sent.items():
            print(f"{f'one line changed, {name}':<38}{median(sizes):>8,.0f} bytes   (aim 100,000)", flush=True)
        self.drop(box)

    def latency(self) -> None:
        """From a print to the client's stdout; both read the same clock."""
        print(f"\n{'from print to stdout':<34}{'p50':>8}{'p95':>8}   (ms; aim 50)")
        box = self.trivial
        for gap in (0.1, 1.0):
            (box.project / "main.py").write_text(TALK.format(gap=gap))
            self.user.write("main.py", TALK.format(gap=gap))
            for name, argv in {"ssh": box.ssh(PYTHON, "main.py"), "holdfast submit": SUBMIT}.items():
                cuts = quantiles(box.delays(argv), n=20)
                print(f"{f'{name}, a line in {gap / 2:.2g} s':<34}{cuts[9]:>8.1f}{cuts[18]:>8.1f}", flush=True)

    def in_turn(
        self, candidates: dict[str, Callable[[], Moments]], rounds: int = 0, before: Callable[[], None] = lambda: None
    ) -> dict[str, list[Moments]]:
        times: dict[str, list[Moments]] = {name: [] for name in candidates}
        for number in range(max(3, rounds or self.rounds) + 1):
            # Forwards and backwards, so that none of them always comes after the same other one.
            for name, measure in list(candidates.items())[:: -1 if number % 2 else 1]:
                self.wait_until_idle()
                before()
                seen = measure()
                if number:
                    times[name].append(seen)
        return times

    def show(self, title: str, ratio: str, aim: str, times: dict[str, list[Moments]], more: dict[str, float]) -> None:
        rows = {name: median(each.total for each in seen) for name, seen in times.items() if not seen[0].marks}
        best = min(rows.values())
        marks = [median(column) for column in zip(*(each.marks for each in times["holdfast submit"]), strict=True)]
        names = ("holdfast submit, until started", "holdfast submit, to first line")
        rows.update({**more, **dict(zip(names, marks, strict=False))})
        print(f"\n{title:<38}{'ms':>8}{ratio:>9}   (aim {aim})")
        for name, seconds in rows.items():
            print(f"{name:<38}{seconds * 1e3:>8.0f}{seconds / best:>9.2f}", flush=True)

    def wait_until_idle(self) -> None:
        """A run that has ended still takes its copy of the project away. podman, once asked, stays by itself."""
        while any(not process.argv[0].startswith(("sshd", "podman")) for process in self.user.processes()):
            time.sleep(0.01)

    def forget(self, box: Box) -> None:
        """The machine has the runner and nothing else of this store, and the client knows it."""
        for name in ("objects", "arriving", "runs"):
            shutil.rmtree(self.host.path(f"{box.store}/{name}"), ignore_errors=True)
        shutil.rmtree(box.home / "cache" / "shipped", ignore_errors=True)
        shutil.rmtree(self.host.path(box.bare), ignore_errors=True)
        self.fresh_folder(box.bare)
        if self.is_disk:
            os.sync()

    def drop(self, box: Box) -> None:
        self.wait_until_idle()
        self.forget(box)
        box.hang_up()
        shutil.rmtree(box.place)

    def fresh_folder(self, place: str) -> None:
        self.host.run("install", "-d", "-o", self.user.name, "-g", self.user.name, place)


class Box:
    """A project and a store with the machine attached to it, and bare tools that share its connection."""

    def __init__(self, bench: Bench, name: str, address: str) -> None:
        self.client = bench.client
        self.address = address
        self.store = f"{bench.there}/{name}.store"
        self.bare = f"{bench.there}/{name}.bare"
        self.place = bench.place / name
        self.home = self.place / "store"
        self.project = self.place / "project"
        self.project.mkdir(parents=True)
        bench.fresh_folder(self.bare)
        where = ("--name", "box", "--address", address, "--username", bench.user.name)
        accept = ("--accept-host-key", bench.host.fingerprint())
        self.watch((HOLDFAST, "computetarget", "attach", "remote", *where, *accept))
        with (self.project / "aml_config" / "box.compute").open("a") as compute:
            compute.write(f"root: {self.store}\n")
        self.watch((HOLDFAST, "trust", "box"))
        (self.project / "main.py").write_text(HELLO)
        for number in range(16):
            make_file(self.project / "twenty", number, PER_FOLDER, 2000)
        self.warm_up()

    def warm_up(self) -> None:
        """Twice: what is younger than a tick of the file system's clock is hashed again."""
        for _ in range(2):
            time.sleep(0.05)
            self.watch(SUBMIT, b"hello")

    def ssh(self, *words: str) -> list[str]:
        return ["ssh", "-S", self._socket(), "-l", "ada", self.address, *words]

    def tar(self) -> list[str]:
        far = " ".join(self.ssh("tar", "-C", self.bare, "-x"))
        return ["sh", "-c", f"tar -C {self.project} --exclude=./aml_config -c . | {far}"]

    def rsync(self, *words: str) -> list[str]:
        reach = ("-e", f"ssh -S {self._socket()} -l ada")
        return [
            "rsync",
            "-a",
            *words,
            "--exclude=/aml_config",
            *reach,
            f"{self.project}/",
            f"{self.address}:{self.bare}/",
        ]

    def hang_up(self) -> None:
        argv = [*self.client.prefix(), "ssh", "-S", self._socket(), "-O", "exit", self.address]
        subprocess.run(argv, env=self.client.env, check=True, capture_output=True)

    def watch(self, argv: Sequence[str], *marks: bytes, proxy: Proxy | None = None) -> Moments:
        before = trips_at_rest(proxy) if proxy else 0
        started = time.perf_counter()
        with self._start(argv) as process:
            assert process.stdout is not None
            said = b""
            seen: list[float] = []
            while block := process.stdout.read(65536):
                said += block
                while len(seen) < len(marks) and marks[len(seen)] in said:
                    seen.append(time.perf_counter() - started)
        total = time.perf_counter() - started
        trips = proxy.stats().trips - before if proxy else 0
        if process.returncode or len(seen) < len(marks):
            raise SystemExit(f"{argv} failed: {said!r}")
        return Moments(tuple(seen), total, trips)

    def delays(self, argv: Sequence[str]) -> list[float]:
        """Milliseconds since the moment that each line of digits tells."""
        found = []
        with self._start(argv) as process:
            assert process.stdout is not None
            left = b""
            while block := process.stdout.read(65536):
                now = time.time_ns()
                *lines, left = (left + block).split(b"\n")
                found += [(now - int(line)) / 1e6 for line in lines if line.isdigit()]
        return found

    def milliseconds(self, argv: Sequence[str]) -> float:
        with self._start(argv) as process:
            return float(process.communicate()[0])

    def tree(self) -> str:
        """What the last submit sent."""
        newest = max(self.home.glob("runs/*/run.json"), key=lambda path: path.stat().st_mtime_ns)
        return str(json.loads(newest.read_bytes())["tree"])

    def _start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        env = {"HOLDFAST_HOME": str(self.home), "USER": "ada"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "bufsize": 0}
        return self.client.popen(*argv, cwd=self.project, env=env, **pipes)

    def _socket(self) -> str:
        return next(str(path) for path in (self.home / "ssh").rglob("*") if path.is_socket())


def trips_at_rest(proxy: Proxy) -> int:
    """Less one: the last word of the command before was ours, and with it the first one of the next is one trip."""
    time.sleep(4 * DELAY)
    return proxy.stats().trips - 1


def make_file(root: Path, number: int, per_folder: int, size: int) -> None:
    folder = root / f"d{number // per_folder}"
    folder.mkdir(parents=True, exist_ok=True)
    data = os.urandom(size)
    if size <= FILE_SIZE:  # in lines, one of which can be changed
        data = data.hex().encode()[:size].replace(b"f", b"\n")
    (folder / f"f{number}").write_bytes(data)


def change_a_line(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[random.randrange(len(lines))] += b"changed"
    path.write_bytes(b"\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
