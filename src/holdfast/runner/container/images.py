"""Images of the container engine: list, export as an archive, import."""

import json
import os
import subprocess
import time

from .. import wire
from ..decoding import as_bytes, readable
from ..run import script_process
from ..signals import signal
from ..store import jsonl, layout, lock_wait
from ..store.files import write_all
from . import engines, gpu_passthrough

MYPY = False
if MYPY:
    from collections.abc import Callable, Iterator

    from ..store.mirror import Reply

ROOM = 8  # pieces of an archive that may be on their way
SILENCE_S = 900.0  # a client that says nothing for so long in the middle of an archive is gone
NO_GPU = "no-gpu"
_LOADED = "Loaded image"
_REMOVAL_S = 600.0  # for the engine to remove an image


def answer(home: "bytes", parameters: "dict[str, object]", reader: "wire.FrameReader", reply: "Reply") -> "None":
    """The verbs images, save and load."""
    engine_name, name = parameters.get("engine"), str(parameters.get("image") or "")
    try:
        if parameters["verb"] == "save":
            save(home, str(engine_name) if engine_name else None, name, reply)
            return
        engine = engines.find(home, str(engine_name) if engine_name else None)
        if parameters["verb"] == "images":
            reply.end(engine=engine["name"], images=listed(home, engine))
        else:
            reply.end(engine=engine["name"], names=load(engine, reader, reply))
    except engines.EngineTrouble as error:
        reply.end(failed=error.to_json())


def provide(
    home: "bytes", parameters: "dict[str, object]", commit: "Callable[[], object]", reply: "Reply"
) -> "tuple[dict[str, object], dict[str, object]]":
    """Engine and image of a run's container; the image is built, or fetched if it is not here.

    With ``gpu`` the machine must have a GPU that the engine can hand to a container: that is found before a fetch.
    """
    kind, name, python = parameters.get("engine"), str(parameters["image"]), str(parameters["python"])

    def tell(event: "dict[str, object]") -> "None":
        reply.send(b"", progress=event)

    engine = engines.find(home, str(kind) if kind else "podman" if name.startswith(engines.ROOTFS) else None)
    if parameters.get("gpu"):
        refused = gpu_passthrough.look(engine)["refused"]
        if refused:
            raise engines.EngineTrouble("the container cannot have a GPU", "", refused, code=NO_GPU)
    build = parameters.get("build")
    if isinstance(build, dict):
        from . import image_build

        commit()
        image_build.build(home, engine, name, build, tell)
    image = {}  # type: dict[str, object]
    while not (image and use(home, str(image["id"]))):
        image = engines.image(home, engine, name, python, tell)
    return engine, image


def listed(home: "bytes", engine: "dict[str, object]") -> "list[dict[str, object]]":
    """``id``, ``names``, ``bytes``, and whether Holdfast ``brought`` it: fetched, built, or None."""
    program, ours = str(engine["program"]), brought(home, engine)
    ids = set(engines.ask(program, "image", "ls", "--quiet", "--no-trunc").split())
    return [dict(image, brought=ours.get(str(image["id"]))) for image in _described(program, sorted(ids))]


def about(program: "str", image: "str") -> "dict[str, object] | None":
    """``id``, ``names`` and ``bytes``; None where there is no such image."""
    try:
        (row,) = _inspect(program, [image])
        return row
    except engines.EngineTrouble as error:
        if error.code == engines.NOT_FOUND:
            return None
        raise


def _described(program: "str", images: "list[str]") -> "list[dict[str, object]]":
    """All of them by one command; one by one where an image was removed meanwhile."""
    try:
        return _inspect(program, images) if images else []
    except engines.EngineTrouble as error:
        if error.code != engines.NOT_FOUND:
            raise
    rows = [about(program, image) for image in images]
    return [row for row in rows if row is not None]


def _inspect(program: "str", images: "list[str]") -> "list[dict[str, object]]":
    output = engines.ask(program, "image", "inspect", "--format", "{{.Id}} {{.Size}} {{json .RepoTags}}", *images)
    rows = []
    for line in output.splitlines():
        identity, size, names = line.strip().split(" ", 2)
        rows.append({"id": identity, "names": json.loads(names) or [], "bytes": int(size)})
    return rows


def brought(home: "bytes", engine: "dict[str, object]") -> "dict[str, str]":
    """Ids of the images that Holdfast pulled or built in this engine; the last entry for each counts."""
    last = {}  # type: dict[str, str]
    for line in jsonl.read_lines(engines.images_note(home)):
        if "brought" in line and line.get("engine") == engine["name"]:
            last[str(line["id"])] = str(line["brought"])
    return {image: how for image, how in last.items() if how}


def use_lock(home: "bytes", image: "str") -> "bytes":
    """Shared lock of processes that are about to use an image."""
    return layout.image_lock(home, as_bytes(image.replace("/", "-"))[-64:])


