"""Installs the project's own package: metadata and commands in the environment, modules from the run's copy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .uv import Uv

Json = dict[str, Any]


def install_own_package(request: Json, uv: Uv) -> list[str]:
    """The folders of the project, relative to it, that a run must put on its path.

    An environment is shared by runs that have each their own copy, so it must not name the folder it was made from.
    """
    source, beside = os.path.abspath(request["own_package"]), request["beside"]
    arguments = ["--no-deps", "--break-system-packages", "--python", f"{beside}/bin/python", "--editable", source]
    # Without this setuptools writes an import hook where others write a path.
    arguments += ["--config-setting", "editable_mode=compat"] if _uses_setuptools(source) else []
    uv.run("pip", "install", *arguments, *uv.index_words(request["lock"]["pip_options"]), where=source)
    return sorted({os.path.relpath(path, source) for path in _take_paths(beside, source)})


def _uses_setuptools(source: str) -> bool:
    try:
        with open(os.path.join(source, "pyproject.toml"), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return True
    return "setuptools" in text or "build-backend" not in text


def _take_paths(beside: str, source: str) -> list[str]:
    """Remove the ``.pth`` files that name the project's folder, and say what they named."""
    taken: list[str] = []
    for folder, _, names in os.walk(os.path.join(beside, "lib")):
        for path in (os.path.join(folder, name) for name in names if name.endswith(".pth")):
            with open(path, encoding="utf-8") as file:
                named = [line.strip() for line in file if os.path.isabs(line.strip())]
            if any(f"{name}/".startswith(f"{source}/") for name in named):
                taken += named
                os.unlink(path)
    return taken
