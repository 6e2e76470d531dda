"""Converts ``uv.lock`` and ``pylock.toml``, which need no solving."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from .failure import Failed
from .requirement_lines import requirement_lines

if TYPE_CHECKING:
    from .uv import Uv

Json = dict[str, Any]

REGISTRY = re.compile(r'source = \{ registry = "([^"]+)" \}')


def from_uv_lock(spec: Json, options: Json, request: Json, python_words: list[str], uv: Uv) -> tuple[list[str], Json]:
    """The text of a uv.lock, which uv reads only beside its pyproject.toml."""
    project = os.path.join(request.get("project") or ".", os.path.dirname(spec["source"]))
    os.makedirs(request["cache"], exist_ok=True)
    folder = tempfile.mkdtemp(prefix="solve-", dir=request["cache"])  # which a container sees as well
    try:
        shutil.copy(os.path.join(project, "pyproject.toml"), folder)
        with open(os.path.join(folder, "uv.lock"), "w", encoding="utf-8") as file:
            file.write(spec["locked"])
        arguments = ["--frozen", "--no-dev", "--no-emit-workspace", "--no-header", "--no-annotate", "--no-build"]
        printed = uv.run("export", *arguments, *python_words, where=spec["source"], folder=folder).printed
    finally:
        shutil.rmtree(folder)
    return requirement_lines(printed), _with_indexes(options, REGISTRY.findall(spec["locked"]))


def from_pylock(spec: Json, options: Json) -> tuple[list[str], Json]:
    try:
        import tomllib
    except ImportError:
        hint = "give the builder a newer Python, or declare the packages in requirements.txt"
        raise Failed(
            "platform", "pylock.toml needs a builder with Python 3.11", where=spec["source"], hint=hint
        ) from None
    try:
        packages = tomllib.loads(spec["locked"])["packages"]
        lines = [line for package in packages if (line := _pylock_line(package))]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Failed("unsatisfiable", f"this pylock.toml cannot be read: {error}", where=spec["source"]) from None
    return lines, _with_indexes(options, [package["index"] for package in packages if "index" in package])


def _pylock_line(package: Json) -> str:
    """As PEP 751 tells where a package comes from; a directory is the project itself."""
    marker = f" ; {package['marker']}" if package.get("marker") else ""
    if "vcs" in package:
        vcs = package["vcs"]
        return f"{package['name']} @ {vcs['type']}+{vcs['url']}@{vcs['commit-id']}{marker}"
    if "archive" in package:
        return f"{package['name']} @ {package['archive']['url']}{marker}{_hashes([package['archive']])}"
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    return f"{package['name']}=={package['version']}{marker}{_hashes(files)}" if files else ""


def _hashes(files: list[Json]) -> str:
    return "".join(sorted(f" --hash=sha256:{file['hashes']['sha256']}" for file in files))


def _with_indexes(options: Json, named: list[str]) -> Json:
    """The indexes that the lock was made from, where the project's file does not say others."""
    urls = list(dict.fromkeys(named))
    indexes = {"index_url": urls[0] if urls else "", "extra_index_urls": urls[1:]}
    return {**{name: value for name, value in indexes.items() if value}, **options}
