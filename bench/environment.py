"""Environments, against the bare tools that do the same downloads, links and compilations, and against mlflow.

    python bench/environment.py [--rounds N] [check pip conda mlflow]

Every cold round starts with empty caches of its own; candidates take turns, so that a busy machine or network is busy
for all of them. Medians are shown, and medians of the ratios within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from conftest import HOLDFAST, Desk  # noqa: E402
from lab.channel import build_channel  # noqa: E402
from managed import manage, prepared  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

BUILDER = ROOT / "src/holdfast/builder/__main__.py"
MLFLOW = ROOT / ".tools/mlflow/bin/mlflow"
UV = Path(sys.executable).with_name("uv")
PYTHON = os.path.realpath(sys.executable)
WANTED = ["numpy", "scikit-learn"]
PLATFORM = f"linux-{'64' if platform.machine() == 'x86_64' else platform.machine()}"
FACTS: dict[str, Any] = {"platform": PLATFORM, "virtual": {}}
CONDA_WANTED = ["tinysay", "tinyroot"]
ALONE = ("unshare", "--map-root-user", "--net", "--")
HELLO = "print('hello')\n"

RAW_CONDA = """
import asyncio, os, sys
from pathlib import Path
from rattler import Gateway, MatchSpec, Subdir, install, solve
async def main(url, place, platform, prefix, *wanted):
    specs = [MatchSpec(spec, strict=False) for spec in ("python", *wanted)]
    gateway = Gateway(cache_dir=Path(place) / "repodata")
    records = await solve([url], specs, gateway, [Subdir(platform), Subdir("noarch")])
    if prefix:
        await install(records, prefix, cache_dir=Path(place) / "packages", show_progress=False)
