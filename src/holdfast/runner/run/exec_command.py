"""Runs a command (``holdfast exec``) in the folder or container of a run, with the run's variables, while the client
is connected. Values of variables that are not kept are missing."""

import os
import select
import subprocess
import time

from .. import wire
from ..decoding import as_bytes
from ..machine import environment, processes
from ..plan import read_plan
from ..signals import signal
from ..store import layout
from . import control, process_tree, script_process, waiting, workdir

MYPY = False
if MYPY:
    from ..plan import Plan
    from ..store.mirror import Reply

BLOCK = 64 * 1024
AT_ONCE = 4096  # so much a pipe takes without stopping the writer, once it takes anything
GRACE_S = 2.0
MARK = b"HOLDFAST_EXEC"
LOOK_S = 0.1


class Silent(wire.Closed):
    """The client sent nothing for longer than announced: the connection is broken."""


def _refusal(attempt: "bytes", plan: "Plan | None") -> "tuple[str, str]":
    """Why no command can be run in that attempt, and the code of the error; empty where one can."""
    if plan is None:
        return "it was never started on this machine, or was removed", "run-not-here"
    if waiting.is_waiting(attempt):
        return "its job waits in the queue", "run-queued"
    if plan.container is not None and control.look(attempt) != "alive":
        return "its container was removed when it ended", "container-gone"
    return "", ""


def execute(
    home: "bytes",
    runner: "str",
    attempt: "bytes",
    options: "dict[str, object]",
    umask: "int",
    reader: "wire.FrameReader",
    reply: "Reply",
) -> "None":
    """``options`` has argv, whether there will be input, and for how many seconds at most the client may be silent."""
    plan = read_plan(attempt)
    refused, why = _refusal(attempt, plan)
    if plan is None or refused:
        reply.end(refused=refused, error_code=why)
        return
    work = layout.worked_in(attempt)
    folder = work if os.path.isdir(work) else attempt
    mark = os.urandom(8).hex().encode("ascii") if plan.container is not None else b""
    argv, env = _command(home, runner, attempt, plan, [as_bytes(word) for word in options["argv"]], mark)  # type: ignore[attr-defined]
    stdin = subprocess.PIPE if options.get("input") else subprocess.DEVNULL
    processes.adopt_orphans()
    before = processes.descendants(os.getpid())
    try:
        command = _spawn(argv, env, folder, umask, stdin)
    except OSError as error:
        reply.send(b"holdfast: %s: %s\n" % (argv[0], os.strerror(error.errno or 0).encode("utf-8")), stream=2)
        reply.end(code=127 if isinstance(error, FileNotFoundError) else 126)
        return
    try:
        reply.send(began=command.pid)
        _Attendance(command, reader, options.get("id")).hold(float(str(options["patience"])))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # what follows must not be interrupted
        _end(command, before, mark)
    code = command.returncode
    reply.end(code=128 - code if code < 0 else code)