def use(home: "bytes", image: "str") -> "bool":
    """Until this process ends and all that it started: a run holds its image even before it has a container.

    False if another process is removing it; the lock is not held then, and the image may be gone.
    """
    os.makedirs(layout.locks(home), 0o700, exist_ok=True)
    path = use_lock(home, image)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if lock_wait.try_hold(fd, shared=True):
        return True
    try:
        lock_wait.hold(fd, path, shared=True, patience=_REMOVAL_S)
    finally:
        os.close(fd)
    return False


def save(home: "bytes", engine_name: "str | None", name: "str", reply: "Reply") -> "None":
    """The image as an archive that either engine can load, in frames."""
    program, image = _who_has(home, engine_name, name)
    # What podman writes by itself depends on its configuration.
    kind = ["--format", "docker-archive"] if os.path.basename(program) == "podman" else []
    saver = _start([program, "save", *kind, "--", name], subprocess.DEVNULL)
    sent = 0
    try:
        reply.send(size=image["bytes"])
        for block in _blocks(saver.stdout.fileno()):  # type: ignore[union-attr]
            reply.send(block)
            sent += len(block)
    except BaseException:
        _end(saver)
        raise
    complaint = saver.communicate()[1]
    if saver.returncode:
        raise engines.meaning(program, readable(complaint).strip())
    reply.end(bytes=sent)


def _who_has(home: "bytes", engine_name: "str | None", name: "str") -> "tuple[str, dict[str, object]]":
    """Without a wish the image decides: a machine may well have both engines."""
    reasons = []
    for each in [engine_name] if engine_name else engines.ENGINES:
        try:
            program = str(engines.find(home, each)["program"])
        except engines.EngineTrouble as error:
            if engine_name:
                raise
            reasons.append("%s: %s" % (each, error.answer or error.what))
            continue
        image = about(program, name)
        if image is not None:
            return program, image
        reasons.append("%s has no such image" % each)
    hint = "holdfast image list shows the images"
    raise engines.EngineTrouble("no such image %s" % name, "\n".join(reasons), hint, code="no-such-image")


def _blocks(fd: "int") -> "Iterator[bytes]":
    script_process.widen(fd)
    while True:
        block = os.read(fd, wire.MAX_PAYLOAD)
        if not block:
            return
        yield block


def load(engine: "dict[str, object]", reader: "wire.FrameReader", reply: "Reply") -> "list[str]":
    """Take in an archive that the client sends; the names that its images have now.

    Whatever goes wrong on the way ends the loader before it has seen the end of its input: an engine names an image
    only after it has read all of it.
    """
    program = str(engine["program"])
    loader = _start([program, "load", "--quiet"], subprocess.PIPE)
    try:
        _feed(loader, reader, reply)
    except BaseException:
        _end(loader)
        raise
    out, err = loader.communicate()
    if loader.returncode:
        trouble = engines.meaning(program, readable(err).strip())
        hint = trouble.hint or "expected a complete archive of docker save or podman save"
        raise engines.EngineTrouble("the archive cannot be loaded", trouble.answer, hint)
    lines = readable(out).splitlines()
    names = [line.partition(": ")[2] for line in lines if line.startswith(_LOADED)]
    return [_plainly_named(engine, name) for line in names for name in line.split(",")]


def _feed(loader: "subprocess.Popen[bytes]", reader: "wire.FrameReader", reply: "Reply") -> "None":
    heard = time.monotonic()

    def beat(number: "int", frame: "object") -> "None":
        if time.monotonic() - heard > SILENCE_S:
            raise wire.Closed("no data for %d s" % SILENCE_S)
        reply.beat(number, frame)

    signal.signal(signal.SIGALRM, beat)  # the timer of the session goes on
    try:
        reply.send(room=ROOM)
        while True:
            header, piece = reader.frame()
            heard = time.monotonic()
            write_all(loader.stdin.fileno(), piece)  # type: ignore[union-attr]
            if header.get("last"):
                return
            reply.send(room=1)
    except BrokenPipeError:
        return  # it has all that it needs, or says what is wrong with it
    finally:
        signal.signal(signal.SIGALRM, reply.beat)


def _plainly_named(engine: "dict[str, object]", name: "str") -> "str":
    """podman calls an image without a registry localhost/NAME, which docker would take for another name than NAME."""
    plain = name[len("localhost/") :]
    if engine["name"] != "docker" or not name.startswith("localhost/"):
        return name
    engines.ask(str(engine["program"]), "tag", name, plain)
    engines.ask(str(engine["program"]), "rmi", name)
    return plain


def _start(argv: "list[str]", stdin: "int") -> "subprocess.Popen[bytes]":
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(argv, bufsize=0, stdin=stdin, stdout=pipe, stderr=pipe, start_new_session=True)
    except OSError as error:
        raise engines.EngineTrouble("%s cannot be started: %s" % (argv[0], error)) from error


def _end(process: "subprocess.Popen[bytes]") -> "None":
    """At once, with what it started: a rootless podman works in a child of its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
