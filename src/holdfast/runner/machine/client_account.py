"""What a client leaves on a target besides runs: its entry in a list and its SSH key; and how both are removed."""

import json
import os

from .. import wire
from ..decoding import as_bytes, lossless
from ..run import control
from ..store import layout, run_files
from ..store.files import SYNCED, is_temporary, unlink_quietly, write_whole
from ..store.remove_tree import remove_tree


def register(home: "bytes", client: "str", label: "str") -> "list[str]":
    """Write down that a client uses this store; the labels of all that do."""
    folder = layout.clients(home)
    os.makedirs(folder, 0o700, exist_ok=True)
    path = os.path.join(folder, _name(client))
    if not os.path.exists(path):
        _write(path, {"label": label})
    return _labels(home)


def authorize(home: "bytes", client: "str", line: "str") -> "None":
    """Add one public key to those that may log in; what had to be made for that is written down, to be undone."""
    made = []
    folder = os.path.expanduser(b"~/.ssh")
    if not os.path.isdir(folder):
        os.mkdir(folder, 0o700)
        made.append("folder")
    path = os.path.join(folder, b"authorized_keys")
    if not os.path.exists(path):
        made.append("file")
    if line in _lines(path):
        return
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(fd).st_size
        glue = b"" if not size or os.pread(fd, 1, size - 1) == b"\n" else b"\n"
        wire.write_all(fd, glue + line.encode("ascii") + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
    note = os.path.join(layout.clients(home), _name(client))
    known = _read(note)
    made += [what for what in _texts(known, "made") if what not in made]
    _write(note, dict(known, key=line, keys=[*_keys(known), line], made=made))


def withdraw(home: "bytes", client: "str") -> "None":
    """Take the newest key back out: this machine does not accept it. Keys of earlier attachments stay noted."""
    note = os.path.join(layout.clients(home), _name(client))
    known = _read(note)
    newest, made = known.get("key"), _texts(known, "made")
    rest = [line for line in _keys(known) if line != newest]
    _deauthorize([str(newest)] if newest else [], made)
    kept = {"key": rest[-1], "keys": rest, "made": made} if rest else {}  # type: dict[str, object]
    _write(note, dict(kept, label=known.get("label")))


def purge(home: "bytes", client: "str") -> "dict[str, object]":
    """Remove all that a client brought here. What is shared goes with the last of them."""
    mine, live = _runs_of(home, client)
    if live:
        return {"live": live}
    note = os.path.join(layout.clients(home), _name(client))
    known = _read(note)
    _deauthorize(_keys(known), _texts(known, "made"))
    unlink_quietly(note)
    others = _labels(home)
    theirs = [folder for folder in _runs_of(home, None)[0] if folder not in mine and not _is_discarded(folder)]
    last = not others and not theirs
    _leave_engines(home, mine, last)
    for folder in mine:
        remove_tree(folder)
    if last:
        from ..gpu import gpu_queue

        gpu_queue.tidy()
        remove_tree(home)
    kept = 0 if last else len(theirs)
    left = os.path.lexists(home)
    return {"runs": len(mine), "others": len(others), "labels": others, "live": [], "kept": kept, "left": left}


def _is_discarded(folder: "bytes") -> "bool":
    """Whether this is what is left of a run: one that ended before it had begun, or that was being removed."""
    if folder.endswith(b".deleted") or is_temporary(folder):
        return True
    if os.path.lexists(layout.request(folder)):
        return False
    attempts = [os.path.join(folder, name) for name in os.listdir(folder)]
    return all(is_temporary(attempt) or run_files.closed(attempt) is not None for attempt in attempts)


def _leave_engines(home: "bytes", mine: "list[bytes]", last: "bool") -> "None":
    """Containers of runs without a supervisor, and images."""
    if os.path.exists(layout.engines(home)):
        from ..cleanup import unused_containers

        unused_containers.end(home, {os.path.basename(folder).decode("ascii", "replace") for folder in mine}, last)


def _deauthorize(keys: "list[str]", made: "list[str]") -> "None":
    folder = os.path.expanduser(b"~/.ssh")
    path = os.path.join(folder, b"authorized_keys")
    lines = _lines(path)
    rest = [line for line in lines if line not in keys]
    if rest == lines:
        return
    if rest or "file" not in made:
        content = as_bytes("".join(kept + "\n" for kept in rest))
        write_whole(path, content, sync=SYNCED, keep_mode=True)
    else:
        os.unlink(path)
    if "folder" in made and not os.listdir(folder):
        os.rmdir(folder)


def _keys(note: "dict[str, object]") -> "list[str]":
    """Every key that this client has installed, the newest last; an older version wrote down only the newest."""
    newest = note.get("key")
    return [line for line in _texts(note, "keys") if line != newest] + ([str(newest)] if newest else [])


def _texts(note: "dict[str, object]", name: "str") -> "list[str]":
    value = note.get(name)
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _labels(home: "bytes") -> "list[str]":
    """Of every client that uses this store."""
    folder = layout.clients(home)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [str(_read(os.path.join(folder, name)).get("label")) for name in names]


def _runs_of(home: "bytes", client: "str | None") -> "tuple[list[bytes], list[str]]":
    """The folders of a client's runs (of all, for None), and the ids of those that are alive."""
    mine, live = [], []
    runs = layout.runs(home)
    try:
        names = os.listdir(runs)
    except FileNotFoundError:
        names = []
    for name in names:
        folder = os.path.join(runs, name)
        request = _read(layout.request(folder))
        if client is None or request.get("client_store") == client:
            mine.append(folder)
            attempts = [attempt for attempt in os.listdir(folder) if attempt[:1] == b"a" and attempt[1:].isdigit()]
            if any(control.look(os.path.join(folder, attempt)) in ("alive", "queued") for attempt in attempts):
                live.append(str(request.get("run_id")))
    return mine, live


def _name(client: "str") -> "bytes":
    if not client.isalnum():
        raise ValueError("not a client: %r" % client)
    return client.encode("ascii")


def _lines(path: "bytes") -> "list[str]":
    try:
        with open(path, "rb") as source:
            return lossless(source.read()).splitlines()
    except FileNotFoundError:
        return []


def _read(path: "bytes") -> "dict[str, object]":
    try:
        with open(path, "rb") as source:
            document = json.loads(source.read().decode("utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _write(path: "bytes", content: "dict[str, object]") -> "None":
    write_whole(path, wire.dumps(content) + b"\n", sync=SYNCED)
