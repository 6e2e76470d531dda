"""Unused containers and images that Holdfast created: containers without a live run, images without a user."""

import json
import os

from .. import untrusted
from ..container import engines, images, monitor
from ..container.argv import LABEL
from ..decoding import lossless
from ..machine import processes
from ..plan import read_plan
from ..run import launch
from ..store import jsonl, layout, run_files, run_list
from ..store.exclusive_lock import Alone, is_used

MYPY = False
if MYPY:
    from .clean import Part

REMOVE_S = 10.0


class Container:
    """``uid`` and ``attempt`` of its run; empty where an environment was built in it."""

    def __init__(self, identity: "str", name: "str", size: "int", mounted: "list[str]") -> "None":
        self.id = identity
        self.name = name
        self.size = size
        self.mounted = mounted
        parts = name.split("-")
        is_run = len(parts) == 3 and parts[0] == "holdfast"
        self.uid, self.attempt = (parts[1], parts[2]) if is_run else ("", "")

    def is_live(self, home: "bytes") -> "bool":
        """Its run's watchers are there, or the process that builds in it is."""
        if self.uid:
            return run_files.may_live(launch.attempt_path(home, self.uid, self.attempt))
        parts = self.name.split("-")
        return len(parts) != 4 or not parts[2].isdigit() or bool(processes.start_time(int(parts[2])))


def containers(home: "bytes", engine: "dict[str, object]", part: "Part") -> "set[str]":
    """Adds those without a live run to ``part``; their ids."""
    program = str(engine["program"])
    ids = set()
    for container in ours(home, program):
        if container.is_live(home):
            part.leave("of an active run")
        else:
            ids.add(container.id)
            part.add(container.size, lambda identity=container.id: monitor.remove(program, identity, REMOVE_S))  # type: ignore[misc]
    return ids


def ours(home: "bytes", program: "str") -> "list[Container]":
    """Containers of this store: an engine serves all users of a machine, each with runs of their own."""
    ids = engines.ask(program, "ps", "--all", "--no-trunc", "--quiet", "--filter", "label=%s" % LABEL).split()
    inspected = [container for container in (_inspect(program, identity) for identity in ids) if container is not None]
    return [container for container in inspected if _belongs(home, container)]


def _inspect(program: "str", identity: "str") -> "Container | None":
    form = "{{.SizeRw}} {{.Name}} {{json .Mounts}}"
    try:
        output = engines.ask(program, "inspect", "--type", "container", "--size", "--format", form, identity)
    except engines.EngineTrouble as error:
        if error.code == engines.NOT_FOUND:
            return None
        raise
    size, name, mounts = output.strip().split(" ", 2)
    sources = [str(mount.get("Source")) for mount in json.loads(mounts) or ()]
    return Container(identity, name.lstrip("/"), untrusted.whole_number(size) or 0, sources)


def _belongs(home: "bytes", container: "Container") -> "bool":
    uid = container.uid
    if uid and uid.isalnum() and os.path.isdir(layout.run(home, uid.encode("ascii"))):
        return True
    folder = lossless(home)
    return any((source + "/").startswith(folder + "/") for source in container.mounted)


def end(home: "bytes", uids: "set[str]", last: "bool") -> "None":
    """Take away the containers of these runs and, with the ``last`` of all clients, the images that we brought."""
    from .clean import Part

    notes = jsonl.read_lines(layout.engines(home))
    for engine in {str(note.get("program")): note for note in notes}.values():
        program, part = str(engine.get("program")), Part("images")
        try:
            for container in ours(home, program):
                if container.uid in uids:
                    monitor.remove(program, container.id, REMOVE_S)
            if last:
                brought_images(home, engine, set(), part)
                part.row(act=True)
        except engines.EngineTrouble:
            continue  # of an engine that does not answer nothing can be taken


def brought_images(home: "bytes", engine: "dict[str, object]", going: "set[str]", part: "Part") -> "None":
    """Adds those that nothing uses; the containers ``going`` do not count."""
    program, live = str(engine["program"]), _in_live_plans(home)
    for identity in sorted(images.brought(home, engine)):
        image = images.about(program, identity)
        if image is None:
            continue
        users = engines.ask(program, "ps", "--all", "--no-trunc", "--quiet", "--filter", "ancestor=%s" % identity)
        if identity in live or is_used(images.use_lock(home, identity)) or set(users.split()) - going:
            part.leave("in use")
        elif len(image["names"]) > 1:  # type: ignore[arg-type]
            part.leave("it has another name")
        else:
            size = int(str(image["bytes"]))
            part.add(size, lambda target=identity: _remove_image(home, engine, target))  # type: ignore[misc]


def _in_live_plans(home: "bytes") -> "set[str]":
    image_ids = set()
    for run in run_list.runs(home):
        for attempt in run["attempts"]:  # type: ignore[attr-defined]
            path = launch.attempt_path(home, str(run["uid"]), str(attempt))
            plan = read_plan(path) if run_files.may_live(path) else None
            if plan is not None and plan.container is not None:
                image_ids.add(plan.container.image_id)
    return image_ids


def _remove_image(home: "bytes", engine: "dict[str, object]", identity: "str") -> "bool":
    with Alone(images.use_lock(home, identity)):
        engines.ask(str(engine["program"]), "rmi", identity)
        engines.remember(home, engine, identity, "")
    return True
