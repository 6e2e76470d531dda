"""``holdfast project ...``"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast.errors import UsageError
from holdfast.model import Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed

_TEMPLATES = os.path.join(os.path.dirname(projects.__file__), "templates")


def create(parsed: Parsed) -> int:
    """A new folder with a template's files and an identity, made beside and renamed: there whole or not at all."""
    import shutil

    name, template = parsed.text("name") or "", parsed.text("template") or "blank"
    if not name.strip(".") or name != os.path.basename(name):
        raise UsageError(f"{name!r} cannot be the name of a folder", where="--name")
    source = os.path.join(_TEMPLATES, template)
    if template not in templates():
        raise UsageError(f"there is no template {template!r}", hint=f"templates: {', '.join(templates())}")
    folder = os.path.join(os.path.abspath(parsed.text("path") or "."), name)
    if os.path.lexists(folder):
        raise UsageError(
            "this folder is there already; nothing was made",
            where=folder,
            hint="another --name, or just submit from it",
        )
    beside = f"{folder}.{os.getpid()}.tmp"
    shutil.copytree(source, beside, ignore=shutil.ignore_patterns("__pycache__"))
    projects.remember(Project(beside, "", name, is_new=True))
    os.rename(beside, folder)
    _git_init(folder)
    script = next((file for file in sorted(os.listdir(folder)) if file.endswith(".py")), "your_script.py")
    sys.stdout.write(f"{folder}\n")
    sys.stderr.write(f"next: cd {os.path.relpath(folder)} && holdfast submit -c local {script}\n")
    return 0


def templates() -> list[str]:
    return sorted(
        name
        for name in os.listdir(_TEMPLATES)
        if os.path.isdir(os.path.join(_TEMPLATES, name)) and not name.startswith("_")
    )


def _git_init(folder: str) -> None:
    """As the original did, where git is there and the folder is not inside somebody's repository already."""
    import subprocess

    try:
        inside = subprocess.run(["git", "-C", folder, "rev-parse", "--git-dir"], capture_output=True, check=False)
        if inside.returncode != 0:
            subprocess.run(["git", "-C", folder, "init", "-q"], capture_output=True, check=False)
    except FileNotFoundError:
        return
