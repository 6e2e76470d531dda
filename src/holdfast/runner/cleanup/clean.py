"""Frees disk space on this machine: files that Holdfast put here and that are not in use.

Everything is listed first and removed only if requested. A user of a file holds a shared lock on it; removal needs the
exclusive lock. A folder is renamed before it is removed, so that an interrupted cleanup leaves nothing that looks
usable.
"""

import os

from ..container import engines
from ..decoding import readable
from ..machine import clock, environment, node, processes
from ..run import launch, outputs
from ..store import layout, run_files, run_list
from ..store.exclusive_lock import Alone, InUse, is_used
from ..store.files import is_temporary, temporary_beside, unlink_quietly
from ..store.remove_tree import remove_tree
from ..store.store_identity import store_identity
from . import unused_containers, unused_data, unused_objects

MYPY = False
if MYPY:
    from collections.abc import Callable, Iterator

DAY_S = 86400.0
YOUNG_S = 3600.0  # what is younger may still be on its way


class Part:
    """Things of one kind: those that can go, with their size and how they go, and why others stay."""

    def __init__(self, what: "str", kind: "str" = "") -> "None":
        self.what = what
        self.kind = kind
        self._going = []  # type: list[tuple[int, Callable[[], object]]]
        self._reasons = []  # type: list[str]
        self._young = []  # type: list[int]

    def add(self, size: "int", remove: "Callable[[], object]") -> "None":
        """``remove`` answers False, or raises, where it cannot."""
        self._going.append((size, remove))

    def add_aged(self, now: "clock.Clock", path: "bytes", remove: "Callable[[], object]", size: "int" = -1) -> "None":
        """Only if it is older than an hour; what is younger may still be on its way, and is counted."""
        size = _bytes_of(path) if size < 0 else size
        if now.is_older(path, YOUNG_S):
            self.add(size, remove)
        elif now.doubt:
            self.leave(now.doubt)
        else:
            self._young.append(size)

    def leave(self, why: "str") -> "None":
        self._reasons.append(why)

    def row(self, act: "bool") -> "dict[str, object]":
        """What can go or, with ``act``, what went now."""
        gone = []
        for size, remove in self._going:
            try:
                if not act or remove() is not False:
                    gone.append(size)
                else:
                    self.leave("it could not be removed")
            except (InUse, OSError, engines.EngineTrouble) as error:
                self.leave(str(error))
        why = "; ".join(sorted(set(self._reasons)))
        return {
            "what": self.what,
            "kind": self.kind,
            "count": len(gone),
            "bytes": sum(gone),
            "stays": len(self._reasons),
            "why": why,
            "young": len(self._young),
            "young_bytes": sum(self._young),
        }


def clean(home: "bytes", parameters: "dict[str, object]") -> "list[dict[str, object]]":
    """A row for each kind of thing.

    ``parameters``: the ``client``, ``runs`` of it that it has everything of, whether to ``act``, and for a target of
    containers (``contained``) which ``engine``.
    """
    act, client = parameters.get("act") is True, str(parameters["client"])
    whole = {str(uid) for uid in parameters.get("runs") or ()}  # type: ignore[attr-defined]
    engine_name = parameters.get("engine")
    rows = _of_engine(home, str(engine_name) if engine_name else None, act) if parameters.get("contained") else []
    sizes, now = _Sizes(), clock.look(home)
    is_history = store_identity(home) == client
    runs, going = _runs(home, client, is_history, whole, sizes)
    data = unused_data.find(home, str(parameters.get("data") or ""), Part("data sets"), now, sizes.of)
    parts = [_environments(home, sizes), *_tools(home, sizes), data, *runs, _leftovers(home, sizes, now)]
    rows += [part.row(act) for part in parts]
    if not is_history:  # in a client's own store `store prune` does it, which knows its trash too
        rows.append(unused_objects.row(home, Part("project files"), now, going, act))
    return rows


def _of_engine(home: "bytes", engine_name: "str | None", act: "bool") -> "list[dict[str, object]]":
    containers, images = Part("containers"), Part("images")
    try:
        engine = engines.find(home, engine_name)
        going = unused_containers.containers(home, engine, containers)
        row = containers.row(act)
        unused_containers.brought_images(home, engine, going, images)
        return [row, images.row(act)]
    except engines.EngineTrouble as error:
        return [{"what": "images", "count": 0, "bytes": 0, "stays": 0, "why": str(error)}]


def _bytes_of(path: "bytes") -> "int":
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0


