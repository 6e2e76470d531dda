"""Installs a lock into an environment: built in one folder, made for another path, read-only."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from . import disk, openmpi
from .bytecode import Bytecode
from .failure import Failed
from .hashes import check_local_archive
from .interpreter import ask
from .own_package import install_own_package
from .place import Place
from .requirement_lines import check_pinned
from .scrubbing import scrub
from .sealing import ABOUT, hash_files, remove_tree, rename_in_scripts, scrub_files, seal, settle, size
from .uv import Uv, builder_versions

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .interpreter import Interpreter
    from .report import Report

Json = dict[str, Any]

SYSTEMS = {"Linux": "linux", "Darwin": "osx"}
WITH_A_RUN = "it is a file of the project and is sent with a run: holdfast submit builds the environment there"
MACHINES = {"x86_64": "64", "aarch64": "aarch64", "arm64": "arm64"}


def install(request: Json, report: Report) -> Json:
    """Build in ``beside`` what works after the caller renames it to ``prefix``."""
    lock, beside, prefix = request["lock"], request["beside"], request["prefix"]
    _check(request)
    uv = Uv(request, report)
    _check_room(request, uv)
    remove_tree(beside)
    ledger: Json = {"download_s": 0.0, "link_s": 0.0, "compile_s": 0.0, "packages": len(lock["conda"]), "bytes": 0}
    _lay_base(request, uv, ledger, report)
    _install_pip(lock, beside, uv, ledger)
    location = Place(request)
    own_paths = install_own_package(request, uv) if request.get("own_package") else []
    with ThreadPoolExecutor(2) as meanwhile:
        interpreter = meanwhile.submit(ask, os.path.join(beside, "bin", "python"), location)
        # What is unpacked goes to the disk while the rest is made; there is little to wait for at the end.
        unpacked = meanwhile.submit(settle, beside)
        rename_in_scripts(beside, prefix)
        scrub_files(beside)
        details = {"library_path": openmpi.provide(lock, beside, prefix), "own_paths": own_paths}
        hashes, bytecode = _compile(request, interpreter, ledger, report)
        ledger["bytes"] = size(beside)
        ledger = {name: round(value, 3) for name, value in ledger.items()}
        _describe(beside, {"lock": lock, "ledger": ledger, "builder": builder_versions(), **details})
        seal(beside, hashes)
        unpacked.result()
    bytecode.keep()
    return {"ledger": ledger, **details}


def _check(request: Json) -> None:
    lock = request["lock"]
    check_pinned(lock["pip"])
    here = f"{SYSTEMS.get(platform.system(), sys.platform)}-{MACHINES.get(platform.machine(), platform.machine())}"
    if lock["platform"] != here:
        hint = "lock again for this target: holdfast env lock"
        raise Failed("platform", f"the lock is for {lock['platform']}, this machine is {here}", hint=hint)
    for line in lock["pip"]:
        if line.startswith("./") and not os.path.exists(os.path.join(request.get("project") or "", line.split()[0])):
            raise Failed("unreachable", f"{line.split()[0]} is not on this machine", hint=WITH_A_RUN)


def _check_room(request: Json, uv: Uv) -> None:
    """Check the disk space before anything is downloaded. Cached files need none: they are linked."""
    lock, free = request["lock"], disk.free(request["beside"])
    if disk.needed(lock) <= free:
        return
    if lock["conda"]:
        from . import conda

        lock = {**lock, "conda": conda.not_in_cache(lock["conda"], request["cache"])}
    if lock.get("pip_bytes") and disk.needed({**lock, "pip_bytes": 0}) <= free and _is_cached(request, uv):
        lock = {**lock, "pip_bytes": 0}
    if disk.needed(lock) > free:
        raise disk.full({**request, "lock": lock})


def _is_cached(request: Json, uv: Uv) -> bool:
    lock = request["lock"]
    python = request["python"] if not lock["conda"] else sys.executable
    arguments = ["--dry-run", "--offline", "--no-deps", "--target", request["beside"], "--python", python]
    arguments += ["--python-version", lock["python"]["version"], "-r", "-"]
    requirements = "\n".join(lock["pip"]) + "\n"
    try:
        output = uv.run("pip", "install", *arguments, *uv.index_words(lock["pip_options"]), stdin=requirements)
    except Failed:
        return False
    return not any("Would download" in line for line in output.lines)


def _lay_base(request: Json, uv: Uv, ledger: Json, report: Report) -> None:
    """What the pip part is installed upon: conda packages, or a virtual environment of the given Python."""
    lock, beside = request["lock"], request["beside"]
    if lock["conda"]:
        with ThreadPoolExecutor() as checkers:  # while py-rattler is loaded
            checked = checkers.map(check_local_archive, lock["conda"])
            from . import conda
        list(checked)
        took = conda.install(lock, request, report)
        ledger["download_s"] += took.download_s
        ledger["link_s"] += took.link_s
        return
    given = ask(request["python"], Place(request))
    if given.version.split(".")[:2] != lock["python"]["version"].split(".")[:2]:
        what = f"the lock is for Python {lock['python']['version']}, this is {given.version}"
        raise Failed("platform", what, where=request["python"], hint="lock again: holdfast env lock")
    uv.run("venv", "--no-project", "--relocatable", "--python", request["python"], beside, where=request["python"])


def _install_pip(lock: Json, beside: str, uv: Uv, ledger: Json) -> None:
    if not lock["pip"]:
        return
    # No --require-hashes: it would refuse a git commit, which is its own hash. check_pinned saw to the rest.
    arguments = [
        "--no-deps",
        "--verify-hashes",
        "--break-system-packages",
        "--python",
        f"{beside}/bin/python",
        "-r",
        "-",
    ]
    requirements = "\n".join(lock["pip"]) + "\n"
    output = uv.run(
        "pip", "install", *arguments, *uv.index_words(lock["pip_options"]), stdin=requirements, total=len(lock["pip"])
    )
    ledger["download_s"] += output.seconds("Prepared")
    ledger["link_s"] += output.seconds("Installed")
    ledger["packages"] += output.installed


def _compile(
    request: Json, interpreter: Future[Interpreter], ledger: Json, report: Report
) -> tuple[dict[str, str], Bytecode]:
    beside = request["beside"]
    started = time.monotonic()
    hashes = hash_files(beside, _sources(beside))
    location = Place(request)
    bytecode = Bytecode(request["cache"], interpreter.result(), beside, request["prefix"], location)
    bytecode.fill(hashes, report)
    ledger["compile_s"] = time.monotonic() - started
    return hashes, bytecode


def _sources(beside: str) -> list[str]:
    """All modules; scripts and files outside the library folder are not imported."""
    return [
        path[len(beside) + 1 :]
        for folder, _, names in os.walk(os.path.join(beside, "lib"))
        for path in (os.path.join(folder, name) for name in names if name.endswith(".py"))
        if not os.path.islink(path)
    ]


def _describe(beside: str, about: Json) -> None:
    with open(os.path.join(beside, ABOUT), "w", encoding="utf-8") as file:
        file.write(scrub(json.dumps(about, indent=1, sort_keys=True)) + "\n")
