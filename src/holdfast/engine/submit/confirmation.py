"""Whether what a project asks for was confirmed by this user on this machine; ``trust_policy`` has the rules."""

from __future__ import annotations

import os
from itertools import pairwise

from holdfast import target_lookup
from holdfast.engine.submit import trust_policy
from holdfast.engine.submit.trust_policy import SWITCHES, Wanted, covers
from holdfast.errors import ConfigError, HoldfastError
from holdfast.record import Record
from holdfast.runner import json_text, untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.runner.store.file_owners import user_name
from holdfast.runner.untrusted import Untrusted, hexadecimal
from holdfast.trust import confirmations
from holdfast.trust.confirmations import Confirmation
from holdfast.trust.ownership import foreign_owner

__all__ = [
    "Open",
    "confirms_target",
    "every",
    "foreign_files",
    "look",
    "machine_of",
    "refusal",
    "scope_of",
    "unconfirmed",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.amlconfig.types import ComputeTarget, Finding, Severity
    from holdfast.target_lookup import Chosen
    from holdfast.trust.confirmations import Confirmations


class Open(Record):
    """What a target asks for and is not confirmed yet. ``rows`` are all its values, as they would be confirmed."""

    name: str
    root: str
    missing: tuple[Wanted, ...]
    rows: tuple[Confirmation, ...]
    chosen: Chosen

    @property
    def subject(self) -> str:
        """Which file asks: the run configuration where it is the one, else the target."""
        config = self.chosen.config
        by_config = config.container is not None or any(permission.is_in_runconfig for permission in self.missing)
        return config.name if by_config else self.name

    @property
    def command(self) -> str:
        """What confirms it."""
        from shlex import quote

        name = quote(self.subject)
        argv = ["holdfast", "trust", f"--name={name}" if name.startswith("-") else name]
        return " ".join(argv if _is_here(self.root) else [*argv, "--project", quote(self.root)])


def look(
    home: str, root: str, chosen: Chosen, keys: Sequence[str] | None = None, *, everything: bool = False
) -> Open | None:
    """What is missing for the use of a target by the project in ``root``; None if all of it is confirmed.

    Without ``keys`` that is everything but the commands that switch the machine, which count when they are run; with
    ``everything`` those too.
    """
    compute = chosen.compute
    if not compute.kind.is_available:
        return None  # refused for that, whatever else it asks for
    needed = [*trust_policy.wanted(compute, chosen.config, root), *_redirected(home, root, chosen)]
    if not needed:
        return None
    stored, scope = confirmations.read(home), scope_of(home, root)
    own = _own(home, root, compute)
    missing = [
        permission
        for permission in needed
        if not _is_confirmed(stored, scope, compute, home, permission) and not _is_among(own, permission)
    ]
    if keys is not None:
        counts = [permission for permission in missing if permission.key in keys]
    else:
        counts = [permission for permission in missing if everything or permission.key not in SWITCHES]
    if not counts:
        return None
    rows = tuple(Confirmation(scope, compute.name, permission.key, permission.value) for permission in needed)
    return Open(compute.name, root, tuple(missing), rows, chosen)


def refusal(home: str, pending: Open) -> ConfigError:
    """The error for what is not confirmed, with the command that confirms it."""
    answer = "\n".join(f"{permission.key}: {permission.shown}" for permission in pending.missing)
    what = f"{pending.subject} needs permissions that are not confirmed on this machine; nothing was sent"
    where = place(home, pending, pending.missing[0])
    return ConfigError(what, where=where, answer=answer, hint=f"to allow this: {pending.command}")


def place(home: str, pending: Open, permission: Wanted) -> str:
    """``file:line:column`` of the key, in the .compute file or in the run configuration that overrides it."""
    from holdfast.amlconfig.check import key_place

    folders = target_lookup.folders(pending.root, home)
    compute, config = f"{pending.name}.compute", f"{pending.chosen.config.name}.runconfig"
    names = (
        [config, compute] if permission.is_in_runconfig or pending.chosen.config.container is not None else [compute]
    )
    paths = [path for path in (target_lookup.find(folders, name) for name in names) if path is not None]
    keys = (
        [(permission.key,)]
        if not permission.key.startswith("docker")
        else [(permission.key,), ("environment", "docker", "arguments")]
    )
    for path in paths:
        for names_of_key in keys:
            where = key_place(path, *names_of_key)
            if where != path:
                return where
    return paths[0] if paths else compute


def scope_of(home: str, root: str) -> str:
    """The folder that confirmations are filed under: the project's own, also for the copy of it that a run has."""
    real = os.path.realpath(root)
    parts = real.split(os.sep)
    uid = next((after for name, after in pairwise(parts) if name == "runs" and _is_uid(after)), "")
    if not uid:
        return real
    try:
        with open(layout.request(layout.run(home, uid)), encoding="utf-8") as source:
            request = json_text.loads(source.read())
        recorded, stores = request.get("project_root"), (home, request.get("home"))
        is_foreign = request.get("imported")
    except (OSError, ValueError, AttributeError, RecursionError):
        return real
    # Any clone can have a folder runs/<uid>: only the run's own folder in its store holds a copy of the project.
    folders = [
        os.path.realpath(layout.run(store, uid)) for store in stores if isinstance(store, str) and os.path.isabs(store)
    ]
    if is_foreign or not any(real.startswith(f"{folder}{os.sep}") for folder in folders):
        return real
    return os.path.realpath(recorded) if isinstance(recorded, str) and recorded else real


def _is_here(root: str) -> bool:
    """Whether a command typed in the current folder means this project."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        return False
    return f"{here}{os.sep}".startswith(f"{os.path.realpath(root)}{os.sep}")


def _is_uid(text: str) -> bool:
    try:
        return bool(hexadecimal(text, 32))
    except Untrusted:
        return False


def is_confirmed(home: str, root: str, compute: ComputeTarget, key: str) -> bool:
    """Whether the value that a target has for this key may be used."""
    stored, scope, own = confirmations.read(home), scope_of(home, root), _own(home, root, compute)
    needed = [permission for permission in trust_policy.wanted(compute, None, root) if permission.key == key]
    return all(
        _is_confirmed(stored, scope, compute, home, permission) or _is_among(own, permission) for permission in needed
    )


def _is_confirmed(stored: Confirmations, scope: str, compute: ComputeTarget, home: str, permission: Wanted) -> bool:
    if (
        permission.key in trust_policy.ATTACHED
        and compute.kind.is_remote
        and machine_of(home, compute) in stored.machines
    ):
        return True
    if permission.key in SWITCHES and stored.old_commands:
        import hashlib

        if hashlib.sha256(as_bytes(permission.value)).hexdigest() in stored.old_commands:
            return True
    return any(
        (row.project, row.target, row.key) == (scope, compute.name, permission.key) and covers(row.value, permission)
        for row in stored.confirmed
    )


def machine_of(home: str, compute: ComputeTarget) -> str:
    """The name under which the store keeps the login of a target."""
    return os.path.basename(target_lookup.login(compute, home).folder)


def _own(home: str, root: str, compute: ComputeTarget) -> list[Wanted]:
    """What the user's own target of that name has; its file is in the store and nothing in it needs a confirmation."""
    folder = (target_lookup.folders("", home)[1],)
    if target_lookup.find(folder, f"{compute.name}.compute") is None:
        return []
    try:
        return trust_policy.wanted(target_lookup.choose(folder, compute.name, compute.name).compute, None, root)
    except HoldfastError:
        return []


def _is_among(own: Sequence[Wanted], permission: Wanted) -> bool:
    return any(mine.key == permission.key and covers(mine.value, permission) for mine in own)


def _redirected(home: str, root: str, chosen: Chosen) -> list[Wanted]:
    """A run configuration of the project that leads to a target of the user's own, under a name of its choice."""
    compute, config = chosen.compute, chosen.config
    if config.name == compute.name or chosen.is_target_named or not trust_policy.wanted(compute, None, root):
        return []
    in_project = target_lookup.folders(root, home)[0]
    if target_lookup.find((in_project,), f"{config.name}.runconfig") is None:
        return []
    if target_lookup.find((in_project,), f"{compute.name}.compute") is not None:
        return []
    shown = f"run on {compute.name} what is submitted to {config.name}"
    return [Wanted("Target", f"{config.name}.runconfig", shown, is_in_runconfig=True)]


def confirms_target(home: str, root: str, chosen: Chosen) -> list[Confirmation]:
    """The confirmation of the target that a run configuration names, for one that this user has just made."""
    scope = scope_of(home, root)
    needed = _redirected(home, root, chosen)
    return [Confirmation(scope, chosen.compute.name, permission.key, permission.value) for permission in needed]


def unconfirmed(home: str, root: str) -> list[Finding]:
    """What every target and run configuration of a project asks for that is not confirmed, as findings."""
    from holdfast.amlconfig.types import Finding

    findings = _foreign_findings(home, root)
    for pending in every(home, root):
        for permission in pending.missing:
            path, _, column = place(home, pending, permission).rpartition(":")
            path, _, line = path.rpartition(":")
            shown = os.path.relpath(path, root).replace(os.sep, "/")
            message = f"not confirmed on this machine: {permission.shown}"
            numbers = (untrusted.whole_number(line) or 0, untrusted.whole_number(column) or 0)
            findings.append(Finding("warning", shown, *numbers, message, pending.command))
    return list(dict.fromkeys(findings))


def foreign_files(root: str) -> list[tuple[str, int]]:
    """Files of the project's ``aml_config`` that belong to another user, with their owner."""
    folder = target_lookup.folders(root, "")[0]
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    owners = ((path, foreign_owner(path)) for path in (os.path.join(folder, name) for name in names))
    return [(path, owner) for path, owner in owners if owner is not None]


def _foreign_findings(home: str, root: str) -> list[Finding]:
    """Targets and run configurations of another user are refused when they are needed, so each is an error."""
    files = foreign_files(root)
    if not files or confirmations.is_trusted_folder(home, root):
        return []
    from shlex import quote

    from holdfast.amlconfig.types import Finding

    findings = []
    for path, owner in files:
        shown = os.path.relpath(path, root).replace(os.sep, "/")
        message = f"belongs to another user: {user_name(owner)}"
        severity: Severity = "error" if path.endswith((".compute", ".runconfig")) else "warning"
        findings.append(Finding(severity, shown, 0, 0, message, f"if you trust it: holdfast trust {quote(root)}"))
    return findings


def every(home: str, root: str, skipped: list[HoldfastError] | None = None) -> list[Open]:
    """What is not confirmed of the project's own targets and run configurations.

    Files with errors are passed over; the errors are added to ``skipped``.
    """
    places = target_lookup.folders(root, home)
    names: list[tuple[str, str | None]] = [(name, None) for name in target_lookup.configurations(places[:1])]
    names += [(name, name) for name in target_lookup.targets(places[:1])]
    results = []
    for name, target in names:
        try:
            results.append(look(home, root, target_lookup.choose(places, name, target), everything=True))
        except HoldfastError as error:
            if skipped is not None:
                skipped.append(error)
    return [item for item in results if item is not None]
