"""What an environment is made for: platform, C library, driver, and the interpreter that a name stands for here."""

import os
import sys

from . import jsonl

_MACHINES = {"x86_64": "64", "amd64": "64", "aarch64": "aarch64", "arm64": "arm64", "ppc64le": "ppc64le"}
_ASK = (
    "import os, platform, sys; print(platform.python_version()); print(platform.python_implementation()); "
    "print(sys.prefix); print(os.path.realpath(sys.executable))"
)


def facts(home: "bytes", python: "str") -> "dict[str, object]":
    return {"platform": platform(), "virtual": virtual_packages(), "python": interpreter(home, python)}


def platform() -> "str":
    """The conda name of this kind of machine, such as linux-64 or osx-arm64."""
    system = "osx" if sys.platform == "darwin" else "linux"
    machine = os.uname().machine.lower()
    return "%s-%s" % (system, _MACHINES.get(machine, machine))


def virtual_packages() -> "dict[str, str | None]":
    """Conda's names for what the machine itself brings; None where it is not there."""
    found = {"__unix": "0", "__linux": None, "__glibc": None, "__osx": None, "__cuda": cuda_version()}
    if sys.platform == "darwin":
        found["__osx"] = os.uname().release
    else:
        found["__linux"] = os.uname().release.split("-")[0]
        found["__glibc"] = _glibc()
    return found


def cuda_version() -> "str | None":
    """The newest CUDA that the installed driver can run, asked of the driver itself."""
    import ctypes

    try:
        number = ctypes.c_int(0)
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return "%d.%d" % (number.value // 1000, number.value % 1000 // 10)


def interpreter(home: "bytes", name: "str") -> "dict[str, object] | None":
    """Path, version and identity of what a name stands for on this machine; None if there is nothing of that name.

    Starting it takes tens of milliseconds, so its answer is remembered for as long as the file stays the same.
    """
    path = which(name) or (which("python3") if name == "python" else None)
    if path is None:
        return None
    note = os.path.join(home, b"cache", b"interpreters.jsonl")
    is_script = _is_script(path)  # what a shim starts may change while the shim stays the same
    for line in [] if is_script else jsonl.read_lines(note):
        if line.get("path") == path and line.get("identity") == _identity(os.path.realpath(path)):
            return line
    answer = _ask(path)
    if answer is None:
        return None
    line = {"path": path, "version": answer[0], "implementation": answer[1], "prefix": answer[2]}
    line["identity"] = _identity(answer[3])
    if not is_script:
        os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
        jsonl.append_line(note, line)
    return line


def which(name: "str") -> "str | None":
    name = os.path.expanduser(name)
    if os.path.dirname(name):
        return name if os.access(name, os.X_OK) else None
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _identity(real: "str") -> "str":
    found = os.stat(real)
    return "%s:%d:%d" % (real, found.st_size, int(found.st_mtime))


def _is_script(path: "str") -> "bool":
    with open(path, "rb") as source:
        return source.read(2) == b"#!"


def _ask(path: "str") -> "list[str] | None":
    import subprocess

    try:
        said = subprocess.check_output([path, "-I", "-c", _ASK], stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = said.decode("utf-8", "replace").split("\n")
    return lines if len(lines) >= 4 else None


def _glibc() -> "str | None":
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").split()[-1]  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return None
