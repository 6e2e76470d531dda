"""Finds out whether a script, or a module of the project that it imports, imports a framework that uses GPUs. Pure."""

from __future__ import annotations

import posixpath
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FRAMEWORKS = ("torch", "tensorflow", "jax", "cupy", "cudf", "cuml", "lightning", "pytorch_lightning", "mxnet", "paddle")
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(?P<first>\.*[\w.]*)(?P<rest>[^#\n]*)", re.MULTILINE)


def imported(files: Mapping[str, str], script: str) -> tuple[str, str] | None:
    """The first file from the script on that imports one, and its name. ``files``: texts by path in the project."""
    waiting, seen = [script], {script}
    while waiting:
        name = waiting.pop(0)
        modules = list(_modules(files.get(name, "")))
        for module in modules:
            if module.partition(".")[0] in FRAMEWORKS:
                return name, module.partition(".")[0]
        for path in (path for module in modules for path in _paths(module, posixpath.dirname(name))):
            if path in files and path not in seen:
                seen.add(path)
                waiting.append(path)
    return None


def _modules(text: str) -> Iterator[str]:
    """Names after ``import`` and ``from``; of ``from package import a, b`` also ``package.a`` and ``package.b``."""
    for match in _IMPORT.finditer(text):
        first, rest = match["first"], match["rest"]
        yield first
        if rest.lstrip().startswith("import"):
            below = re.findall(r"\w+", rest.partition("import")[2])
            yield from (f"{first}{'' if first.endswith('.') else '.'}{name}" for name in below)
        else:
            yield from (word.split()[0] for word in rest.split(",")[1:] if word.split())


def _paths(module: str, folder: str) -> Iterator[str]:
    """Where a module of the project may be: beside the file that imports it, or at the top."""
    dots = len(module) - len(module.lstrip("."))
    path = module.lstrip(".").replace(".", "/")
    base = posixpath.normpath(posixpath.join(folder, *[".."] * (dots - 1))) if dots > 1 else folder
    for directory in (base,) if dots else (folder, ""):
        start = posixpath.join("" if directory == "." else directory, path)
        yield from (f"{start}.py", f"{start}/__init__.py")