class _Attendance:
    """Carries what the command writes to the client and what the client writes to the command, until it ends.

    Nothing here waits for one of them alone: a client that does not read, or a command that does not, is still heard.
    """

    def __init__(self, command: "subprocess.Popen[bytes]", reader: "wire.FrameReader", request: "object") -> "None":
        self._command = command
        self._reader = reader
        self._request = request
        self._outputs = {command.stdout.fileno(): 1, command.stderr.fileno(): 2}  # type: ignore[union-attr]
        self._input = command.stdin
        self._to_client = b""
        self._to_command = b""
        self._is_last = False
        if self._input is not None:
            os.set_blocking(self._input.fileno(), False)

    def hold(self, patience: "float") -> "None":
        signal.signal(signal.SIGALRM, _raise_silent)
        signal.setitimer(signal.ITIMER_REAL, patience)
        over = False
        while not over:
            exited = self._command.poll() is not None  # asked first: all that it wrote is then there to be read
            over = self._pass_on(patience, 0.0 if exited and not self._to_client else LOOK_S) and exited

    def _pass_on(self, patience: "float", pause: "float") -> "bool":
        """Whatever can be done now, or comes within the pause; whether there was nothing to say to the client."""
        outputs = [] if self._to_client else list(self._outputs)
        sinks = [1] if self._to_client else []
        if self._to_command and self._input is not None:
            sinks.append(self._input.fileno())
        pending = self._reader.pending()
        ready, writable, _ = select.select([self._reader.fd, *outputs], sinks, [], 0.0 if pending else pause)
        nothing = not self._to_client and not any(fd in outputs for fd in ready)
        for fd in ready:
            if fd in outputs:
                self._take(fd)
        for fd in writable:
            if fd == 1:
                self._speak()
            else:
                self._feed(fd)
        if pending or self._reader.fd in ready:
            self._hear()
            signal.setitimer(signal.ITIMER_REAL, patience)
        return nothing

    def _take(self, fd: "int") -> "None":
        block = os.read(fd, BLOCK)
        if block:
            self._say(block, stream=self._outputs[fd])
        else:
            del self._outputs[fd]

    def _speak(self) -> "None":
        """As much as the client takes without stopping us."""
        rest = memoryview(self._to_client)
        while rest and select.select([], [1], [], 0)[1]:
            wire.write_all(1, bytes(rest[:AT_ONCE]))
            rest = rest[AT_ONCE:]
        self._to_client = bytes(rest)

    def _hear(self) -> "None":
        header, payload = self._reader.frame()
        if not payload and not self._to_client:
            self._say(beat=True)  # the client's heartbeat is answered, so that it knows of ours
        if self._input is None:
            if payload:
                self._say(taken=len(payload))  # it reads no more input; do not wait for it
            return
        self._to_command += payload
        self._is_last = self._is_last or bool(header.get("last"))
        self._close_input_at_end()

    def _feed(self, fd: "int") -> "None":
        taken = len(self._to_command)
        try:
            taken = os.write(fd, self._to_command)
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._is_last = True
        self._to_command = self._to_command[taken:]
        self._say(taken=taken)
        self._close_input_at_end()

    def _close_input_at_end(self) -> "None":
        if self._is_last and not self._to_command and self._input is not None:
            self._input.close()
            self._input = None

    def _say(self, payload: "bytes" = b"", **fields: "object") -> "None":
        self._to_client += wire.pack(dict(fields, re=self._request), payload)


def _spawn(
    argv: "list[bytes]", env: "dict[bytes, bytes]", folder: "bytes", umask: "int", stdin: "int"
) -> "subprocess.Popen[bytes]":
    def settle() -> "None":
        os.umask(umask)
        processes.die_with_parent(signal.SIGKILL)

    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            argv,
            bufsize=0,
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            preexec_fn=settle,  # noqa: PLW1509 - there are no threads here
            cwd=folder,
            env=env,
            start_new_session=True,
        )
    except FileNotFoundError:
        if argv[0] != b"python":
            raise
        return _spawn([b"python3", *argv[1:]], env, folder, umask, stdin)  # as for the script itself


def _command(
    home: "bytes", runner: "str", attempt: "bytes", plan: "Plan", argv: "list[bytes]", mark: "bytes"
) -> "tuple[list[bytes], dict[bytes, bytes]]":
    """Words and variables as they are started here, for a command that may belong into a container."""
    variables = workdir.variables(home, runner, attempt, plan, _note(home, plan))
    if plan.container is None:
        return argv, script_process.environment(dict(os.environb), {}, workdir.merged(variables))
    from ..container import argv as container

    variables[0][MARK] = mark
    return container.beside(
        plan.container, container.name_of(plan.uid, plan.attempt), argv, layout.worked_in(attempt), *variables
    ), dict(os.environb)


def _note(home: "bytes", plan: "Plan") -> "dict[str, object]":
    """What the environment of the run says of itself."""
    if plan.environment is None:
        return {}
    return environment.read_note(layout.environment(home, as_bytes(plan.environment.key))) or {}


def _end(command: "subprocess.Popen[bytes]", before: "list[int]", mark: "bytes") -> "None":
    """End what is left of the command and of all that it started, double forks and new sessions included."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for each in (number, signal.SIGCONT):  # a stopped process handles no other signal
            _tell_group(command.pid, each)
            process_tree.tell(_family(command, before), each)
        until = time.monotonic() + GRACE_S
        while _family(command, before) and time.monotonic() < until:
            time.sleep(0.01)
    if mark:  # what an engine's client started in a container is no child of ours
        process_tree.end_marked(mark, MARK)


def _family(command: "subprocess.Popen[bytes]", before: "list[int]") -> "list[int]":
    """All that runs below this process and was not there before the command, nor belongs to something that was."""
    if command.poll() is not None:
        process_tree.reap()
    others = {pid for root in before for pid in [root, *processes.descendants(root)]}
    return [pid for pid in process_tree.family(os.getpid(), "") if pid not in others]


def _tell_group(group: "int", number: "int") -> "None":
    """For systems where orphans are not ours."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _raise_silent(_number: "int", _frame: "object") -> "None":
    raise Silent("the client stopped responding")


def _bytes(value: "object") -> "bytes":
    return as_bytes(value)
