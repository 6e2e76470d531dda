"""Solves what a project declares into a lock for one platform: a URL and a hash for every package."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from . import hashes, sizes
from .failure import NO_LOGIN, Failed
from .interpreter import ask
from .locked_files import from_pylock, from_uv_lock
from .requirement_lines import name_of, requirement_lines
from .scrubbing import scrubbed
from .uv import Uv, builder_versions

if TYPE_CHECKING:
    from .report import Report

Json = dict[str, Any]

MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}
OTHER_PLATFORMS = {
    "osx-64": "x86_64-apple-darwin",
    "osx-arm64": "aarch64-apple-darwin",
    "win-64": "x86_64-pc-windows-msvc",
}
# The C libraries that uv knows by number.
GLIBC_MINORS = (40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 28)
# Python packages that conda calls otherwise.
PYPI_NAMES = {"pytorch": "torch", "matplotlib-base": "matplotlib", "py-opencv": "opencv-python", "pytables": "tables"}
# What packages import and do not ask for: conda's environments had it anyway.
UNSAID = {"cntk": "pip", "cntk-gpu": "pip"}

PEP_440 = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")


def solve(request: Json, report: Report) -> Json:
    """With ``no_build`` nothing that the project names is executed, and nothing is fetched that needs a login.

    A package must have a wheel then; Failed has the kind ``build`` or ``login`` where that does not suffice.
    """
    spec, facts = request["spec"], request["facts"]
    uv = Uv(request, report)
    packages: list[Json] = []
    report.progress("solve", spec["kind"], 0, 1)
    if spec["kind"] == "conda":
        from . import conda

        packages = conda.solve(spec, facts, request["cache"])
        python = _python_of(packages)
    else:
        python = _python_given(request)
    try:
        lines, options, files = _pip_part(spec, packages, _python_arguments(request, python), uv, request)
    except Failed as failed:
        if failed.kind == "build" and not request.get("no_build"):
            failed.kind = "unsatisfiable"  # the project itself forbids it, by --only-binary
        if failed.kind == "unreachable" and request.get("no_build") and NO_LOGIN.search(failed.what):
            failed.kind = "login"
        raise
    report.progress("solve", spec["kind"], 1, 1)
    lock = {
        "v": 1,
        "spec": request.get("spec_key", ""),
        "platform": facts["platform"],
        "python": python,
        "conda": packages,
        "pip": sorted(lines),
        "pip_options": options,
        "pip_bytes": sizes.total(lines, files, facts["platform"]),
        "own_package": bool(spec.get("own_package")),
        "builder": builder_versions(),
    }
    return {"lock": scrubbed(lock)}


def _python_of(packages: list[Json]) -> Json:
    python = next(package for package in packages if package["name"] == "python")
    return {"version": python["version"], "identity": f"conda {python['build']} sha256:{python['sha256']}"}


def _python_given(request: Json) -> Json:
    """What is known of the interpreter, or else what the one on this machine says of itself."""
    if "python" in request["facts"]:
        known: Json = request["facts"]["python"]
        return known
    if not request.get("python"):
        raise Failed("platform", "no Python is set to install the packages for", hint="set pythonLocation")
    interpreter = ask(request["python"])
    return {"version": interpreter.version, "identity": interpreter.identity}


def _python_arguments(request: Json, python: Json) -> list[str]:
    """uv resolves for the Python at hand, or plays another one that is not here."""
    if request["spec"]["kind"] == "pip" and request.get("python"):
        return ["--python", request["python"]]
    platform = _uv_platform(request["facts"])
    # In a container our own interpreter does not run: whatever Python the image has builds there.
    here = request.get("python") if request.get("inside") else sys.executable
    if not here:
        hint = "pin versions that have wheels, or choose an image with Python"
        raise Failed("build", "the image has no Python to build packages with", hint=hint)
    return ["--python", here, "--python-version", python["version"], "--python-platform", platform]


def _uv_platform(facts: Json) -> str:
    platform = facts["platform"]
    if platform in OTHER_PLATFORMS:
        return OTHER_PLATFORMS[platform]
    if platform not in MACHINES:
        raise Failed("platform", f"no packages can be selected for {platform}", hint="use linux-64 or linux-aarch64")
    numbers = re.findall(r"\d+", facts.get("virtual", {}).get("__glibc") or "2.28")
    minor = next((minor for minor in GLIBC_MINORS if minor <= int(numbers[1])), 17)
    return f"{MACHINES[platform]}-manylinux_2_{minor}"


def _pip_part(
    spec: Json, packages: list[Json], python_words: list[str], uv: Uv, request: Json
) -> tuple[list[str], Json, dict[str, sizes.File]]:
    """Lines, options, and the files of the lines as far as they are known."""
    options: Json = dict(spec.get("pip_options") or {})
    if spec.get("locked"):
        files = sizes.files_in(spec["locked"])
        if os.path.basename(spec["source"]).startswith("pylock"):
            return *from_pylock(spec, options), files
        return *from_uv_lock(spec, options, request, python_words[:2], uv), files
    if not spec.get("pip"):
        return [], options, {}
    arguments = [*python_words, *(_no_build(uv, options) if request.get("no_build") else uv.index_words(options))]
    unsaid = {UNSAID[name] for name in map(name_of, spec["pip"]) if name in UNSAID}
    lines = _compile(spec, arguments, _versions_of_conda(packages, spec["pip"]), unsaid, uv, request["cache"])
    lines = hashes.with_stated(hashes.completed(lines, spec, request.get("project") or ""), spec, unsaid)
    return lines, options, _files(lines, arguments, uv)


def _no_build(uv: Uv, options: Json) -> list[str]:
    """The options, with a ban on builds in place of what they say of some packages: uv takes only one of them."""
    if named := options.get("no_binary"):
        what = f"--no-binary {', '.join(named)} asks for a build from source"
        raise Failed("build", what, hint="delete that option")
    return [*uv.index_words({**options, "only_binary": []}), "--no-build"]


def _versions_of_conda(packages: list[Json], pip: list[str]) -> dict[str, str]:
    """Packages that pip finds installed and keeps, unless they are required by name."""
    required = {name_of(line) for line in pip}
    named = ((str(package["name"]), str(package["version"])) for package in packages)
    versions = {name_of(PYPI_NAMES.get(name, name)): version for name, version in named if PEP_440.fullmatch(version)}
    return {name: version for name, version in versions.items() if name and name not in required}


def _compile(
    spec: Json, arguments: list[str], taken: dict[str, str], unsaid: set[str], uv: Uv, cache: str
) -> list[str]:
    try:
        lines = _compile_with(spec, arguments, taken, unsaid, uv, cache)
    except Failed as failed:
        if failed.kind not in ("unsatisfiable", "build") or not taken:
            raise
        # As pip does: what conda installed is replaced where the pip part cannot live with it.
        return _compile_with(spec, arguments, {}, unsaid, uv, cache)
    return [line for line in lines if name_of(line) not in taken]


def _compile_with(
    spec: Json, arguments: list[str], taken: dict[str, str], unsaid: set[str], uv: Uv, cache: str
) -> list[str]:
    os.makedirs(cache, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="solve-", dir=cache)  # which a container sees as well
    try:
        constraints = os.path.join(folder, "constraints.txt")
        with open(constraints, "w", encoding="utf-8") as file:
            lines = [*(spec.get("constraints") or ()), *(f"{name}=={version}" for name, version in taken.items())]
            file.writelines(f"{line}\n" for line in lines)
        bounds = ["--constraints", constraints] if lines else []  # uv warns of an empty file
        command = ["pip", "compile", "-", "--generate-hashes", "--no-header", "--no-annotate", "--no-strip-extras"]
        requirements = "\n".join([*spec["pip"], *sorted(unsaid)]) + "\n"
        output = uv.run(*command, *bounds, *arguments, stdin=requirements, where=spec.get("source", ""))
    finally:
        shutil.rmtree(folder)
    return requirement_lines(output.printed)


def _files(lines: list[str], arguments: list[str], uv: Uv) -> dict[str, sizes.File]:
    """Asked a second time, of the cache alone: what has hashes in one format has sizes in another."""
    requirements = "\n".join(lines) + "\n"
    try:
        output = uv.run(
            "pip", "compile", "-", "--no-deps", "--offline", "--format", "pylock.toml", *arguments, stdin=requirements
        )
    except Failed:
        return {}  # nothing depends on it but a warning that a disk is too small
    return sizes.files_in(output.printed)
