"""The files of a target: written when a machine is attached, removed when it is detached, with what was confirmed."""

from __future__ import annotations

import os

from holdfast import target_lookup
from holdfast.engine.machines import attach
from holdfast.engine.submit import confirmation, trust_policy
from holdfast.errors import HoldfastError, UsageError
from holdfast.record import Record
from holdfast.runner.store import layout
from holdfast.store import trust_file
from holdfast.trust import confirmations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.store.home import Home


class Earlier(Record):
    """What the file of a target had before this attaching; ``pinned``: its host key, if this user confirmed it."""

    compute: ComputeTarget | None
    pinned: str | None = None


def earlier(home: Home, folder: str, name: str) -> Earlier:
    """The target of that name in this folder, as far as its file can be read."""
    if target_lookup.find((folder,), f"{name}.compute") is None:
        return Earlier(None)
    try:
        compute = target_lookup.choose((folder,), "local", name).compute
    except HoldfastError:
        return Earlier(None)
    is_users_own = folder == target_lookup.folders("", home.path)[1]
    trusted = is_users_own or confirmation.is_confirmed(home.path, os.path.dirname(folder), compute, "address")
    return Earlier(compute, compute.host_key if trusted else None)


def with_image(compute: ComputeTarget, before: Earlier) -> ComputeTarget:
    """The target with the image or the Dockerfile that its file names."""
    if before.compute is None:
        return compute
    return compute._replace(base_docker_image=before.compute.base_docker_image, dockerfile=before.compute.dockerfile)


def write(folder: str, compute: ComputeTarget, entry: attach.Entry | None) -> list[str]:
    """New files in the original's shape; a file that is there keeps everything that attaching does not decide.

    Returns a line for each of them.
    """
    from holdfast.amlconfig.write import new_compute, new_runconfig, present, save, update

    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{compute.name}.compute")
    values = attach.settings(compute, entry)
    if os.path.exists(path):
        kept = present(path) & {name for name, _ in compute.kind.attach_settings or ()}
        update(path, {**{name: value for name, value in values.items() if name not in kept}, "password": None})
        lines = [f"changed {path}"]
    else:
        save(path, new_compute(values).encode())
        lines = [f"created {path}"]
    runconfig = os.path.join(folder, f"{compute.name}.runconfig")
    if not os.path.exists(runconfig):
        framework = compute.kind.framework
        save(runconfig, new_runconfig(compute.name, {"Framework": framework} if framework else None).encode())
        lines.append(f"created {runconfig}")
    return lines


def confirm(home: Home, folder: str, name: str) -> None:
    """Attaching is the confirmation of what it has written, not of what else a file has that was there before."""
    if folder == target_lookup.folders("", home.path)[1]:
        return  # the user's own files need none
    root = os.path.dirname(folder)
    compute = target_lookup.choose((folder,), "local", name).compute
    needed = [
        permission for permission in trust_policy.wanted(compute, None, root) if permission.key in trust_policy.ATTACHED
    ]
    scope = confirmation.scope_of(home.path, root)
    trust_file.confirm(
        home, [confirmations.Confirmation(scope, name, permission.key, permission.value) for permission in needed]
    )


def remove(home: str, root: str, name: str) -> list[str]:
    """Remove the files of a target and what was confirmed for it; returns their paths. Runs stay."""
    places = target_lookup.folders(root, home)
    compute = target_lookup.find(places, f"{name}.compute")
    if compute is None:
        raise UsageError(f"no target named {name!r}", hint=f"known: {', '.join(target_lookup.targets(places))}")
    runconfig = target_lookup.find((os.path.dirname(compute),), f"{name}.runconfig")
    paths = [path for path in (compute, runconfig) if path is not None]
    for path in paths:
        os.unlink(path)
    if os.path.exists(layout.trust(home)):
        from holdfast.store.home import open_home

        trust_file.forget(open_home(), confirmation.scope_of(home, root), name)
    return paths
