"""Whether what a project asks for was confirmed by this user on this machine; ``trust_policy`` has the rules."""

from __future__ import annotations

import json
import os
from itertools import pairwise

from holdfast import target_lookup
from holdfast.engine.submit import trust_policy
from holdfast.engine.submit.trust_policy import SWITCHES, Wanted, covers
from holdfast.errors import ConfigError, HoldfastError
from holdfast.record import Record
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.runner.untrusted import Untrusted, hexadecimal
from holdfast.trust import confirmations
from holdfast.trust.confirmations import Confirmation
from holdfast.trust.ownership import foreign_owner, user_name

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
        by_config = config.container is not None or any(one.is_in_runconfig for one in self.missing)
        return config.name if by_config else self.name

    @property
    def command(self) -> str:
        """What confirms it."""
        from shlex import quote

        words = ["holdfast", "trust", quote(self.subject)]
        return " ".join(words if _is_here(self.root) else [*words, "--project", quote(self.root)])


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
    asked = [*trust_policy.wanted(compute, chosen.config, root), *_redirected(home, root, chosen)]
    if not asked:
        return None
    said, scope = confirmations.read(home), scope_of(home, root)
    own = _own(home, root, compute)
    missing = [one for one in asked if not _is_confirmed(said, scope, compute, home, one) and not _is_among(own, one)]
    if keys is not None:
        counts = [one for one in missing if one.key in keys]
    else:
        counts = [one for one in missing if everything or one.key not in SWITCHES]
    if not counts:
        return None
    rows = tuple(Confirmation(scope, compute.name, one.key, one.value) for one in asked)
    return Open(compute.name, root, tuple(missing), rows, chosen)


def refusal(home: str, found: Open) -> ConfigError:
    """The error for what is not confirmed, with the command that confirms it."""
    answer = "\n".join(f"{one.key}: {one.shown}" for one in found.missing)
    what = f"{found.subject} needs permissions that are not confirmed on this machine; nothing was sent"
    where = place(home, found, found.missing[0])
    return ConfigError(what, where=where, answer=answer, hint=f"to allow this: {found.command}")


def place(home: str, found: Open, one: Wanted) -> str:
    """``file:line:column`` of the key, in the .compute file or in the run configuration that overrides it."""
    from holdfast.amlconfig.check import key_place

    folders = target_lookup.folders(found.root, home)
    compute, config = f"{found.name}.compute", f"{found.chosen.config.name}.runconfig"
    names = [config, compute] if one.is_in_runconfig or found.chosen.config.container is not None else [compute]
    paths = [path for path in (target_lookup.find(folders, name) for name in names) if path is not None]
    keys = [(one.key,)] if not one.key.startswith("docker") else [(one.key,), ("environment", "docker", "arguments")]
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
            found = json.load(source).get("project_root")
    except (OSError, ValueError, AttributeError, RecursionError):
        return real
    return os.path.realpath(found) if isinstance(found, str) and found else real


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
    said, scope, own = confirmations.read(home), scope_of(home, root), _own(home, root, compute)
    asked = [one for one in trust_policy.wanted(compute, None, root) if one.key == key]
    return all(_is_confirmed(said, scope, compute, home, one) or _is_among(own, one) for one in asked)


def _is_confirmed(said: Confirmations, scope: str, compute: ComputeTarget, home: str, one: Wanted) -> bool:
    if one.key in trust_policy.ATTACHED and compute.kind.is_remote and machine_of(home, compute) in said.machines:
        return True
    if one.key in SWITCHES and said.old_commands:
        import hashlib

        if hashlib.sha256(as_bytes(one.value)).hexdigest() in said.old_commands:
            return True
    return any(
        (row.project, row.target, row.key) == (scope, compute.name, one.key) and covers(row.value, one)
        for row in said.confirmed
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


def _is_among(own: Sequence[Wanted], one: Wanted) -> bool:
    return any(mine.key == one.key and covers(mine.value, one) for mine in own)


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
    asked = _redirected(home, root, chosen)
    return [Confirmation(scope, chosen.compute.name, one.key, one.value) for one in asked]


def unconfirmed(home: str, root: str) -> list[Finding]:
    """What every target and run configuration of a project asks for that is not confirmed, as findings."""
    from holdfast.amlconfig.types import Finding

    findings = _foreign_findings(home, root)
    for found in every(home, root):
        for one in found.missing:
            path, _, column = place(home, found, one).rpartition(":")
            path, _, line = path.rpartition(":")
            shown = os.path.relpath(path, root).replace(os.sep, "/")
            message = f"not confirmed on this machine: {one.shown}"
            numbers = (int(line), int(column)) if line.isdigit() and column.isdigit() else (0, 0)
            findings.append(Finding("warning", shown, *numbers, message, found.command))
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


def every(home: str, root: str) -> list[Open]:
    """What is not confirmed of the project's own targets and run configurations; files with errors are passed over."""
    places = target_lookup.folders(root, home)
    names: list[tuple[str, str | None]] = [(name, None) for name in target_lookup.configurations(places[:1])]
    names += [(name, name) for name in target_lookup.targets(places[:1])]
    found = []
    for name, target in names:
        try:
            found.append(look(home, root, target_lookup.choose(places, name, target), everything=True))
        except HoldfastError:
            continue
    return [one for one in found if one is not None]
