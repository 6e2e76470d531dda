"""Compare what two commits cost: the same commands, the old and the new one in turn, in one run.

    python bench/compare.py --old COMMIT [--new COMMIT] [--rounds N] [--instructions] [version submit list ssh]

The source of each commit is put into a folder of its own (without ``--new``: the working tree) and both are run by this
environment's interpreter with its packages. Wall time depends on what else the machine does; processor time, counted
over the command and all processes that it leaves behind, depends on it much less. A ratio below 1 means that the new
commit is cheaper. ``+-`` is half the distance between the quartiles of the ratios of all rounds.

``--instructions`` counts the machine instructions of the client by valgrind instead. Other work on the machine hardly
changes them. The processes that the client starts are not counted.
"""

from __future__ import annotations

import argparse
import compileall
import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parents[1]
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PR_SET_CHILD_SUBREAPER = 36
MEMORY = "/dev/shm"
RUNS_LISTED = 30


class Cost(NamedTuple):
    """Seconds by the clock until the command has ended, and seconds of processor time."""

    wall: float
    processor: float


class Version:
    """The source of one commit, and folders for its store and its project."""

    def __init__(self, commit: str | None, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.source = place / "src"
        if commit is None:
            shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", place], input=archive.stdout, check=True)
        compileall.compile_dir(self.source, quiet=2)
        self.project = place / "project"
        self.project.mkdir()
        (self.project / "main.py").write_text("print('hello')\n")
        for number in range(19):
            (self.project / f"file{number}.dat").write_bytes(os.urandom(2000))
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(place),
            "HOLDFAST_HOME": str(place / "store"),
            "PYTHONPATH": str(self.source),
            "LANG": "C.UTF-8",
        }


class Bench:
    def __init__(self, old: str, new: str | None, place: Path, rounds: int, *, instructions: bool) -> None:
        self.versions = {"old": Version(old, place / "old"), "new": Version(new, place / "new")}
        self.place = place
        self.rounds = rounds
        self.instructions = instructions
        if instructions:
            print(f"{'million instructions, least of 3':<36}{'old':>10}{'new':>10}{'new/old':>17}", flush=True)
            return
        heads = "".join(f"{title:>10}" for title in ("old least", "median", "new least", "median"))
        print(f"{'milliseconds':<36}{heads}{'new/old: least':>17}   median", flush=True)

    def version(self) -> None:
        self.compare("holdfast --version", ["--version"])

    def submit(self) -> None:
        self.compare("submit -c local, 20 files", ["submit", "-c", "local", "main.py"])

    def list(self) -> None:
        for version in self.versions.values():
            for _ in range(RUNS_LISTED):
                run(["submit", "-c", "local", "main.py"], version.project, version.env)
        self.compare("history list, some runs", ["history", "list", "-o", "json"])

    def ssh(self) -> None:
        """To a machine of the test lab over a connection that is open; processor time is that of the client only."""
        try:
            with ExitStack() as stack:
                lab = stack.enter_context(Lab(("box",)))
                client = lab.client(self.place / "home")
                user = lab["box"].user("ada")
                user.authorize(client.key())
                commands = {}
                for name, version in self.versions.items():
                    env = {**client.env, **version.env, "HOME": client.env["HOME"], "USER": "ada"}
                    prefix = client.prefix(version.project)
                    where = ["--name", "box", "--address", lab["box"].hostname, "--username", "ada"]
                    accept = ["--accept-host-key", lab["box"].fingerprint()]
                    run(["computetarget", "attach", "remote", *where, *accept], version.project, env, prefix)
                    with (version.project / "aml_config" / "box.compute").open("a") as compute:
                        compute.write(f"root: {user.home}/{name}.store\n")
                    run(["trust", "box"], version.project, env, prefix)
                    commands[name] = (version.project, env, prefix)
                    for _ in range(2):
                        time.sleep(0.05)  # what is younger than a tick of the file system's clock is hashed again
                        run(["submit", "-c", "box", "main.py"], *commands[name])

                def once(name: str) -> Cost:
                    while any(not process.argv[0].startswith(("sshd", "podman")) for process in user.processes()):
                        time.sleep(0.01)  # the run before still removes its copy of the project
                    return self.measure(["submit", "-c", "box", "main.py"], *commands[name], descendants=False)

                self.in_turn("submit to SSH, warm", once)
        except Unavailable as why:
            print(f"!!! NOT MEASURED: {why}")

    def compare(self, title: str, words: Sequence[str]) -> None:
        def once(name: str) -> Cost:
            version = self.versions[name]
            return self.measure(words, version.project, version.env)

        self.in_turn(title, once)

    def measure(
        self,
        words: Sequence[str],
        folder: Path,
        env: dict[str, str],
        prefix: Sequence[str] = (),
        *,
        descendants: bool = True,
    ) -> Cost:
        if self.instructions:
            return Cost(0.0, counted(words, folder, env, prefix))
        return cost(words, folder, env, prefix, descendants=descendants)

    def in_turn(self, title: str, once: Callable[[str], Cost]) -> None:
        if self.instructions:
            old, new = (min(once(name).processor for _ in range(3)) / 1e6 for name in self.versions)
            print(f"{title:<36}{old:>10.1f}{new:>10.1f}{new / old:>17.3f}", flush=True)
            return
        costs: dict[str, list[Cost]] = {name: [] for name in self.versions}
        for number in range(self.rounds + 2):
            order = list(costs) if number % 2 else list(reversed(costs))
            for name in order:
                found = once(name)
                if number >= 2:
                    costs[name].append(found)
        for part in Cost._fields:
            show(f"{title}, {part}", *([getattr(each, part) for each in costs[name]] for name in ("old", "new")))


