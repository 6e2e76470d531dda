"""Provides the environment of a run: one process builds it, others wait for it and show its progress.

An environment is a folder named by its content key. It appears complete, by a rename, or not at all. This module only
locks, starts the builder and renames; the builder decides what is in an environment.
"""

import json
import os
import select
import subprocess
import sys
import time

from ..decoding import readable
from ..signals import signal
from ..store import layout, lock_holders, lock_wait
from ..store.files import fsync_path, write_synced
from ..store.remove_tree import remove_tree
from . import build_failure, environment_damage, node, pip_configuration

MYPY = False
if MYPY:
    from collections.abc import Callable, Iterator

PINS = ("uv==0.13.7", "py-rattler==0.28.0")
OLDEST = (3, 10)
NOTE = environment_damage.NOTE
_STOPPED_S = 10.0  # how long a process that has a lock may be stopped before the wait for it is given up
_SIZES = b"holdfast-sizes.json"


class CannotBuild(Exception):
    """The environment could not be made; the text says what went wrong and what to do."""


class Stopped(Exception):
    """A stop was requested while the environment was being built."""


def ensure(
    home: "bytes",
    runner: "str",
    environment: "dict[str, object]",
    log: "bytes",
    tell: "Callable[[dict[str, object]], None]",
    stopped: "Callable[[], bool]",
) -> "dict[str, object]":
    """The note that a finished environment carries, after building it if it was not there.

    Its ledger is None unless it was built now.
    """
    key = str(environment["key"])
    folder = layout.environment(home, key.encode("ascii"))
    os.makedirs(layout.locks(home), 0o700, exist_ok=True)
    _use(home, key, tell, stopped)
    note = read_note(folder)
    if note is not None:
        os.utime(folder)  # when it was last used: what prune goes by
        return dict(note, ledger=None)
    path = layout.build_lock(home, key.encode("ascii"))
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _wait_for(lock, path, "another run is building this environment", tell, stopped)
        note = read_note(folder)
        if note is not None:
            return dict(note, ledger=None)
        _build(home, runner, environment, folder, log, tell, stopped, lock)
        note = read_note(folder)
        if note is None:
            raise CannotBuild("the environment was built but cannot be read: %s" % os.fsdecode(folder))
        return note
    finally:
        os.close(lock)


def _use(
    home: "bytes", key: "str", tell: "Callable[[dict[str, object]], None]", stopped: "Callable[[], bool]"
) -> "None":
    """Held by every run until it ends, so that an environment in use is never pruned."""
    path = use_lock(home, key)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    _wait_for(fd, path, "this environment is being removed", tell, stopped, shared=True)


def use_lock(home: "bytes", key: "str") -> "bytes":
    return layout.use_lock(home, key.encode("ascii"))


def read_note(folder: "bytes") -> "dict[str, object] | None":
    """What the builder wrote into a finished environment; None where there is none."""
    try:
        with open(os.path.join(folder, NOTE), "rb") as source:
            note = json.loads(source.read().decode("utf-8"))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def builder_python(
    home: "bytes",
    tell: "Callable[[dict[str, object]], None]",
    log: "bytes",
    stopped: "Callable[[], bool]" = lambda: False,
) -> "str":
    """The interpreter that has the pinned builder's tools; made on first use."""
    folder = os.path.join(layout.builder(home), "-".join(PINS).replace("=", "").encode("ascii"))
    python = os.path.join(folder, b"bin", b"python")
    if _has_tools(folder):
        return os.fsdecode(python)
    if sys.version_info < OLDEST:
        raise CannotBuild(
            "building environments needs Python %d.%d or newer on this machine; this is %d.%d"
            % (OLDEST + sys.version_info[:2])
        )
    os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
    path = layout.builder_lock(home)
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _wait_for(lock, path, "another process is installing the builder's tools", tell, stopped)
        if not _has_tools(folder):
            tell({"phase": "tools", "name": ", ".join(PINS)})
            _install_tools(folder, log)
    finally:
        os.close(lock)
    return os.fsdecode(python)


