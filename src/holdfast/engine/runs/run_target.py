"""The target of a run, from what the run recorded: its .compute file may have changed since."""

from __future__ import annotations

import os

from holdfast import kinds, target_lookup
from holdfast.amlconfig.types import ComputeTarget
from holdfast.engine.submit.confirmation import look
from holdfast.errors import HoldfastError
from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.target_lookup import Target

_REACHED_BY = ("address", "username", "port", "host_key", "private_key_file", "python_location")


def remembered(target: Target) -> Json:
    """What a run keeps of its target, so that it can be found again."""
    fields: Json = {"kind": target.kind.name, "home": target.home}
    if target.compute.own_settings:
        fields["settings"] = target.compute.own_settings
    if target.compute.price_per_hour is not None:
        fields["price_per_hour"] = target.compute.price_per_hour
    if target.kind.is_remote:
        reached = {name: getattr(target.compute, name) for name in _REACHED_BY}
        fields["reached_by"] = {name: value for name, value in reached.items() if value is not None}
    return fields


def target_of(request: Json, home: str) -> Target:
    """A target of that name with the same pinned key is the same machine, wherever it is reached by now."""
    reached = request.get("reached_by")
    fields = (
        {name: value for name, value in reached.items() if name in _REACHED_BY} if isinstance(reached, dict) else {}
    )
    settings = request.get("settings")
    compute = ComputeTarget(
        name=str(request.get("target")),
        type=str(request.get("kind")),
        root=store_of(request, home),
        extra=settings if isinstance(settings, dict) else {},
        **fields,
    )
    now = _as_it_is_now(compute, str(request.get("project_root") or ""), home) if compute.host_key else None
    return target_lookup.resolve(now or compute, home)


def store_of(request: Json, home: str) -> str | None:
    """The store that a run is in, as a path on its target; that of a run on this machine may have been moved."""
    root = request.get("home")
    if not isinstance(root, str) or not root:
        return None
    moved = not kinds.of(str(request.get("kind"))).is_remote and not os.path.exists(layout.identity(root))
    return home if moved else root


def _as_it_is_now(compute: ComputeTarget, root: str, home: str) -> ComputeTarget | None:
    places = target_lookup.folders(root, home)
    if target_lookup.find(places, f"{compute.name}.compute") is None:
        return None
    try:
        chosen = target_lookup.choose(places, "local", compute.name)
        if look(home, root, chosen) is not None:
            return None  # changed, and not confirmed: the run knows how it was reached
    except (HoldfastError, OSError):
        return None
    current = chosen.compute
    same = (current.kind, current.host_key) == (compute.kind, compute.host_key)
    return current._replace(root=compute.root) if same else None
