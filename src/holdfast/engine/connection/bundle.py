"""Bundles the runner: its files, their content hash, and the zip that is sent to a target without it."""

from __future__ import annotations

import os
import sys

from holdfast.location import PACKAGE
from holdfast.runner.store.files import UNSYNCED, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json

# Characters that a host need not wrap: the first program to run on a target is on its command line.
UNPACK = "import binascii,sys;exec(binascii.a2b_base64(sys.argv[1]))"
_ALONE = ("runner/bootstrap.py", "runner/machine/store_locations.py", "runner/run/login_shell.py")


def digest(note: str) -> str:
    """The content hash that names the runner. ``note`` is a file that remembers it for as long as no source changes."""
    sources = _sources()
    signature = _signature(sources)
    try:
        with open(note, encoding="ascii") as source:
            remembered, content_hash, checksum = source.read().split("\n")[:3]
        if remembered == signature and checksum == _checksum(signature, content_hash):
            return content_hash
    except (OSError, ValueError):
        pass
    content_hash = _digest(sources)
    _remember(note, f"{signature}\n{content_hash}\n{_checksum(signature, content_hash)}\n")
    return content_hash


def to_zip() -> bytes:
    import io
    import zipfile

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, path in sorted(_sources().items()):
            bundle.writestr(zipfile.ZipInfo(name), _read(path), zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def boot_words() -> str:
    """The first program as one word that no shell will touch."""
    return as_word(_read(os.path.join(PACKAGE, "runner", "bootstrap.py")))


def standalone(name: str, payload: Json) -> tuple[str, ...]:
    """Arguments for a Python that runs a program of the runner's tree where the runner may not be installed."""
    import json

    program = _read(os.path.join(PACKAGE, *name.split("/")))
    return "-I", "-S", "-c", UNPACK, as_word(program), as_word(json.dumps(payload).encode("ascii"))


def as_word(data: bytes) -> str:
    """Anything as a word without a character that a shell would touch."""
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _sources() -> dict[str, str]:
    """Name in the bundle -> file. Programs that are sent alone are not in it."""
    sources = {**_python_files("runner"), **_python_files("builder"), **_python_files("compat", "site")}
    for name in _ALONE:
        del sources[name]
    sources["site/holdfast.py"] = os.path.join(PACKAGE, "script_api", "track.py")
    sources["site/holdfast_notebook.py"] = os.path.join(PACKAGE, "script_api", "notebook.py")
    sources["site/holdfast_kernel.py"] = os.path.join(PACKAGE, "script_api", "kernel.py")
    sources["site/_holdfast_tunnel.py"] = os.path.join(PACKAGE, "script_api", "tunnel.py")
    sources["site/_holdfast_cells.py"] = os.path.join(PACKAGE, "script_api", "cell_history.py")
    sources["site/_holdfast_values.py"] = os.path.join(PACKAGE, "script_api", "values.py")
    sources["site/_holdfast_replace.py"] = os.path.join(PACKAGE, "script_api", "replace.py")
    sources["site/_holdfast_client_names.py"] = os.path.join(PACKAGE, "script_api", "client_names.py")
    sources["site/sitecustomize.py"] = os.path.join(PACKAGE, "script_api", "sitecustomize.py")
    sources.update(_python_files(os.path.join("script_api", "capture"), "site/_holdfast_capture"))
    sources.update(_python_files(os.path.join("script_api", "spark"), "site/_holdfast_spark"))
    binding = _binding()
    if binding:
        sources["runner/gpu/pynvml.py"] = (
            binding  # inside the runner, where no script finds it; it begins with its licence
        )
    return sources


def _python_files(package: str, name: str = "") -> dict[str, str]:
    """Every module of a package with its name in the bundle, where the package may have another name."""
    files = {}
    for entry in os.scandir(os.path.join(PACKAGE, package)):
        inner = f"{name or package}/{entry.name}"
        if entry.name.endswith(".py"):
            files[inner] = entry.path
        elif entry.name != "__pycache__" and entry.is_dir():
            files.update(_python_files(os.path.join(package, entry.name), inner))
    return files


def _binding() -> str:
    """NVIDIA's binding to its library; empty where it is not installed.

    Taken from NVIDIA's distribution: another file of that name on the path may come from elsewhere.
    """
    for folder in sys.path:
        path = os.path.join(folder, "pynvml.py")
        if os.path.isfile(path):
            names = os.listdir(folder)
            if any(name.startswith("nvidia_ml_py-") and name.endswith(".dist-info") for name in names):
                return path
    return ""


def _signature(sources: dict[str, str]) -> str:
    stats = [(name, os.stat(path)) for name, path in sorted(sources.items())]
    return ";".join(f"{name},{status.st_mtime_ns},{status.st_size},{status.st_ino}" for name, status in stats)


def _checksum(signature: str, content_hash: str) -> str:
    import binascii

    return f"{binascii.crc32(f'{signature} {content_hash}'.encode()):08x}"


def _digest(sources: dict[str, str]) -> str:
    import hashlib

    whole = hashlib.sha256()
    for name in sorted(sources):
        whole.update(name.encode() + b"\0" + hashlib.sha256(_read(sources[name])).digest())
    return whole.hexdigest()


def _remember(note: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
        write_whole(note, text.encode("ascii"), sync=UNSYNCED)
    except OSError:
        return  # a note is only a note


def _read(path: str) -> bytes:
    with open(path, "rb") as source:
        return source.read()
