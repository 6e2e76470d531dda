"""Finds the project that a folder belongs to, and its identity.

A project is the nearest folder upwards that has an identity (``.holdfast-project``, or the original's
``.azureml/project.json``) or an ``aml_config`` folder; where there is none, the current folder becomes one the first
time something is submitted from it. A project of another user than root is used only after ``holdfast trust FOLDER``,
as with git's ``safe.directory``. The user's home and the folders above it are never the project of a folder below them,
and become one themselves only after ``holdfast trust FOLDER``: a snapshot would hold everything of the user's.
"""

from __future__ import annotations

import os

from holdfast.errors import ConfigError
from holdfast.model import Project
from holdfast.runner import json_text, untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store.files import UNSYNCED, WholeFile
from holdfast.trust.ownership import foreign_owner, is_own_folder, is_shared

FILE = ".holdfast-project"
_ORIGINAL = os.path.join(".azureml", "project.json")
_MARKS = (FILE, _ORIGINAL, "aml_config")
_LARGEST = 1 << 20


def find(start: str) -> Project:
    """The project of a folder. Reads only; ``is_new`` says that its identity is not on disk yet."""
    root, passed_over = _root_of(os.path.abspath(start))
    project = _ours(root) or _originals(root) or _unnamed(root)
    return project._replace(passed_over=passed_over) if passed_over else project


def remember(project: Project) -> Project:
    """Write a new project's identity into its folder; where the folder is read-only, its path is its identity."""
    if not project.is_new:
        return project
    if not is_own_folder(project.root) or holds_home(project.root):
        return project._replace(is_new=False)
    path = os.path.join(project.root, FILE)
    named = project._replace(id=_guid(os.urandom(16).hex()), is_new=False)
    try:
        import json

        with WholeFile(path, 0o666, UNSYNCED, new=True) as target:
            target.write(json.dumps({"id": named.id, "name": named.name}, indent=2).encode() + b"\n")
    except FileExistsError:
        return find(project.root)  # another process submitted first
    except OSError:
        return project._replace(is_new=False)
    return named


def refuse_foreign(path: str, folder: str) -> None:
    """An error if a file of the project in ``folder`` belongs to another user, and the user has not confirmed that."""
    owner = foreign_owner(path)
    if owner is not None and not is_confirmed(folder):
        raise _refusal(path, owner, folder)


def holds_home(folder: str) -> bool:
    """Whether the user's home, or the folder of the user's SSH keys, is this folder or below it."""
    real, home = os.path.realpath(folder), os.path.expanduser("~")
    return any(is_inside(os.path.realpath(path), real) for path in (home, os.path.join(home, ".ssh")))


def refuse_home(root: str) -> None:
    """An error where a snapshot of the folder would be one of the user's home; nothing was read yet."""
    if holds_home(root) and not is_confirmed(root):
        from shlex import quote

        hint = f"make a folder (mkdir) and move the script there; or allow it: holdfast trust {quote(root)}"
        raise ConfigError(
            "this folder is not used as a project: it holds your home directory; nothing was stored or sent",
            where=root,
            answer="all your files, private ones too, would be part of the run",
            hint=hint,
        )


def _root_of(folder: str) -> tuple[str, str]:
    """The project's folder, and a folder above that was not used because of its owner or because it is the home."""
    home = os.path.expanduser("~")
    above = folder
    while True:
        paths = marks(above)
        if paths and above != folder and holds_home(above):
            return folder, above
        if paths:
            foreign = _foreign(above, paths, above != folder)
            if foreign is None:
                return above, ""
            if above != folder and foreign_owner(folder) is None:
                return folder, above
            raise _refusal(*foreign, above)
        parent = os.path.dirname(above)
        if above in (parent, home):
            return folder, ""
        above = parent


def nearest(start: str) -> str:
    """The folder that a search for the project ends at, whatever its owner."""
    folder = above = os.path.abspath(start)
    while not marks(above):
        parent = os.path.dirname(above)
        if above in (parent, os.path.expanduser("~")):
            return folder
        above = parent
    return folder if above != folder and holds_home(above) else above


