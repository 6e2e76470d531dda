"""Containers, against the bare commands of the same engine, image, script and mounts.

    python bench/engines.py [--rounds N] [here ssh package]

The engine is one of the lab that the tests use: a dockerd of its own with its files in memory. Everything takes turns
and the median is shown, also of what lies between a run's events.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from remote import MEMORY, Bench  # noqa: E402

from conftest import HOLDFAST, Desk  # noqa: E402
from enginelab import IMAGE, Docker  # noqa: E402
from managed import lend_tools  # noqa: E402
from sshlab import Lab, Unavailable  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WHEELS = ROOT / ".tools" / "wheels"
WANTED = ("numpy", "scikit-learn")
HELLO = "print('hello')\n"
TARGET = f"type: docker\nengine: docker\nbaseDockerImage: {IMAGE}\npythonLocation: python3\n"
AS_IT_IS = "userManagedEnvironment: true\n"
FOUNDATION = f"FROM {IMAGE}\nRUN python3 -m venv /env\nCOPY wheels /wheels\n"
DOCKERFILE = """\
FROM foundation
COPY requirements.txt added /added/
RUN /env/bin/pip install --no-index --find-links /wheels --find-links /added -r /added/requirements.txt
"""


def main() -> int:
    options = parse()
    parts: dict[str, Callable[[Path, argparse.Namespace], None]] = {"here": here, "ssh": ssh, "package": package}
    for name in options.parts or parts:
        try:
            with tempfile.TemporaryDirectory(prefix="hf-", dir=MEMORY) as scratch:
                parts[name](Path(scratch), options)
        except Unavailable as why:
            print(f"!!! NOT MEASURED: {name}: {why}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="what to measure; everything if nothing is named")
    parser.add_argument("--rounds", type=int, default=15, help="of what is short; what is long takes a third of them")
    return parser.parse_args()


class Seen(NamedTuple):
    """Seconds until the script's first line, and until the command has ended."""

    first: float
    total: float


def here(place: Path, options: argparse.Namespace) -> None:
    """A warm submit to this machine, with each kind of network, and with an environment that is there."""
    with tempfile.TemporaryDirectory() as room, Docker(Path(room)) as docker:
        desk = seat(place, docker)
        give_tools(desk)
        for name, lines in (
            ("bridge", AS_IT_IS),
            ("none", f"network: none\n{AS_IT_IS}"),
            ("managed", "network: none\nuserManagedEnvironment: false\n"),
        ):
            target(desk, name, lines)
        wheel(place / "wheels", "tiny")
        (desk.project / "requirements.txt").write_text(f"--no-index\n--find-links file://{place}/wheels\ntiny\n")
        bare = ["docker", "run", "--rm", "--interactive", "--log-driver", "none", "--workdir", str(desk.project)]
        bare += [word for folder in mounted(desk) for word in ("--mount", f"type=bind,source={folder},target={folder}")]
        script = [IMAGE, "python3", "main.py"]
        times = in_turn(
            {
                "docker run": lambda: watch(desk, [*bare, *script]),
                "docker run --network none": lambda: watch(desk, [*bare, "--network", "none", *script]),
                "submit": lambda: submit(desk, "bridge"),
                "submit, network: none": lambda: submit(desk, "none"),
                "submit, network: none, managed": lambda: submit(desk, "managed"),
            },
            options.rounds,
            partial(wait_until_idle, docker),
        )
        against = dict(zip(list(times)[2:], ["docker run", *["docker run --network none"] * 2], strict=True))
        show("a trivial script here", "+150", times, against)
        show_events(desk, times)


