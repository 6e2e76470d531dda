"""The web servers of a store: their host name, the file that each of them leaves, and how one is stopped."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time

from holdfast.errors import UsageError
from holdfast.runner import json_text
from holdfast.runner.store import layout
from holdfast.runner.store.files import write_whole
from holdfast.store import locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.home import Home

_PREFERENCES = ("language", "theme", "port", "folders", "views", "shortcuts")


def folder(home: Home) -> str:
    """The folder of the servers: its files are for their owner only."""
    path = layout.ui(home.path)
    os.makedirs(path, 0o700, exist_ok=True)
    os.chmod(path, 0o700)
    return path


def host_name(home: Home) -> str:
    """The name of this store's pages, random and below ``localhost``, which browsers resolve to this machine.

    Cookies have no port. Under a name of its own, the cookie of these pages is not sent to other servers on this
    machine, which are opened as ``localhost`` or ``127.0.0.1``.
    """
    path = layout.ui_name(folder(home))
    try:
        with open(path, encoding="ascii") as source:
            name = source.read().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        name = ""
    if not name.startswith("hf-") or not name[3:].isalnum():
        name = f"hf-{secrets.token_hex(10)}"
        write_whole(path, f"{name}\n".encode())
    return f"{name}.localhost"


def preferences(home: Home) -> dict[str, str]:
    """What was chosen on the page Settings, and the last port."""
    try:
        with open(layout.ui_preferences(folder(home)), encoding="utf-8") as source:
            result = json_text.loads(source.read())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return {name: str(result[name]) for name in _PREFERENCES if isinstance(result, dict) and name in result}


def prefer(home: Home, **chosen: str) -> None:
    merged = {**preferences(home), **chosen}
    write_whole(layout.ui_preferences(folder(home)), json.dumps(merged, indent=2).encode() + b"\n")


class Registered:
    """While a server runs: its row for ``ui list``, and the lock that says that it lives."""

    def __init__(self, home: Home, row: Json) -> None:
        self._path = os.path.join(_folder(home), f"{os.getpid()}.json")
        self._lock = locks.Lock(home.lock_file(f"ui-{os.getpid()}"))
        self._row = row

    def __enter__(self) -> None:
        self._lock.try_hold()
        write_whole(self._path, json.dumps({**self._row, "pid": os.getpid(), "started": time.time()}).encode())

    def __exit__(self, *_: object) -> None:
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        self._lock.release()


def running(home: Home) -> list[Json]:
    """One row for each server that lives; files of those that were killed are removed."""
    rows = []
    for name in sorted(os.listdir(_folder(home))):
        path = os.path.join(_folder(home), name)
        pid = name.partition(".")[0]
        if not locks.is_held(home.lock_file(f"ui-{pid}")):
            os.unlink(path)
            continue
        try:
            with open(path, encoding="utf-8") as source:
                rows.append(json_text.loads(source.read()))
        except (FileNotFoundError, ValueError):
            continue
    return rows


def stop(home: Home, wanted: int | None) -> list[int]:
    """End one server, or all; returns their process ids."""
    pids = [pid for row in running(home) if isinstance(pid := row.get("pid"), int)]
    chosen = [known for known in pids if wanted in (None, known)]
    if not chosen:
        what = "no web server of this store runs" if wanted is None else f"no web server with the process id {wanted}"
        raise UsageError(what, where=home.path, hint="holdfast ui list shows the servers that run")
    for known in chosen:
        os.kill(known, signal.SIGTERM)
    return chosen


def _folder(home: Home) -> str:
    path = layout.ui_servers(folder(home))
    os.makedirs(path, 0o700, exist_ok=True)
    return path
