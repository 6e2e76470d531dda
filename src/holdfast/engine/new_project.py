"""Creates a project: a new folder with the files of a template and an identity."""

from __future__ import annotations

import os
import re

from holdfast import project as projects
from holdfast.errors import StoreError, UsageError
from holdfast.model import Project
from holdfast.runner import untrusted
from holdfast.runner.decoding import readable
from holdfast.runner.store import layout
from holdfast.runner.store.files import temporary_beside
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store.home import location

_TEMPLATES = os.path.join(os.path.dirname(projects.__file__), "templates")


def create(parent: str, name: str, template: str, url: str = "") -> str:
    """Make the folder beside and rename it: it is there whole or not at all. Returns its path.

    With ``url``, the template is a git repository.
    """
    if not name.strip(".") or name != os.path.basename(name):
        raise UsageError(f"{name!r} is not a valid folder name", where="--name")
    source = "" if url else _template_folder(template)
    folder = os.path.join(os.path.abspath(parent), name)
    if os.path.lexists(folder):
        raise UsageError(
            "this folder already exists; nothing was created",
            where=folder,
            hint="use another --name, or submit from that folder",
        )
    if url:
        _make_from_repository(url, folder, name)
    else:
        _make(source, folder, name)
    _git_init(folder)
    return folder


def first_script(folder: str) -> str:
    """The script that the readme submits first, else the first one by name; empty without a script."""
    scripts = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    try:
        readme = readable(untrusted.read_file(os.path.join(folder, "README.md"), 1 << 16))
    except (OSError, ValueError):
        readme = ""
    named = re.findall(r"submit\s-c\slocal\s([\w.-]+\.py)", readme)
    return next((name for name in (*named, *scripts) if name in scripts), "")


def templates() -> dict[str, str]:
    """Name -> folder; a template of the user's own wins over ours of the same name."""
    folders = {}
    for parent in (_TEMPLATES, layout.templates(location())):
        for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else ():
            if os.path.isdir(os.path.join(parent, name)) and not name.startswith(("_", ".")):
                folders[name] = os.path.join(parent, name)
    return folders


def summary(folder: str) -> str:
    """The heading of the template's README."""
    try:
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as source:
            return source.readline().lstrip("# ").strip()
    except OSError:
        return ""


def _make_from_repository(url: str, folder: str, name: str) -> None:
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as parent:
        clone = os.path.join(parent, "clone")
        argv = ["git", "clone", "--quiet", "--depth", "1", "--", url, clone]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except FileNotFoundError as error:
            raise UsageError("--template-url needs git, which is not installed", hint="install git") from error
        if done.returncode:
            answer = readable(done.stderr).strip()
            raise UsageError("the template could not be fetched with git", where=url, answer=answer)
        _make(clone, folder, name)


def _make(source: str, folder: str, name: str) -> None:
    import shutil

    beside = temporary_beside(folder)
    unwanted = shutil.ignore_patterns("__pycache__", projects.FILE, ".git")
    try:
        shutil.copytree(source, beside, symlinks=True, ignore=unwanted)
        projects.remember(Project(beside, "", name, is_new=True))
        os.rename(beside, folder)
    except BaseException as error:
        remove_tree(os.fsencode(beside))
        if isinstance(error, shutil.Error):  # one (source, target, reason) for each file
            _, path, reason = error.args[0][0]
            raise StoreError("the project could not be created", where=str(path), answer=str(reason)) from error
        raise


def _template_folder(template: str) -> str:
    """A template of ours, one of the user's own (``templates`` in the store), or any folder named by its path."""
    if os.sep in template and os.path.isdir(template):
        return template
    folders = templates()
    if template not in folders:
        hint = f"templates: {', '.join(folders)}; or the path of a folder, with a {os.sep} in it"
        raise UsageError(f"no such template: {template!r}", hint=hint)
    return folders[template]


def _git_init(folder: str) -> None:
    """As the original did, where git is there and the folder is not inside a repository already."""
    import subprocess

    from holdfast.engine.submit import git_repository

    if git_repository.find(folder) is not None:
        return
    try:
        subprocess.run(["git", "-C", folder, "init", "-q"], capture_output=True, check=False)
    except FileNotFoundError:
        return