asyncio.run(main(*sys.argv[1:]))
os._exit(0)  # py-rattler 0.28.0 may crash while Python takes itself down
"""
MLPROJECT = "name: bench\nconda_env: conda.yaml\nentry_points:\n  main:\n    command: python train.py\n"
CONDA_FILE = "name: bench\ndependencies:\n- python={python}\n- pip:\n  - {requirement}\n"


def main() -> int:
    parts: dict[str, Callable[[Path, int], None]] = {"check": check, "pip": pip, "conda": conda, "mlflow": mlflow}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="what to measure; everything if nothing is named")
    parser.add_argument("--rounds", type=int, default=5, help="of what takes seconds; what is shorter has more of them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        for name in options.parts or parts:
            parts[name](fresh(Path(scratch, name)), options.rounds)
        subprocess.run(["chmod", "-R", "u+w", scratch], check=True)
    return 0


def check(place: Path, rounds: int) -> None:
    """What a submit pays for an environment that is there, where no network is."""
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode:
        print("\n!!! NOT MEASURED: no network namespace can be made here")
        return
    desk = manage(Desk(place))
    desk.script(HELLO)
    for number in range(19):
        (desk.project / f"file{number}.dat").write_bytes(os.urandom(2000))
    (desk.project / "requirements.txt").write_text("\n".join([*WANTED, ""]))
    python = desk.home / "envs" / prepared(desk)["environment"] / "bin/python"
    config = desk.project / "aml_config"
    (config / "bare.compute").write_text(f"type: local\npythonLocation: {python}\n")
    (config / "bare.runconfig").write_text("Target: bare\nFramework: Python\n")
    times: dict[str, list[float]] = {"bare": [], "local": []}
    looks = []
    for _ in range(rounds * 10):
        for name, column in times.items():
            started = time.perf_counter()
            alone(desk, "submit", "-c", name, "train.py")
            column.append((time.perf_counter() - started) * 1e3)
        looks.append(json.loads(alone(desk, "experiment", "prepare", "-c", "local", "-o", "json"))["check_s"] * 1e3)
    bare, managed = (statistics.median(column) for column in times.values())
    more = statistics.median(with_it - without for without, with_it in zip(*times.values(), strict=True))
    print(f"\n{'the environment is there, and no network':<58}{'ms':>7}{'more':>7}   (aim 50 more)")
    print(f"{'submit, the same interpreter, unmanaged':<58}{bare:>7.0f}")
    print(f"{'submit, ' + ' + '.join(WANTED):<58}{managed:>7.0f}{more:>7.0f}")
    print(f"{'the check as experiment prepare tells it':<58}{statistics.median(looks):>7.0f}", flush=True)


def alone(desk: Desk, *words: str) -> str:
    """In a network namespace that has nothing, not even a way to this machine itself."""
    command = [*ALONE, str(HOLDFAST), *words]
    return subprocess.run(command, cwd=desk.project, env=desk.env, check=True, capture_output=True, text=True).stdout


class Candidate(NamedTuple):
    """``run(cache, name)`` is measured, from an empty ``cache`` and again from the full one; ``prepare`` is not."""

    run: Callable[[Path, str], None]
    prepare: Callable[[Path], object] = lambda _: None


def pip(place: Path, rounds: int) -> None:
    lock = solved(place, *WANTED)
    text = "\n".join(lock["pip"]) + "\n"
    candidates = {
        "uv venv, uv pip sync --compile-bytecode": Candidate(partial(raw_pip, text=text)),
        "builder install": Candidate(partial(install, lock=lock)),
    }
    for candidate in candidates.values():  # the index's own caches are warm for all candidates
        candidate.run(fresh(place / "unmeasured"), "env")
    show(" + ".join(WANTED), "aim 1.2 x", measure(place, candidates, rounds))


def conda(place: Path, rounds: int) -> None:
    channel = build_channel(place / "lab").file_url
    apart = "py-rattler twice (client, target), the same, sync"
    candidates = {
        "py-rattler": Candidate(partial(raw_conda, channel=channel)),
        "py-rattler, compileall of noarch packages": Candidate(partial(raw_conda, channel=channel, compiled=True)),
        apart: Candidate(partial(raw_conda, channel=channel, compiled=True, apart=True)),
        "builder solve, builder install": Candidate(partial(solve_and_install, channel=channel)),
    }
    show("the test channel", "aim 1.2 x", measure(place, candidates, rounds * 3))


def mlflow(place: Path, rounds: int) -> None:
    """One conda file of pip packages for both. Of mlflow's managers, uv needs neither conda nor pyenv."""
    if not MLFLOW.exists():
        print(f"\n!!! NOT MEASURED: no {MLFLOW}")
        return
    lock = solved(place, "numpy")
    desk = manage(Desk(place))
    desk.script("import numpy; print(numpy.arange(3).sum())\n")
    desk.script(MLPROJECT, "MLproject")
    desk.script(
        CONDA_FILE.format(python=platform.python_version(), requirement=lock["pip"][0].split()[0]), "conda.yaml"
    )
    with_mlflow(desk, place, "local")  # its database is there
    candidates = {
        "mlflow run --env-manager uv": Candidate(lambda cache, _: with_mlflow(desk, cache, "uv")),
        "holdfast submit": Candidate(lambda cache, _: with_holdfast(desk, cache, "local"), partial(new_store, desk)),
    }
    times = measure(place, candidates, rounds)
    show(f"a project with {lock['pip'][0].split()[0]}", "aim: ahead", times)


