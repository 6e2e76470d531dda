"""Disk usage of the store, by purpose. Hard links are counted once."""

from __future__ import annotations

import os

from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.home import Home

_PARTS = (
    ("outputs", "outputs of runs"),
    ("logs", "logs, metrics and events of runs"),
    ("work", "folders of runs that did not complete; kept for a limited time"),
    ("trash", "deleted runs; kept for a limited time"),
    ("objects", "snapshots of projects, each content once"),
    ("envs", "environments"),
    ("data", "data sets, where this machine is a target"),
    ("runner", "the runner"),
    ("other", "index, caches, locks"),
)
_WORK = (layout.workspace.name, layout.old_work.name)


def measure(home: Home) -> list[Json]:
    totals = {name: [0, 0] for name, _ in _PARTS}
    seen: set[tuple[int, int]] = set()
    for folder, _, names in os.walk(home.path):
        part = _part(os.path.relpath(folder, home.path).split(os.sep))
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                totals[part][0] += getattr(status, "st_blocks", status.st_size // 512) * 512
                totals[part][1] += 1
    return [{"what": name, "bytes": totals[name][0], "files": totals[name][1], "why": why} for name, why in _PARTS]


def size_of(path: str) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _part(parts: list[str]) -> str:
    if parts[0] == "runs":
        top = parts[3] if len(parts) > 3 else ""
        return "work" if top in _WORK else "outputs" if top == layout.outputs.name else "logs"
    return parts[0] if parts[0] in ("objects", "envs", "data", "runner", "trash") else "other"
