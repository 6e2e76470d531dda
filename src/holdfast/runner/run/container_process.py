"""The script's process when it runs in a container: start, stop, kill, result."""

import json
import os
import sys
import time

from ..container import argv, engines, monitor
from ..decoding import as_bytes, lossless
from ..store import layout
from ..store.files import unlink_quietly
from . import process_tree, script_process, workdir

MYPY = False
if MYPY:
    from ..plan import Container, Plan
    from .supervisor import Supervisor

LATE_S = 1.0
AGAIN = 5  # how often the monitor of a container is restarted


class Contained:
    def __init__(self, supervisor: "Supervisor", container: "Container") -> "None":
        self._run = supervisor
        self._wish = container
        self._name = argv.name_of(supervisor.plan.uid, supervisor.plan.attempt)
        self._inside = layout.inside(supervisor.attempt)
        self._charge = None  # type: monitor.Charge | None
        self._verdict = -1
        self._tries = 0
        self._words = {}  # type: dict[str, object]

    def start(
        self, requested: "dict[bytes, bytes]", environment: "dict[str, object]"
    ) -> "tuple[int, int, dict[str, object]]":
        """Start it; returns the monitor's pid, the end of its stream and the fields for the event."""
        try:
            engine = engines.find(self._run.home, self._wish.engine)
            self._charge = self._make_charge(engine, requested, environment)
        except engines.EngineTrouble as error:
            raise workdir.CannotPrepare(str(error)) from error
        output = self._open_stream()
        pid, self._verdict = monitor.begin(self._charge, again=False)
        details = {"engine": engine["name"], "version": engine["version"], "name": self._name}
        details.update(image=self._wish.image, image_id=self._wish.image_id, digest=self._wish.digest)
        return pid, output, dict(details, argv=self._charge.words)

    def tell(self, pid: "int", number: "int") -> "None":
        """The monitor forwards it; no other process on this machine belongs to the script."""
        process_tree.tell([pid], number)

    def end(self) -> "dict[int, int]":
        """Kill it at once; first the process that may still be starting it."""
        ended = process_tree.end_family(self._run.plan.uid)
        destroy(self._run.plan)
        return ended

    def goes_on(self) -> "int":
        """Restart the monitor if the last one ended without a result."""
        if self._read_verdict() or self._charge is None or self._tries >= AGAIN:
            return 0
        self._tries += 1
        pid, self._verdict = monitor.begin(self._charge, again=True)
        return pid

    def verdict(self, _status: "int") -> "dict[str, object]":
        """``code``, ``reason``, ``lost`` and ``left``."""
        result = self._read_verdict()
        if not result:
            destroy(self._run.plan)
            reason = "the container monitor was killed repeatedly; the script was ended with it"
            return {"code": 125, "reason": reason, "lost": True}
        return result

    def tidy(self) -> "None":
        """When all is written down: take the container away, and what the engine's client left."""
        process_tree.end_family(self._run.plan.uid)
        destroy(self._run.plan, settled=bool(self._words) and not self._words.get("lost"))
        for name in (b"stream", b"ended"):
            unlink_quietly(os.path.join(self._inside, name))

    def _read_verdict(self) -> "dict[str, object]":
        """What the monitor wrote into the pipe; read once, when it has ended."""
        if self._verdict >= 0:
            with os.fdopen(self._verdict, "rb") as source:
                text = source.read().decode("ascii", "replace")
            self._verdict = -1
            self._words = _parsed(text)
        return self._words

    def _make_charge(
        self, engine: "dict[str, object]", requested: "dict[bytes, bytes]", environment: "dict[str, object]"
    ) -> "monitor.Charge":
        run, container = self._run, self._wish
        gpu = self._gpu(engine)
        places = self._places(engine)
        command = argv.words(engine, container, places, self._name, gpu[0])
        line = self._line(engine, gpu[1], requested, environment)
        charge = monitor.Charge(str(engine["program"]), self._name, command, line, run.attempt)
        charge.limit = container.memory_text
        if container.copied:
            from ..container import file_copy

            charge.load = lambda: file_copy.load(charge, places)
            charge.fetch = lambda: file_copy.fetch(charge, places)
        return charge

    def _places(self, engine: "dict[str, object]") -> "argv.Places":
        run = self._run
        prefix = run.plan.environment.prefix if run.plan.environment is not None else None
        runner = layout.runner(run.home, run.runner.encode("ascii"))
        links = [link.target for link in run.plan.links]
        if run.plan.spark is not None:
            links.append(lossless(layout.spark_packages(run.home)))
            os.makedirs(layout.spark_packages(run.home), 0o700, exist_ok=True)
        share = lossless(workdir.share_path(run.plan.share)) if run.plan.share else None
        return argv.Places(
            lossless(run.attempt),
            lossless(runner),
            prefix,
            share,
            links,
            (os.getuid(), os.getgid()),
            argv.has_selinux(),
            self._data_folders(),
            self._users(engine) if run.plan.spark is not None else None,
        )

    def _users(self, engine: "dict[str, object]") -> "str | None":
        """Java finds no home without a user's name, and Spark refuses to start."""
        uid = os.getuid()
        if not argv.lacks_user(engine, self._wish, uid):
            return None
        import pwd

        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = "user"
        os.makedirs(self._inside, 0o700, exist_ok=True)
        path = layout.users_inside(self._inside)
        with open(path, "w") as target:
            target.write(argv.users_text(uid, os.getgid(), name))
        os.chmod(path, 0o644)
        return lossless(path)

    def _data_folders(self) -> "list[str]":
        if not self._run.plan.data:
            return []
        from ..data import run_data

        return [lossless(run_data.location(self._run.home, data)) for data in self._run.plan.data]

    def _line(
        self,
        engine: "dict[str, object]",
        gpu: "dict[str, str]",
        requested: "dict[bytes, bytes]",
        environment: "dict[str, object]",
    ) -> "bytes":
        """The line of JSON for the first process of the container."""
        run = self._run
        ours, first = workdir.variables(run.home, run.runner, run.attempt, run.plan, environment)
        ours[b"HOME"] = b"/tmp"  # the caller has no user in an image
        ours[b"HOLDFAST_HOME"] = os.path.join(ours[b"HOLDFAST_OUTPUTS"], b".holdfast")  # outlives the container
        ours.update((as_bytes(name), as_bytes(value)) for name, value in gpu.items())
        if b"LD_LIBRARY_PATH" in ours:  # the driver's libraries, before those that an image may have
            first[b"LD_LIBRARY_PATH"].insert(0, ours.pop(b"LD_LIBRARY_PATH"))
        if run.plan.share and not self._wish.copied:
            ours[b"AZUREML_NATIVE_SHARE_DIRECTORY"] = argv.SHARE.encode() + b"/"
        else:
            ours.pop(b"AZUREML_NATIVE_SHARE_DIRECTORY", None)
        ours.update(requested)
        ours.update(run.gpu.variables())
        if b"PYTHONPATH" in requested:
            ours[b"PYTHONPATH"] = b":".join([*first.pop(b"PYTHONPATH", []), requested[b"PYTHONPATH"]])
        is_root = argv.is_root(self._wish.user) and not engine.get("rootless")
        settings = {
            "argv": run.plan.argv,
            "folder": lossless(layout.work(run.attempt)),
            "env": {lossless(name): lossless(value) for name, value in ours.items()},
            "first": {lossless(name): [lossless(folder) for folder in places] for name, places in first.items()},
            "umask": run.umask,
            "grace": run.plan.grace,
            "stream": None if self._wish.copied else lossless(layout.stream(self._inside)),
            "note": lossless(layout.script_end(self._inside)),
            "ended": None if self._wish.copied else lossless(layout.ended(self._inside)),
            "folders": [lossless(os.path.join(run.attempt, part.encode())) for part in argv.PARTS],
            "after": [os.getuid(), os.getgid()] if is_root else None,
        }
        settings.update(touch=self._touch_argv() if self._wish.gpu else None, packages=self._package_list(requested))
        return json.dumps(settings).encode("ascii") + b"\n"

    def _touch_argv(self) -> "list[str]":
        """The GPU probe is run by the interpreter that will run the script."""
        run = self._run
        program = layout.gpu_probe(layout.runner(run.home, run.runner.encode("ascii")))
        return [run.plan.python, "-B", lossless(program), "look"]

    def _package_list(self, variables: "dict[bytes, bytes]") -> "list[str] | None":
        """The command that lists the packages in there; None where they are known from an earlier run."""
        plan, container = self._run.plan, self._wish
        python = plan.python if os.path.basename(plan.python).startswith("python") else container.python
        if plan.environment is not None:
            python = os.path.join(plan.environment.prefix, "bin", "python")
        is_fixed = not (container.arguments or b"PYTHONPATH" in variables or container.image_id.startswith("rootfs:"))
        return self._run.packages.prepare_inside(python, container.image_id if is_fixed else "", self._inside)

    def _gpu(self, engine: "dict[str, object]") -> "tuple[list[str], dict[str, str]]":
        """Words for the engine and variables for the script."""
        if not self._wish.gpu:
            return [], {}
        from ..container import gpu_passthrough

        method = gpu_passthrough.look(engine, self._run.gpu.chosen)
        if method["refused"]:
            raise workdir.CannotPrepare(str(method["refused"]))
        return list(method["words"]), dict(method["environment"])

    def _open_stream(self) -> "int":
        """A pipe with a name, so that the container writes to us and not to its engine; we hold both its ends."""
        os.makedirs(self._inside, 0o700, exist_ok=True)
        path = layout.stream(self._inside)
        os.mkfifo(path, 0o600)
        os.mkfifo(layout.ended(self._inside), 0o600)
        output = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # with a writing end of our own it never comes to its end
        script_process.widen(output)
        if self._charge is not None and self._wish.copied:
            self._charge.output = os.open(path, os.O_WRONLY)
        return output


