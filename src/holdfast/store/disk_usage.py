"""Disk usage of the store, by purpose. A file with several hard links is counted once, for the first purpose listed."""

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
    ("envs", "environments; their files that the cache of packages has too are counted here"),
    ("data", "data sets, where this machine is a target"),
    ("packages", "packages downloaded for environments; kept for the next one"),
    ("runner", "the runner"),
    ("other", "index, caches, locks"),
)
_RANKS = {name: rank for rank, (name, _) in enumerate(_PARTS)}
_WORK = (layout.workspace.name, layout.old_work.name)


def measure(home: Home) -> list[Json]:
    files: dict[tuple[int, int], tuple[int, int]] = {}  # the rank of its purpose, and its bytes on disk
    for folder, _, names in os.walk(home.path):
        rank = _RANKS[_part(os.path.relpath(folder, home.path).split(os.sep))]
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            file = status.st_dev, status.st_ino
            if file not in files or rank < files[file][0]:
                files[file] = rank, getattr(status, "st_blocks", status.st_size // 512) * 512
    totals = [[0, 0] for _ in _PARTS]
    for rank, size in files.values():
        totals[rank][0] += size
        totals[rank][1] += 1
    return [
        {"what": name, "bytes": size, "files": count, "why": why}
        for (name, why), (size, count) in zip(_PARTS, totals, strict=True)
    ]


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
    if "/".join(parts[:2]) == layout.packages.name:
        return "packages"
    return parts[0] if parts[0] in ("objects", "envs", "data", "runner", "trash") else "other"