def marks(folder: str) -> list[str]:
    """The files and folders by which a folder is a project, with those above them."""
    paths = [path for path in (os.path.join(folder, mark) for mark in _MARKS) if os.path.exists(path)]
    return list(dict.fromkeys([*map(os.path.dirname, paths), *paths]))


def _foreign(folder: str, paths: list[str], is_above: bool) -> tuple[str, int] | None:
    """What belongs to another user, and to whom, unless this user has confirmed the folder.

    The files by which it is a project come first: another user may have put them into a folder of root. A folder that
    every user can write to is not used from a folder below it.
    """
    owners = ((path, foreign_owner(path)) for path in (*reversed(paths), folder))
    foreign = next(((path, owner) for path, owner in owners if owner is not None), None)
    if foreign is None and is_above and is_shared(folder):
        foreign = folder, os.stat(folder).st_uid
    return None if foreign is None or is_confirmed(folder) else foreign


def is_confirmed(folder: str) -> bool:
    """Whether the user allowed files of other users in this folder."""
    from holdfast.location import location
    from holdfast.trust.confirmations import is_trusted_folder

    return is_trusted_folder(location(), folder)


def _refusal(path: str, owner: int, folder: str) -> ConfigError:
    from shlex import quote

    from holdfast.runner.store.file_owners import user_name

    what = "this project is not used: it belongs to another user"
    answer = f"owner of {path}: {user_name(owner)}"
    return ConfigError(what, where=folder, answer=answer, hint=f"if you trust it: holdfast trust {quote(folder)}")


def _ours(root: str) -> Project | None:
    fields = _read(root, FILE, "id")
    if fields is None:
        return None
    name = str(fields.get("name") or _folder_name(root))
    _refuse_names(root, FILE, name)
    return Project(root, str(fields["id"]), name)


def _originals(root: str) -> Project | None:
    """The Workbench's own binding: its guid goes on, and the names of its scope give the share path."""
    fields = _read(root, _ORIGINAL, "Id")
    if fields is None:
        return None
    parts = str(fields.get("Scope", "")).strip("/").split("/")  # as Azure writes it: /subscriptions/ID/...
    scope = dict(zip(parts[::2], parts[1::2], strict=False))
    name = scope.get("projects") or _folder_name(root)
    account, workspace = scope.get("accounts", "local"), scope.get("workspaces", "default")
    _refuse_names(root, _ORIGINAL, name, account, workspace)
    return Project(root, str(fields["Id"]), name, account, workspace)


def _unnamed(root: str) -> Project:
    """Named by its path until it is remembered, so that a dry run needs to write nothing."""
    import hashlib

    digest = hashlib.sha256(as_bytes(os.path.realpath(root))).hexdigest()
    return Project(root, _guid(digest), _folder_name(root), is_new=True)


def _guid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _folder_name(root: str) -> str:
    return os.path.basename(root) or "root"


def _refuse_names(root: str, file: str, *names: str) -> None:
    """They become folders of the share path."""
    try:
        for name in names:
            untrusted.component(name)
    except untrusted.Untrusted as error:
        raise ConfigError(
            "the project name in this file is not a valid folder name",
            where=os.path.join(root, file),
            answer=str(error),
            hint="write a name without / that is not . or ..",
        ) from None


def _read(root: str, file: str, key: str) -> dict[str, object] | None:
    """The file's object if ``key`` in it is a GUID. Its case is kept: the project's history is filed under it."""
    path = os.path.join(root, file)
    try:
        document = json_text.loads(untrusted.read_file(path, _LARGEST, root).decode("utf-8-sig"))
    except FileNotFoundError:
        return None
    except (ValueError, OSError, RecursionError) as error:
        raise ConfigError("the project file cannot be read", where=path, answer=str(error), hint="delete it") from error
    if not isinstance(document, dict) or not isinstance(document.get(key), str):
        raise ConfigError(f'the project file has no "{key}"', where=path, hint="delete it")
    try:
        untrusted.guid(document[key])
    except untrusted.Untrusted as error:
        raise ConfigError(
            f'the project file is invalid: its "{key}" is not a GUID',
            where=path,
            answer=str(error),
            hint="delete the file; the next submit creates a new project identity",
        ) from None
    return document