def destroy(plan: "Plan", settled: "bool" = False) -> "None":
    """Kill the container of a run, if it has one, even if a monitor is still running.

    Unless it is ``settled`` that it ran, an engine that was asked to start it a moment ago may do so after all.
    """
    if plan.container is None:
        return
    name, program = argv.name_of(plan.uid, plan.attempt), plan.container.program
    for wait in (0.0,) if settled else (0.0, LATE_S):
        time.sleep(wait)
        process_tree.end_marked(plan.uid.encode("ascii"))  # what runs as us needs no engine to be ended
        if not monitor.remove(program, name):
            sys.stderr.write("the container %s could not be removed: %s does not respond\n" % (name, program))
            return


def save_checkpoints(plan: "Plan", attempt: "bytes") -> "None":
    """Copy the checkpoints of a lost attempt out of its container, where no folder is shared with it."""
    if plan.container is None or not plan.container.copied:
        return
    from ..container import file_copy

    folder = lossless(layout.checkpoints(attempt))
    try:
        file_copy.fetch_folder(plan.container.program, argv.name_of(plan.uid, plan.attempt), folder)
    except OSError as error:
        sys.stderr.write("the checkpoints could not be copied from the container: %s\n" % error)


def _parsed(text: "str") -> "dict[str, object]":
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
