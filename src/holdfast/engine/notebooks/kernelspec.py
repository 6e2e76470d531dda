"""Kernelspecs: the files by which Jupyter finds the kernels of targets. Jupyter itself is not needed for them."""

from __future__ import annotations

import json
import os
import re
import sys

from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.store.files import UNSYNCED, write_whole
from holdfast.runner.store.remove_tree import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model import Project

_LARGEST = 1 << 20
_LONGEST = 255  # bytes of a folder's name on common file systems
_NAME = re.compile(r"[a-z0-9._-]+")


class Kernel(Record):
    """An installed kernel. ``project`` is the folder of its project."""

    name: str
    display_name: str
    config: str
    project: str
    path: str


def folder() -> str:
    """Where Jupyter looks for the user's kernels."""
    data = os.environ.get("JUPYTER_DATA_DIR")
    if not data and sys.platform == "darwin":
        data = os.path.expanduser("~/Library/Jupyter")
    elif not data and sys.platform == "win32":
        data = os.path.join(os.environ.get("APPDATA") or os.path.expanduser("~"), "jupyter")
    elif not data:
        data = os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "jupyter")
    return os.path.join(data, "kernels")


def install(project: Project, config: str, name: str | None, options: Sequence[str]) -> Kernel:
    """``options`` of ``holdfast kernel run`` are part of the kernel; ``name`` is by default the original's."""
    name = (name or re.sub(r"[^a-z0-9._-]", "-", f"{project.name}_{config}".lower())).lower()
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name of a kernel", hint="letters, digits, dots, hyphens and underscores")
    if len(name) > _LONGEST:
        what = f"the name of this kernel has {len(name)} characters; at most {_LONGEST} are possible"
        raise UsageError(what, where=name[:80], hint="choose a shorter one with --name")
    kernel = Kernel(name, f"{project.name} {config}", config, project.root, os.path.join(folder(), name))
    if os.path.exists(kernel.path) and _read(name) is None:
        what = f"another kernel has the name {name}"
        raise UsageError(what, where=kernel.path, hint="choose another one with --name")
    # -P and -I do not fit all versions and installations; the program leaves the notebook's folder out of its path.
    program = "import sys; sys.path[:] = [p for p in sys.path if p]; from holdfast.__main__ import main; main()"
    command = [sys.executable, "-c", program, "kernel", "run", "-c", config, "-p", project.root, *options]
    spec: dict[str, object] = {
        "argv": [*command, "-f", "{connection_file}"],
        "display_name": kernel.display_name,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"holdfast": {"config": config, "project": project.root}},
    }
    if os.environ.get("HOLDFAST_HOME"):
        spec["env"] = {"HOLDFAST_HOME": os.environ["HOLDFAST_HOME"]}
    os.makedirs(kernel.path, exist_ok=True)
    write_whole(os.path.join(kernel.path, "kernel.json"), json.dumps(spec, indent=1).encode(), sync=UNSYNCED)
    return kernel


def kernels() -> list[Kernel]:
    """Those that Holdfast installed."""
    try:
        names = sorted(os.listdir(folder()))
    except FileNotFoundError:
        return []
    return [kernel for kernel in map(_read, names) if kernel is not None]


def remove(name: str) -> Kernel:
    kernel = _read(name) if _NAME.fullmatch(name) else None
    if kernel is None:
        known = ", ".join(kernel.name for kernel in kernels())
        hint = f"kernels of Holdfast: {known}" if known else "no kernel of Holdfast is installed"
        raise UsageError(f"Holdfast installed no kernel {name}", where=folder(), hint=hint)
    remove_tree(os.fsencode(kernel.path))
    return kernel


def _read(name: str) -> Kernel | None:
    path = os.path.join(folder(), name)
    try:
        spec = json.loads(untrusted.read_file(os.path.join(path, "kernel.json"), _LARGEST))
        ours = spec["metadata"]["holdfast"]
        return Kernel(name, str(spec["display_name"]), str(ours["config"]), str(ours["project"]), path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