def show(title: str, old: list[float], new: list[float]) -> None:
    ratios = [after / before for before, after in zip(old, new, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    figures = "".join(f"{value * 1e3:>10.1f}" for value in (min(old), median(old), min(new), median(new)))
    spread = f"{median(new) / median(old):.3f} +-{(high - low) / 2:.3f}"
    print(f"{title:<36}{figures}{min(new) / min(old):>17.3f}   {spread}", flush=True)


def run(words: Sequence[str], folder: Path, env: dict[str, str], prefix: Sequence[str] = ()) -> None:
    done = subprocess.run([*prefix, HOLDFAST, *words], cwd=folder, env=env, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"holdfast {' '.join(words)} failed:\n{done.stderr.decode(errors='replace')}")


def cost(
    words: Sequence[str], folder: Path, env: dict[str, str], prefix: Sequence[str] = (), *, descendants: bool = True
) -> Cost:
    """One command in a process that inherits whatever the command leaves behind, and waits for it."""
    source, sink = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(source)
            os.write(sink, json.dumps(_cost(words, folder, env, prefix, descendants)).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with open(source, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    if not answer:
        raise SystemExit(f"holdfast {' '.join(words)} failed")
    return Cost(*json.loads(answer))


def _cost(words: Sequence[str], folder: Path, env: dict[str, str], prefix: Sequence[str], descendants: bool) -> Cost:
    if descendants:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    began = time.perf_counter()
    run(words, folder, env, prefix)
    wall = time.perf_counter() - began
    while descendants:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, used.ru_utime + used.ru_stime)


def counted(words: Sequence[str], folder: Path, env: dict[str, str], prefix: Sequence[str]) -> int:
    """Instructions of one command, without those of its child processes."""
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    argv = [*prefix, *tool, HOLDFAST, *words]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, errors="replace", check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"valgrind holdfast {' '.join(words)} failed:\n{done.stderr}")
    return int(found.group(1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="version, submit, list, ssh; all of them if none is named")
    parser.add_argument("--old", required=True, help="commit to compare with")
    parser.add_argument("--new", help="commit to measure; the working tree if it is not named")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--instructions", action="store_true", help="count instructions of the client by valgrind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hf-", dir=MEMORY if os.path.isdir(MEMORY) else None) as scratch:
        bench = Bench(options.old, options.new, Path(scratch), options.rounds, instructions=options.instructions)
        parts = {"version": bench.version, "submit": bench.submit, "list": bench.list, "ssh": bench.ssh}
        for name in options.parts or parts:
            parts[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