def measure(place: Path, candidates: dict[str, Candidate], rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds from empty caches, and for a second environment or run from the caches that are then full."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            cache = fresh(place / "round")
            candidate.prepare(cache)
            for number, column in enumerate(times[name]):
                started = time.perf_counter()
                candidate.run(cache, f"env{number}")
                column.append(time.perf_counter() - started)
    return times


def show(title: str, aim: str, times: dict[str, tuple[list[float], list[float]]]) -> None:
    """Ratios to the first candidate."""
    print(f"\n{title:<50}{'cold s':>8}{'ratio':>7}{'warm s':>8}{'ratio':>7}   ({aim})")
    bare = next(iter(times.values()))
    for name, columns in times.items():
        cells = (
            f"{statistics.median(ours):>8.2f}{statistics.median(map(float.__truediv__, ours, theirs)):>7.2f}"
            for ours, theirs in zip(columns, bare, strict=True)
        )
        print(f"{name:<50}{''.join(cells)}", flush=True)


def raw_pip(cache: Path, name: str, text: str) -> None:
    environment, requirements = cache / name, cache / "requirements.txt"
    requirements.write_text(text)
    always = ["--quiet", "--no-config", "--cache-dir", str(cache / "uv")]
    bare([str(UV), "venv", *always, "--python", PYTHON, str(environment)])
    into = ["--python", str(environment / "bin/python")]
    bare([str(UV), "pip", "sync", *always, *into, "--compile-bytecode", "--require-hashes", str(requirements)])


def raw_conda(cache: Path, name: str, channel: str, compiled: bool = False, apart: bool = False) -> None:
    environment = cache / name
    for prefix in ("", environment) if apart else (environment,):
        bare([sys.executable, "-c", RAW_CONDA, channel, str(cache), PLATFORM, str(prefix), *CONDA_WANTED])
    if compiled:
        (packages,) = environment.glob("lib/python*/site-packages")
        bare([str(environment / "bin/python"), "-m", "compileall", "-q", str(packages)])
    if apart:
        bare(["sync", "--file-system", str(environment)])


def solve_and_install(cache: Path, name: str, channel: str) -> None:
    spec = {"kind": "conda", "source": "environment.yml", "channels": [channel], "conda": CONDA_WANTED}
    install(cache, name, ask(cache, verb="solve", spec=spec, facts=FACTS)["lock"])


def solved(place: Path, *wanted: str) -> dict[str, Any]:
    spec = {"kind": "pip", "source": "requirements.txt", "pip": wanted}
    lock: dict[str, Any] = ask(place / "solving", verb="solve", spec=spec, facts=FACTS, python=PYTHON)["lock"]
    return lock


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


def with_mlflow(desk: Desk, cache: Path, manager: str) -> None:
    path = f"{MLFLOW.parent}:{UV.parent}:{desk.env['PATH']}"
    places = {"MLFLOW_ENV_ROOT": str(cache / "envs"), "UV_CACHE_DIR": str(cache / "uv")}
    database = {"MLFLOW_TRACKING_URI": f"sqlite:///{desk.user_home}/mlflow.db", "MLFLOW_DISABLE_TELEMETRY": "true"}
    env = {**desk.env, **places, **database, "PATH": path}
    said(["mlflow", "run", "--env-manager", manager, str(desk.project)], desk, env)


def with_holdfast(desk: Desk, cache: Path, config: str) -> None:
    said([str(HOLDFAST), "submit", "-c", config, "train.py"], desk, {**desk.env, "HOLDFAST_HOME": str(cache / "store")})


def new_store(desk: Desk, cache: Path) -> None:
    """As mlflow is installed with its uv, so are our tools; and one run was there before."""
    (cache / "store").mkdir()
    (cache / "store/builder").symlink_to(desk.home / "builder")
    (desk.project / "aml_config/bare.compute").write_text(f"type: local\npythonLocation: {sys.executable}\n")
    (desk.project / "aml_config/bare.runconfig").write_text("Target: bare\nFramework: Python\n")
    with_holdfast(desk, cache, "bare")


def said(command: list[str], desk: Desk, env: dict[str, str]) -> None:
    """Run it and see that the script has said its line."""
    result = subprocess.run(command, cwd=desk.project, env=env, capture_output=True, text=True, check=False)
    if result.returncode or "3\n" not in result.stdout:
        raise SystemExit(f"{command} failed:\n{result.stdout}{result.stderr}")


def bare(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def fresh(folder: Path) -> Path:
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
