"""The environments in the store: list, verify, remove."""

from __future__ import annotations

import os

from holdfast.errors import ConfigError
from holdfast.location import PACKAGE
from holdfast.runner.machine import environment as runner
from holdfast.runner.store import layout
from holdfast.runner.store.files import is_temporary
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store.history_record import utc
from holdfast.store.locks import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.home import Home


def listed(home: Home) -> list[Json]:
    """Last used first. A file that several environments share by hard link is counted in each."""
    folder = layout.environments(home.path)
    names = [name for name in os.listdir(folder) if not is_temporary(name)] if os.path.isdir(folder) else []
    rows = [_row(home, name) for name in names]
    return sorted(rows, key=lambda row: str(row["last_used"]), reverse=True)


def changed(home: Home, prefix: str) -> list[Json]:
    """Every file that is not as it was installed, asked of the builder that installed it."""
    if runner.read_note(os.fsencode(prefix)) is None:
        raise ConfigError("this environment is not built", where=prefix, hint="holdfast experiment prepare")
    log = os.fsencode(layout.verify_log(home.path))
    program = layout.builder_program(PACKAGE)
    request: Json = {"verb": "verify", "prefix": prefix, "cache": layout.packages(home.path)}
    answer = runner.ask_builder(os.fsencode(home.path), program, request, log, lambda _: None, lambda: False)
    if answer.get("event") != "done":
        raise ConfigError(str(answer.get("what")), where=prefix)
    rows: list[Json] = []
    for what in ("changed", "missing", "extra"):
        files = answer.get(what)
        rows += [{"file": name, "what": what} for name in files] if isinstance(files, list) else []
    return rows


def prune(home: Home, keep: int, max_size: int | None, *, act: bool) -> list[Json]:
    """All but the ``keep`` last used, then the oldest until the rest is smaller than ``max_size``; none in use."""
    rows = listed(home)
    gone = rows[keep:]
    if max_size is not None:
        left = sum(int(str(row["bytes"])) for row in rows[:keep])
        for row in reversed(rows[:keep]):
            if left <= max_size:
                break
            left -= int(str(row["bytes"]))
            gone.append(row)
    gone = [row for row in gone if not row["in_use"]]
    for row in gone if act else ():
        remove_tree(os.fsencode(home.environment(str(row["key"]))))
    return gone


def _row(home: Home, key: str) -> Json:
    path = home.environment(key)
    note = runner.read_note(os.fsencode(path)) or {}
    recorded = note.get("lock")
    lock = recorded if isinstance(recorded, dict) else {}
    return {
        "key": key,
        "python": (lock.get("python") or {}).get("version"),
        "packages": len(lock.get("conda") or ()) + len(lock.get("pip") or ()),
        "bytes": _size(path),
        "last_used": utc(os.stat(path).st_mtime_ns),
        "in_use": _is_in_use(home, key),
        "ledger": note.get("ledger"),
    }


def _is_in_use(home: Home, key: str) -> bool:
    """Every run that uses it holds a shared lock; the exclusive lock shows that there is none."""
    lock = Lock(os.fsdecode(runner.use_lock(os.fsencode(home.path), key)))
    if not lock.try_hold():
        return True
    lock.release()
    from holdfast.runner.store import run_list

    return key in run_list.environments_elsewhere(os.fsencode(home.path))


def _size(path: str) -> int:
    """Bytes on disk, each file once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                total += getattr(status, "st_blocks", status.st_size // 512) * 512
    return total