def ssh(place: Path, options: argparse.Namespace) -> None:
    """The same over a connection that both share."""
    with Lab(("box",)) as lab, Docker(lab["box"]) as docker:
        options.disk = None
        bench = Bench(lab, place, options)
        box, user = bench.trivial, bench.user
        config = box.project / "aml_config"
        attached = (config / "box.compute").read_text().replace("type: remote\n", "")
        for name, network in (("bridge", ""), ("none", "network: none\n")):
            (config / f"{name}.compute").write_text(
                f"{attached}{TARGET}{AS_IT_IS}{network}".replace("docker\n", "remotedocker\n", 1)
            )
            (config / f"{name}.runconfig").write_text(f"Target: {name}\nFramework: Python\n")
        bare = ["docker", "run", "--rm", "--interactive", "--log-driver", "none", "--user", f"{user.uid}:{user.uid}"]
        bare += ["--mount", f"type=bind,source={user.home},target={user.home}", "--workdir", user.home]

        def bare_run(*words: str) -> Seen:
            return seen(box.watch(box.ssh(shlex.join([*bare, *words, IMAGE, "python3", "main.py"])), b"hello"))

        def remote_run(name: str) -> Seen:
            return seen(box.watch((str(HOLDFAST), "submit", "-c", name, "main.py"), b"hello"))

        times = in_turn(
            {
                "ssh box docker run": bare_run,
                "ssh box docker run --network none": lambda: bare_run("--network", "none"),
                "submit": lambda: remote_run("bridge"),
                "submit, network: none": lambda: remote_run("none"),
            },
            options.rounds,
            partial(wait_until_idle, docker),
        )
        show("the same over ssh", "+250", times, dict(zip(list(times)[2:], list(times)[:2], strict=True)))


