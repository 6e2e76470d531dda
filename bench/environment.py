"""Building environments, against the bare tools that do the same downloads, links and compilations.

Every round starts with empty caches of its own; candidates take turns, so that a busy machine or network is busy for
all of them. The median is shown, and the ratio to the bare tool.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from lab.channel import build_channel  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

BUILDER = ROOT / "src/holdfast/builder/__main__.py"
UV = Path(sys.executable).with_name("uv")
PYTHON = os.path.realpath(sys.executable)
WANTED = ["numpy", "scikit-learn"]
PLATFORM = f"linux-{'64' if platform.machine() == 'x86_64' else platform.machine()}"
FACTS: dict[str, Any] = {"platform": PLATFORM, "virtual": {}}
CONDA_WANTED = ["tinysay", "tinyroot"]
AIM = 1.2

RAW_CONDA = """
import asyncio, os, sys
from pathlib import Path
from rattler import Gateway, MatchSpec, Subdir, install, solve
async def main(url, place, platform, *wanted):
    specs = [MatchSpec(spec, strict=False) for spec in ("python", *wanted)]
    gateway = Gateway(cache_dir=Path(place) / "repodata")
    records = await solve([url], specs, gateway, [Subdir(platform), Subdir("noarch")])
    await install(records, Path(place) / "env", cache_dir=Path(place) / "packages", show_progress=False)
asyncio.run(main(*sys.argv[1:]))
os._exit(0)  # py-rattler 0.28.0 may crash while Python takes itself down
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        place = Path(scratch)
        pip(place)
        conda(place)
        subprocess.run(["chmod", "-R", "u+w", scratch], check=True)
    return 0


def pip(place: Path) -> None:
    spec = {"kind": "pip", "source": "requirements.txt", "pip": WANTED}
    lock = ask(place / "solving", verb="solve", spec=spec, facts=FACTS, python=PYTHON)["lock"]
    text = "\n".join(lock["pip"]) + "\n"
    candidates: dict[str, Callable[[Path, str], None]] = {
        "uv venv, uv pip sync --compile-bytecode": lambda cache, name: raw_pip(cache, name, text),
        "builder install": lambda cache, name: install(cache, name, lock),
    }
    for run in candidates.values():  # the index's own caches are warm for everybody
        run(fresh(place / "unmeasured"), "env")
    show(" + ".join(WANTED), measure(place, candidates, rounds=3))


def conda(place: Path) -> None:
    channel = build_channel(place / "lab").file_url
    candidates: dict[str, Callable[[Path, str], None]] = {
        "py-rattler": lambda cache, name: raw_conda(cache, name, channel),
        "py-rattler, python -m compileall": lambda cache, name: raw_conda(cache, name, channel, compiled=True),
        "builder solve, builder install": lambda cache, name: solve_and_install(cache, name, channel),
    }
    show("the test channel", measure(place, candidates, rounds=7), base=1)


def measure(
    place: Path, candidates: dict[str, Callable[[Path, str], None]], rounds: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds from empty caches, and for a second environment from the caches that are then full."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            cache = fresh(place / "round")
            for number, column in enumerate(times[name]):
                started = time.perf_counter()
                run(cache, f"env{number}")
                column.append(time.perf_counter() - started)
    return times


def show(title: str, times: dict[str, tuple[list[float], list[float]]], base: int = 0) -> None:
    """Ratios to the candidate number ``base``."""
    print(f"\n{title:<42}{'cold s':>8}{'ratio':>7}{'warm s':>8}{'ratio':>7}   (aim {AIM} x)")
    medians = {name: [statistics.median(column) for column in columns] for name, columns in times.items()}
    bare = list(medians.values())[base]
    for name, values in medians.items():
        cells = "".join(f"{value:>8.2f}{value / to:>7.2f}" for value, to in zip(values, bare, strict=True))
        print(f"{name:<42}{cells}")


def raw_pip(cache: Path, name: str, text: str) -> None:
    environment, requirements = cache / name, cache / "requirements.txt"
    requirements.write_text(text)
    always = ["--quiet", "--no-config", "--cache-dir", str(cache / "uv")]
    bare([str(UV), "venv", *always, "--python", PYTHON, str(environment)])
    into = ["--python", str(environment / "bin/python")]
    bare([str(UV), "pip", "sync", *always, *into, "--compile-bytecode", "--require-hashes", str(requirements)])


def raw_conda(cache: Path, name: str, channel: str, compiled: bool = False) -> None:
    shutil.rmtree(cache / "env", ignore_errors=True)
    bare([sys.executable, "-c", RAW_CONDA, channel, str(cache), PLATFORM, *CONDA_WANTED])
    environment = (cache / "env").rename(cache / name)
    if compiled:
        bare(
            [str(environment / "bin/python"), "-m", "compileall", "-q", "-j", "0", str(environment / "lib")],
            check=False,
        )


def solve_and_install(cache: Path, name: str, channel: str) -> None:
    spec = {"kind": "conda", "source": "environment.yml", "channels": [channel], "conda": CONDA_WANTED}
    install(cache, name, ask(cache, verb="solve", spec=spec, facts=FACTS)["lock"])


def install(cache: Path, name: str, lock: dict[str, Any]) -> None:
    where = {"prefix": str(cache / name), "beside": str(cache / f"{name}.building")}
    ask(cache, verb="install", lock=lock, python=PYTHON, **where)
    Path(where["beside"]).rename(where["prefix"])


def ask(cache: Path, **request: Any) -> dict[str, Any]:
    words = json.dumps({**request, "cache": str(cache)})
    command = [sys.executable, "-I", str(BUILDER)]
    told = subprocess.run(command, input=words, stdout=subprocess.PIPE, text=True, check=False).stdout
    last: dict[str, Any] = json.loads(told.splitlines()[-1])
    if last["event"] != "done":
        raise SystemExit(f"{request['verb']} failed: {last}")
    return last


def bare(command: list[str], check: bool = True) -> None:
    subprocess.run(command, check=check, stdout=subprocess.DEVNULL)


def fresh(folder: Path) -> Path:
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
