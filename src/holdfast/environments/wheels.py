"""Checks from a wheel's name whether it can be installed on a target, before it is downloaded."""

from __future__ import annotations

import re

from holdfast.amlconfig.types import Finding
from holdfast.environments.spec import python_of
from holdfast.environments.versions import release
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from packaging.tags import Tag

    from holdfast.environments.spec import Facts, Interpreter, Spec

_MACHINES = {
    "linux-64": (("linux", "manylinux"), ("x86_64",)),
    "linux-aarch64": (("linux", "manylinux"), ("aarch64",)),
    "linux-ppc64le": (("linux", "manylinux"), ("ppc64le",)),
    "osx-64": (("macosx",), ("x86_64", "universal2", "intel")),
    "osx-arm64": (("macosx",), ("arm64", "universal2")),
    "win-64": (("win",), ("amd64",)),
}
_SYSTEMS = {"win": "Windows", "manylinux": "Linux", "musllinux": "Linux with musl", "linux": "Linux", "macosx": "macOS"}
_OLD_MANYLINUX = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}


class Wheel(Record):
    """The name of a wheel file, taken apart; the tags as ``packaging`` has them, and the first ones as written."""

    name: str
    version: str
    python: str
    platform: str
    tags: frozenset[Tag]


def parse_wheel(address: str) -> Wheel | None:
    """The wheel that a URL or path ends in."""
    file = re.split(r"[?#\s]", address, maxsplit=1)[0].replace("\\", "/").rpartition("/")[2].replace("%2B", "+")
    parts = file[:-4].split("-") if file.lower().endswith(".whl") else []
    if len(parts) < 5:
        return None
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    # Old wheels have versions that PEP 440 does not allow, such as cntk's 2.0.beta15.0, so it is kept as written.
    version, parts[1] = parts[1], "0"
    try:
        name, _, _, tags = parse_wheel_filename("-".join(parts) + ".whl")
    except InvalidWheelFilename:
        return None
    return Wheel(name, version, parts[-3].partition(".")[0], parts[-1].partition(".")[0], tags)


def findings(spec: Spec, facts: Facts, interpreter: Interpreter | None = None) -> list[Finding]:
    """An error for every wheel named by URL or path that cannot fit the target."""
    result = []
    python = python_of(spec, interpreter)
    for entry in spec.pip:
        wheel = parse_wheel(entry.text.partition(" @ ")[2] or entry.text)
        reason = wheel and misfit(wheel, facts, python)
        if wheel and reason:
            message = f"the wheel of {wheel.name} {wheel.version} {reason}"
            hint = f"name one for {right_tag(facts, python)}, or write {wheel.name}=={wheel.version}"
            result.append(Finding("error", entry.file, entry.line, entry.column, message, hint))
    return result


def misfit(wheel: Wheel, facts: Facts, python: tuple[int, int] | None) -> str:
    """Why the wheel cannot be installed there; empty if it can. An unknown Python is not an obstacle."""
    if not any(_fits_platform(tag.platform, facts) for tag in wheel.tags):
        tag = wheel.platform
        system = next((name for prefix, name in _SYSTEMS.items() if tag.startswith(prefix)), tag)
        return f"is for {system} ({tag}); the target is {facts.platform}{_libc(tag, facts)}"
    if python and not _fits_python(wheel, python):
        return f"is for Python {wheel.python}; the environment has Python {python[0]}.{python[1]}"
    return ""


def right_tag(facts: Facts, python: tuple[int, int] | None) -> str:
    """The tag that a wheel for this target ends in."""
    systems, machines = _MACHINES.get(facts.platform, ((facts.platform,), ("",)))
    platform = {"win": f"win_{machines[0]}", "macosx": f"macosx_11_0_{machines[0]}"}.get(
        systems[0], f"{systems[0]}_{machines[0]}"
    )
    if not python:
        return platform
    tag = f"cp{python[0]}{python[1]}"
    return f"{tag}-{tag}{'m' if python < (3, 8) else ''}-{platform}"


def _fits_platform(tag: str, facts: Facts) -> bool:
    if tag == "any" or facts.platform not in _MACHINES:
        return True
    systems, machines = _MACHINES[facts.platform]
    system = tag.partition("_")[0].rstrip("0123456789")
    return system in systems and tag.endswith(machines) and not _libc(tag, facts)


def _libc(tag: str, facts: Facts) -> str:
    """The message about a glibc that is too old."""
    match = re.match(r"manylinux(?:_(\d{1,9})_(\d{1,9})|(1|2010|2014))_", tag)
    have = release(facts.virtual.get("__glibc") or "")
    if not match or not have:
        return ""
    needed = _OLD_MANYLINUX[match[3]] if match[3] else (int(match[1]), int(match[2]))
    return f" with glibc {have[0]}.{have[1]}" if have[:2] < needed else ""


def _fits_python(wheel: Wheel, python: tuple[int, int]) -> bool:
    from packaging import tags

    interpreter = f"cp{python[0]}{python[1]}"
    # Which ABI a Python has, with or without threads or debugging, is not known before the solve.
    abis = [tag.abi for tag in wheel.tags if tag.abi.startswith(interpreter)]
    supported = {*tags.cpython_tags(python, abis, ["any"]), *tags.compatible_tags(python, interpreter, ["any"])}
    return any(tags.Tag(tag.interpreter, tag.abi, "any") in supported for tag in wheel.tags)
