"""``holdfast trust``: confirm what a project requests, list confirmations, revoke them."""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.engine.submit import confirmation as engine
from holdfast.engine.submit import trust_policy
from holdfast.environments import choice
from holdfast.errors import HoldfastError, UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import show
from holdfast.snapshot import ignore
from holdfast.store import trust_file
from holdfast.store.home import location, open_home
from holdfast.trust import confirmations, ownership

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.engine.submit.confirmation import Open

_COLUMNS = ("project", "target", "key", "value")


def trust(parsed: Parsed) -> int:
    if parsed.flag("list"):
        return _list(parsed)
    word = parsed.text("name") or parsed.text("word")
    if not word:
        hint = "holdfast trust NAME, or holdfast trust . for everything in this project"
        raise UsageError("no target or folder given", hint=hint)
    folder = _folder(parsed, word)
    if parsed.flag("forget"):
        return _forget(parsed, word, folder)
    pending = _of_folder(folder) if folder else _of_name(parsed, word)
    if not pending:
        sys.stderr.write(f"{show(word)}: nothing left to confirm\n")
    for shown in dict.fromkeys(permission.shown for open_ in pending for permission in open_.missing):
        sys.stderr.write(f"confirmed: {show(shown)}\n")
    return 0


def _folder(parsed: Parsed, word: str) -> str:
    """The folder that is meant; empty where it is a name. A name that a target has is that target."""
    if os.sep not in word and "/" not in word and word not in (os.curdir, os.pardir):
        if not os.path.isdir(word):
            return ""
        try:
            places = target_lookup.folders(_root(parsed), location())
        except HoldfastError:
            places = ()
        if word in (*target_lookup.targets(places), *target_lookup.configurations(places)):
            return ""
    folder = os.path.abspath(os.path.expanduser(word))
    if not os.path.isdir(folder):
        raise UsageError("no such folder", where=folder)
    return folder


def _of_name(parsed: Parsed, name: str) -> list[Open]:
    """What the run configuration and the target of that name ask for."""
    home, root = open_home(), _root(parsed)
    places = target_lookup.folders(root, home.path)
    chosen = [target_lookup.choose(places, name)]
    if name in target_lookup.targets(places):
        chosen.append(target_lookup.choose(places, name, name))
    results = [engine.look(home.path, root, item, everything=True) for item in chosen]
    pending = [item for item in results if item is not None]
    trust_file.confirm(home, [row for item in pending for row in item.rows])
    return pending


def _of_folder(folder: str) -> list[Open]:
    """Everything in a project, and that it may be used although it belongs to another user."""
    home, folder = open_home(), projects.nearest(folder)
    owner = ownership.foreign_owner(folder)
    files = [path for path in projects.marks(folder) if ownership.foreign_owner(path) is not None]
    files += [*choice.foreign_files(folder), *ignore.foreign_files(folder)]
    if owner is not None or files or engine.foreign_files(folder) or ownership.is_shared(folder):
        trust_file.confirm(home, (), folder)
        sys.stderr.write(f"confirmed: use {show(folder)}, which another user can change\n")
    if projects.holds_home(folder):
        trust_file.confirm(home, (), folder)
        sys.stderr.write(f"confirmed: use {show(folder)}, with all files of your home directory, as a project\n")
    root = projects.find(folder).root
    skipped: list[HoldfastError] = []
    pending = engine.every(home.path, root, skipped)
    trust_file.confirm(home, [row for item in pending for row in item.rows])
    for message in dict.fromkeys(f"{error.where}: {error.what}" for error in skipped):
        sys.stderr.write(f"WARNING: not confirmed, because the file has an error: {show(message)}\n")
    return pending


def _list(parsed: Parsed) -> int:
    stored = confirmations.read(location())
    rows = [{**row._asdict(), "value": _readable(row), "stored": row.value} for row in stored.confirmed]
    rows += [{"project": path, "target": "", "key": "its owner", "value": "may be used"} for path in stored.folders]
    rows += [
        {"project": "", "target": "", "key": "address", "value": f"known before: {name}"} for name in stored.machines
    ]
    emit(rows, **parsed.form(), columns=_COLUMNS)
    return 0


def _readable(row: confirmations.Confirmation) -> str:
    """A machine as user, address and fingerprint; the address is that in its file, if it still has this key."""
    user, _, rest = row.value.partition("@")
    if row.key != "address" or not rest.startswith(("ssh-", "ecdsa-", "sk-")):
        return row.value
    from holdfast.hosts.openssh import fingerprint

    key = rest.partition(trust_policy.IN_CONTAINER)[0]
    address = ""
    try:
        compute = target_lookup.choose(target_lookup.folders(row.project, location()), "local", row.target).compute
        address = target_lookup.endpoint(compute)[0] if compute.host_key and rest.startswith(compute.host_key) else ""
        shown = fingerprint(key)
    except (HoldfastError, ValueError, IndexError):
        return row.value
    return f"{user}@{address}, host key {shown}{rest[len(key) :]}" if address else f"{user}, host key {shown}"


def _forget(parsed: Parsed, word: str, folder: str) -> int:
    home = open_home()
    if folder:
        count = trust_file.forget(home, os.path.realpath(projects.nearest(folder)))
    else:
        root, name, machine = _root(parsed), word, ""
        try:
            compute = target_lookup.choose(target_lookup.folders(root, home.path), word).compute
            name, machine = compute.name, engine.machine_of(home.path, compute) if compute.kind.is_remote else ""
        except HoldfastError:
            pass  # the file is gone; what was confirmed for it can still be taken back
        count = trust_file.forget(home, engine.scope_of(home.path, root), name, machine)
    if not count:
        raise UsageError(f"nothing is confirmed for {word}", hint="holdfast trust --list shows what is")
    sys.stderr.write(f"{show(word)}: must be confirmed again\n")
    return 0


def _root(parsed: Parsed) -> str:
    return projects.find(parsed.text("project") or os.getcwd()).root