def package(place: Path, options: argparse.Namespace) -> None:
    """One package more in a project that has others, all of them wheels of this machine; the new one is in no cache.

    Docker has the others, and an empty environment, in an image that was built before.
    """
    with tempfile.TemporaryDirectory() as room, Docker(Path(room)) as docker:
        desk = seat(place, docker)
        give_tools(desk)
        target(desk, "managed", "userManagedEnvironment: false\n")
        context, shelf, numbers = place / "context", place / "wheels", count()
        context.mkdir()
        shutil.copytree(wheels(), shelf)
        (place / "Dockerfile").write_text(FOUNDATION)
        build(desk, "foundation", place)
        (context / "Dockerfile").write_text(DOCKERFILE)

        def add(folder: Path, beside: Path, *lines: str) -> None:
            number = next(numbers)
            wheel(beside, f"added{number}")
            (folder / "requirements.txt").write_text("\n".join([*lines, *WANTED, f"added{number}", ""]))

        def add_and_build() -> Seen:
            shutil.rmtree(context / "added", ignore_errors=True)
            add(context, context / "added")
            return build(desk, "bench", context)

        def add_and_prepare() -> Seen:
            add(desk.project, shelf, "--no-index", f"--find-links {shelf.as_uri()}")
            return watch(desk, [str(HOLDFAST), "experiment", "prepare", "-c", "managed"])

        candidates = {"docker build": add_and_build, "experiment prepare": add_and_prepare}
        times = in_turn(candidates, options.rounds // 3, partial(wait_until_idle, docker))
    whole = {name: median(each.total for each in taken) for name, taken in times.items()}
    print(f"\n{'numpy, scikit-learn, and one more':<38}{'ms':>8}{'x faster':>10}   (aim 3)")
    for name, seconds in whole.items():
        print(f"{name:<38}{seconds * 1e3:>8.0f}{whole['docker build'] / seconds:>10.1f}", flush=True)


def build(desk: Desk, name: str, context: Path) -> Seen:
    """By the builder that every docker has."""
    words = ["docker", "build", "--quiet", "--network", "none", "--tag", name, str(context)]
    return watch(desk, words, env={"DOCKER_BUILDKIT": "0"})


def seat(place: Path, docker: Docker) -> Desk:
    folder = place / "desk"
    folder.mkdir()
    desk = Desk(folder)
    desk.env.update(docker.environment)
    desk.script(HELLO, "main.py")
    for number in range(19):
        (desk.project / f"file{number}.dat").write_bytes(os.urandom(2000))
    return desk


def give_tools(desk: Desk) -> None:
    """Those that build environments, as a copy: what a link leads to would not be there in a container."""
    lend_tools(desk)
    lent = desk.home / "builder"
    real = lent.resolve()
    lent.unlink()
    shutil.copytree(real, lent, symlinks=True)


def target(desk: Desk, name: str, lines: str) -> None:
    config = desk.project / "aml_config"
    config.mkdir(exist_ok=True)
    (config / f"{name}.compute").write_text(TARGET + lines)
    (config / f"{name}.runconfig").write_text(f"Target: {name}\nFramework: Python\n")


def mounted(desk: Desk) -> list[Path]:
    """As many folders as a run has, the script's own among them."""
    folders = [desk.project, *(desk.user_home / name for name in ("metrics", "inside", "runner"))]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    return folders


def submit(desk: Desk, config: str) -> Seen:
    return watch(desk, [str(HOLDFAST), "submit", "-c", config, "main.py"])


def watch(desk: Desk, argv: Sequence[str], env: dict[str, str] | None = None) -> Seen:
    """Whatever is said first where no script says anything."""
    started = time.perf_counter()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    said, first = b"", 0.0
    with subprocess.Popen(argv, cwd=desk.project, env={**desk.env, **(env or {})}, bufsize=0, **pipes) as process:  # type: ignore[call-overload]
        while block := process.stdout.read(65536):
            said += block
            if not first and b"hello\n" in said:
                first = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{argv} failed: {said.decode(errors='replace')}")
    return Seen(first, time.perf_counter() - started)


def seen(moments: object) -> Seen:
    return Seen(moments.marks[0], moments.total)  # type: ignore[attr-defined]


def in_turn(
    candidates: dict[str, Callable[[], Seen]], rounds: int, before: Callable[[], None]
) -> dict[str, list[Seen]]:
    """The first round is for the caches."""
    times: dict[str, list[Seen]] = {name: [] for name in candidates}
    for number in range(max(3, rounds) + 1):
        for name, measure in candidates.items():
            before()
            taken = measure()
            if number:
                times[name].append(taken)
    return times


def wait_until_idle(docker: Docker) -> None:
    """A command returns when the script has ended; the container is taken away after that."""
    while docker.run("ps", "--all", "--quiet").stdout:
        time.sleep(0.05)
    time.sleep(0.2)


def show(title: str, aim: str, times: dict[str, list[Seen]], against: dict[str, str]) -> None:
    print(f"\n{title:<38}{'first':>8}{'+bare':>8}{'total':>8}{'+bare':>8}   (ms; aim {aim})")
    for name, taken in times.items():
        bare = times[against.get(name, name)]
        figures = []
        for field in ("first", "total"):
            value = median(getattr(each, field) for each in taken)
            figures += [value, value - median(getattr(each, field) for each in bare)]
        print(f"{name:<38}" + "".join(f"{value * 1e3:>8.1f}" for value in figures), flush=True)


def show_events(desk: Desk, times: dict[str, list[Seen]]) -> None:
    """Medians of what passes between two events of a run."""
    gaps: dict[str, list[float]] = {}
    for path in desk.home.glob("runs/*/a1/events.jsonl"):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        for before, after in pairwise(events):
            name = f"{before['type']} to {after['type']}"
            gaps.setdefault(name, []).append((after["mono_ns"] - before["mono_ns"]) / 1e6)
    print("\nbetween the events of a run            ms")
    for name, values in gaps.items():
        if len(values) >= len(times):
            print(f"{name:<34}{median(values):>8.1f}")


def wheels() -> Path:
    """For the Python of the image; fetched once."""
    if not WHEELS.exists():
        making = WHEELS.with_name("wheels.making")
        shutil.rmtree(making, ignore_errors=True)
        machine = os.uname().machine
        asked = [word for kind in ("2014", "_2_17", "_2_28") for word in ("--platform", f"manylinux{kind}_{machine}")]
        words = ["download", "--quiet", "--dest", str(making), "--only-binary", ":all:", "--python-version", "3.11"]
        subprocess.run([sys.executable, "-m", "pip", *words, *asked, *WANTED], check=True)
        making.rename(WHEELS)
    return WHEELS


def wheel(folder: Path, name: str) -> None:
    """A package with one module."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-1.dist-info"
    files = {
        f"{name}.py": "",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


if __name__ == "__main__":
    sys.exit(main())