class _Sizes:
    """Bytes on disk. A file with several names counts where it is met first: it goes with the last of them."""

    def __init__(self) -> "None":
        self._seen = set()  # type: set[tuple[int, int]]

    def of(self, path: "bytes") -> "int":
        if not os.path.isdir(path) or os.path.islink(path):
            return self._add(path)
        return sum(self._add(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)

    def _add(self, path: "bytes") -> "int":
        try:
            status = os.lstat(path)
        except OSError:
            return 0
        is_new = (status.st_dev, status.st_ino) not in self._seen
        self._seen.add((status.st_dev, status.st_ino))
        return status.st_blocks * 512 if is_new else 0


def _environments(home: "bytes", sizes: "_Sizes") -> "Part":
    part = Part("environments")
    free, elsewhere = [], run_list.environments_elsewhere(home)
    for folder in _inside(home, b"envs"):
        key = os.path.basename(folder).decode("ascii", "replace")
        if is_temporary(folder):
            continue
        if key in elsewhere or is_used(environment.use_lock(home, key)):
            sizes.of(folder)  # what it shares with the cache is not given back either
            part.leave("in use")
        else:
            free.append((folder, key))
    for folder, key in free:
        part.add(sizes.of(folder), lambda folder=folder, key=key: _remove_environment(home, folder, key))  # type: ignore[misc]
    return part


def _remove_environment(home: "bytes", folder: "bytes", key: "str") -> "None":
    with Alone(environment.use_lock(home, key)), Alone(_build_lock(home, folder)):
        gone = _out_of_sight(folder)
    remove_tree(gone)


def _tools(home: "bytes", sizes: "_Sizes") -> "Iterator[Part]":
    """What builders work with. It is theirs while one builds."""
    packages = [layout.packages(home)]
    for what, places in (("package cache", packages), ("builder tools", _inside(home, b"builder"))):
        part = Part(what)
        for folder in places:
            if is_temporary(folder) or not _is_folder(folder):
                continue
            if _is_building(home):
                part.leave("an environment is being built")
            else:
                part.add(sizes.of(folder), lambda folder=folder: _remove_tools(home, folder))  # type: ignore[misc]
        yield part


def _remove_tools(home: "bytes", folder: "bytes") -> "None":
    if _is_building(home):
        raise InUse("an environment is being built")
    remove_tree(_out_of_sight(folder))


def _is_building(home: "bytes") -> "bool":
    """Whether a process holds the lock of an environment being built, or uses the builder."""
    locks = [lock for lock in _inside(home, b"locks") if os.path.basename(lock).startswith(b"env-")]
    if any(map(is_used, [*locks, layout.builder_lock(home)])):
        return True
    tools = readable(os.path.join(layout.builder(home), b""))
    return any(processes.command_of(pid).startswith(tools) for pid in processes.parents())


def _runs(
    home: "bytes", client: "str", is_history: "bool", whole: "set[str]", sizes: "_Sizes"
) -> "tuple[list[Part], set[bytes]]":
    """Folders of runs that the client has all of, and of its others what they worked in; the names of the former.

    In a store that is the client's own, a run's folder is its history, and stays.
    """
    runs, work = Part("run folders", "runs"), Part("work folders")
    going = set()  # type: set[bytes]
    for run in run_list.runs(home):
        request, uid = run["request"], str(run["uid"])
        if not is_history and request.get("client_store") != client:  # type: ignore[attr-defined]
            continue
        attempts = [launch.attempt_path(home, uid, str(name)) for name in run["attempts"]]  # type: ignore[attr-defined]
        worked_in = [directory for directory in map(layout.removed_with_work, attempts) if _is_folder(directory)]
        if not all(map(_has_ended, attempts)):
            if worked_in:
                work.leave("of an active run")
        elif uid in whole and not is_history:
            folder = os.path.dirname(attempts[0])
            going.add(os.path.basename(folder))
            runs.add(sizes.of(folder), lambda target=folder: remove_tree(_out_of_sight(target, b".deleted")))  # type: ignore[misc]
        else:
            for directory in worked_in:
                if outputs.unlisted(os.path.dirname(directory))[0]:
                    work.leave("with outputs that exist only here")
                    continue
                work.add(sizes.of(directory), lambda target=directory: remove_tree(target))  # type: ignore[misc]
    return ([work] if is_history else [runs, work]), going


def _has_ended(attempt: "bytes") -> "bool":
    return not run_files.is_held(attempt) and run_files.closed(attempt) is not None


def _leftovers(home: "bytes", sizes: "_Sizes", now: "clock.Clock") -> "Part":
    """What was begun and never finished, or was being removed."""
    part = Part("leftovers")
    for path in _inside(home, b"arriving"):
        part.add_aged(now, path, lambda target=path: unlink_quietly(target))  # type: ignore[misc]
    for path in _inside(home, b"envs"):
        is_theirs = b".on-" in os.path.basename(path) and not path.endswith(node.own_ending())
        if is_theirs and not now.is_older(path, DAY_S):
            continue  # another node may be making it
        if is_temporary(path) and not is_used(_build_lock(home, path)):
            part.add(sizes.of(path), lambda target=path: _remove_unfinished(home, target))  # type: ignore[misc]
    for folder in (b"runs", b"cache", b"builder"):
        for path in _inside(home, folder):
            remove = remove_tree if os.path.isdir(path) else unlink_quietly
            if path.endswith(b".deleted"):
                part.add(sizes.of(path), lambda target=path, remove=remove: remove(target))  # type: ignore[misc]
            elif is_temporary(path):
                part.add_aged(now, path, lambda target=path, remove=remove: remove(target), sizes.of(path))  # type: ignore[misc]
    return part


def _remove_unfinished(home: "bytes", folder: "bytes") -> "None":
    with Alone(_build_lock(home, folder)):
        remove_tree(folder)


def _build_lock(home: "bytes", folder: "bytes") -> "bytes":
    """The lock of the process that builds this environment."""
    return layout.build_lock(home, os.path.basename(folder).split(b".")[0])


def _inside(home: "bytes", folder: "bytes") -> "list[bytes]":
    """What a folder of the store holds. One that is a link leads to what is not only ours."""
    path = os.path.join(home, folder)
    try:
        names = [] if os.path.islink(path) else sorted(os.listdir(path))
    except OSError:
        names = []
    return [os.path.join(path, name) for name in names]


def _is_folder(path: "bytes") -> "bool":
    return os.path.isdir(path) and not os.path.islink(path)


def _out_of_sight(path: "bytes", ending: "bytes" = b"") -> "bytes":
    """Its name is free again at once; what is left of it, if we are killed, is a leftover."""
    gone = path + b".%d" % os.getpid() + ending if ending else temporary_beside(path)
    os.rename(path, gone)
    return gone