def _has_tools(folder: "bytes") -> "bool":
    """Whether no file of them is shorter than it was when they were installed; older stores have no list of that."""
    if not os.path.exists(os.path.join(folder, b"bin", b"python")):
        return False
    try:
        with open(os.path.join(folder, _SIZES), "rb") as source:
            sizes = json.loads(source.read().decode("ascii"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    try:
        return all(os.path.getsize(os.path.join(folder, os.fsencode(name))) == sizes[name] for name in sizes)
    except (OSError, TypeError):
        return False


def _note_sizes(top: "bytes") -> "None":
    sizes = {}
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            if not os.path.islink(path):
                sizes[os.fsdecode(path[len(top) + 1 :])] = os.path.getsize(path)
    write_synced(os.path.join(top, _SIZES), json.dumps(sizes).encode("ascii"))


def _install_tools(folder: "bytes", log: "bytes") -> "None":
    beside = folder + node.own_ending()
    remove_tree(beside)
    steps = (
        [sys.executable, "-I", "-m", "venv", os.fsdecode(beside)],
        [
            os.path.join(os.fsdecode(beside), "bin", "python"),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            *PINS,
        ],
    )
    with open(log, "ab") as output:
        for step in steps:
            if pip_configuration.call(step, output) != 0:
                remove_tree(beside)
                source = "pip's index must have %s; PIP_EXTRA_INDEX_URL adds another index" % " and ".join(PINS)
                raise CannotBuild(
                    "the tools that build environments could not be installed: %s\n%s" % (source, tail(log))
                )
    _note_sizes(beside)
    _publish(beside, folder, _has_tools)


def _publish(beside: "bytes", folder: "bytes", is_whole: "Callable[[bytes], bool]") -> "None":
    """What is there already is damaged, unless another node that shares this folder has finished first."""
    if is_whole(folder):
        remove_tree(beside)
        fsync_path(os.path.dirname(folder))
    else:
        environment_damage.replace(folder, beside)


def tail(log: "bytes", lines: "int" = 30) -> "str":
    try:
        with open(log, "rb") as source:
            source.seek(max(0, os.path.getsize(log) - 65536))
            text = readable(source.read())
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _wait_for(
    lock: "int",
    path: "bytes",
    what: "str",
    tell: "Callable[[dict[str, object]], None]",
    stopped: "Callable[[], bool]",
    shared: "bool" = False,
) -> "None":
    """As long as it takes, telling who is waited for; CannotBuild where that process was stopped."""
    reported, look_at, stopped_at = "", 0.0, 0.0
    while not lock_wait.try_hold(lock, shared):
        if stopped():
            raise Stopped()
        now = time.monotonic()
        if now >= look_at:
            look_at = now + 1.0
            holders = lock_holders.holders(path)
            text = what + (": " if holders else "") + ", ".join(str(holder) for holder in holders)
            if text != reported:
                reported = text
                tell({"phase": "wait", "name": text})
            is_stopped = bool(holders) and all(holder.stopped for holder in holders)
            stopped_at = (stopped_at or now) if is_stopped else 0.0
            if is_stopped and now - stopped_at >= _STOPPED_S:
                pids = " ".join(str(holder.pid) for holder in holders)
                raise CannotBuild("%s\nresume it: kill -CONT %s; or end it: kill -KILL %s" % (text, pids, pids))
        time.sleep(0.05)


def _build(
    home: "bytes",
    runner: "str",
    environment: "dict[str, object]",
    folder: "bytes",
    log: "bytes",
    tell: "Callable[[dict[str, object]], None]",
    stopped: "Callable[[], bool]",
    lock: "int",
) -> "None":
    beside = folder + node.own_ending()
    remove_tree(beside)  # what a builder left that was killed
    os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
    lock_file = dict(environment["lock"])  # type: ignore[call-overload]
    project = environment.get("own_package")  # True where its folder is unknown
    project = project if isinstance(project, str) else None
    request = {
        "verb": "install",
        "lock": lock_file,
        "prefix": os.fsdecode(folder),
        "beside": os.fsdecode(beside),
        "cache": os.fsdecode(layout.packages(home)),
        "python": environment.get("interpreter"),
        "offline": False,
        "project": project,
        "own_package": project if lock_file.get("own_package") else None,
        "pip_configuration": configuration(environment.get("pip_configuration")),
        "log": os.fsdecode(log),
    }
    program = layout.builder_program(layout.runner(os.fsdecode(home), runner))
    container = environment.get("container")
    seen = [project or "", *package_folders(lock_file), *pip_configuration.folders(request["pip_configuration"])]
    with BuildContainer(home, container if isinstance(container, dict) else None, seen, log) as room:
        request["inside"] = room.words
        answer = ask_builder(home, program, request, log, tell, stopped, lock)
    if answer.get("event") != "done":
        remove_tree(beside)
        raise CannotBuild(build_failure.message(answer, log))
    _publish(beside, folder, lambda made: read_note(made) is not None)


def configuration(sent: "object") -> "dict[str, object]":
    """pip's configuration of this machine, with what the client sent of its own."""
    try:
        return pip_configuration.merged(pip_configuration.read(), sent)
    except pip_configuration.BadAddress as error:
        raise CannotBuild("pip's configuration on this machine: %s" % error) from None


def package_folders(lock_file: "dict[str, object]") -> "list[str]":
    """Folders of this machine that packages are taken from."""
    from urllib.parse import unquote

    options = lock_file.get("pip_options")
    named = list(options.get("find_links") or ()) if isinstance(options, dict) else []
    named += os.environ.get("UV_FIND_LINKS", "").split(",")
    places = (unquote(name[len("file://") :]) if name.startswith("file://") else name for name in map(str, named))
    return sorted({folder for folder in places if folder.startswith("/") and os.path.isdir(folder)})


class BuildContainer:
    """A container of the image that an environment is made for: whatever runs its Python runs there.

    Its only process waits for the end of its stdin, which is ours: it goes when we go, however that happens.
    """

    def __init__(self, home: "bytes", container: "dict[str, object] | None", also: "list[str]", log: "bytes") -> "None":
        self._home = os.fsdecode(home)
        self._also = [path for path in also if path and not (path + "/").startswith(self._home + "/")]
        self._wish = container
        self._log = log
        self.words = None  # type: list[str] | None

    def __enter__(self) -> "BuildContainer":
        if self._wish is None:
            return self
        from ..container import argv as container
        from ..container import engines

        program, network = str(self._wish["program"]), self._wish.get("network")
        engine = engines.find(os.fsencode(self._home), os.path.basename(program))
        name = "holdfast-build-%d-%s" % (os.getpid(), os.urandom(4).hex())
        argv = [program, "run", "--rm", "--name", name, "--interactive", "--label", "%s=%s" % (container.LABEL, name)]
        argv += container.user_words(engine, "", (os.getuid(), os.getgid()))
        for path in [self._home, *self._also]:
            argv += ["--mount", container.mount(path, path, path != self._home)]
        argv += ["--network", str(network)] if network else []
        argv += ["--security-opt", "label=disable"] if container.has_selinux() else []
        argv += ["--entrypoint", "/bin/sh", *container.image_words(str(self._wish["image_id"]))]
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                [*argv, "-c", "echo ready; read _"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
            )
        if self._process.stdout.readline() != b"ready\n":  # type: ignore[union-attr]
            self._process.communicate()
            raise CannotBuild("the build container could not be started\n%s" % tail(self._log, 8))
        self.words = [program, "exec", "--interactive", name]
        return self

    def __exit__(self, *_: "object") -> "None":
        if self.words is not None:
            self._process.communicate()


def ask_builder(
    home: "bytes",
    program: "str",
    request: "dict[str, object]",
    log: "bytes",
    tell: "Callable[[dict[str, object]], None]",
    stopped: "Callable[[], bool]",
    lock: "int | None" = None,
) -> "dict[str, object]":
    """One request to the builder; its progress is reported, its last line is the answer.

    The builder ends when we do, for it holds the other end of a pipe of ours. It shares the lock, so that no process
    builds at the same place before it really is gone.
    """
    argv = [builder_python(home, tell, log, stopped), "-I", "-B", program]
    life, held = os.pipe()
    shared = (life,) if lock is None else (life, lock)
    pipe = subprocess.PIPE
    answer = {}  # type: dict[str, object]
    try:
        with open(log, "ab") as output:
            builder = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=output, start_new_session=True, pass_fds=shared
            )
        builder.stdin.write(json.dumps(dict(request, life=life)).encode("ascii"))  # type: ignore[union-attr]
        builder.stdin.close()  # type: ignore[union-attr]
        for event in _lines(builder, stopped):
            if event.get("event") == "progress":
                tell(event)
            else:
                answer = event
        builder.wait()
        builder.stdout.close()  # type: ignore[union-attr]
    finally:
        os.close(life)
        os.close(held)
    if stopped():
        raise Stopped()
    return answer or {"event": "failed", "kind": "internal", "what": "the builder ended without a result"}


def _lines(builder: "subprocess.Popen[bytes]", stopped: "Callable[[], bool]") -> "Iterator[dict[str, object]]":
    """The builder's output, line by line; it is told to end as soon as a stop is requested."""
    fd = builder.stdout.fileno()  # type: ignore[union-attr]
    held = b""
    signalled = False
    while True:
        if stopped() and not signalled:
            signalled = True
            os.killpg(builder.pid, signal.SIGTERM)
        if not select.select([fd], [], [], 0.1)[0]:
            continue
        block = os.read(fd, 65536)
        if not block:
            return
        lines = (held + block).split(b"\n")
        held = lines.pop()
        for line in lines:
            try:
                event = json.loads(line.decode("utf-8"))
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event
