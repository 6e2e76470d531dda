"""A command beside a run: with its variables, in its folder, for as long as the client listens to it."""

import json
import os
import select
import signal
import subprocess
import time

from . import child, environment, hostfacts, kill, prepare, wire

MYPY = False
if MYPY:
    from .pull import Reply

BLOCK = 64 * 1024
GRACE_S = 2.0
LOOK_S = 0.1


class Silent(Exception):
    """Nothing was heard of the client for longer than it promised."""


def execute(
    home: "bytes",
    runner: "str",
    attempt: "bytes",
    asked: "dict[str, object]",
    umask: "int",
    reader: "wire.FrameReader",
    reply: "Reply",
) -> "None":
    """``asked`` has argv, whether there will be input, and for how many seconds at most the client may be silent."""
    plan = _plan(attempt)
    if plan is None:
        reply.end(refused="it was never started on this machine, or is gone from it")
        return
    argv = [_bytes(word) for word in asked["argv"]]  # type: ignore[attr-defined]
    work = os.path.join(attempt, b"work")
    try:
        command = _spawn(
            argv,
            _variables(home, runner, attempt, plan),
            work if os.path.isdir(work) else attempt,
            umask,
            subprocess.PIPE if asked.get("input") else subprocess.DEVNULL,
        )
    except OSError as error:
        reply.send(b"holdfast: %s: %s\n" % (argv[0], str(error.strerror).encode("utf-8", "replace")), stream=2)
        reply.end(code=127 if isinstance(error, FileNotFoundError) else 126)
        return
    reply.send(began=command.pid)
    try:
        _Attendance(command, reader, reply, float(str(asked["patience"]))).hold()
    except Silent as error:
        raise wire.Closed("the client fell silent") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _end(command)
    code = command.returncode
    reply.end(code=128 - code if code < 0 else code)


class _Attendance:
    """Carries what the command writes to the client and what the client writes to the command, until it ends."""

    def __init__(
        self, command: "subprocess.Popen[bytes]", reader: "wire.FrameReader", reply: "Reply", patience: "float"
    ) -> "None":
        self._command = command
        self._reader = reader
        self._reply = reply
        self._patience = patience
        self._outputs = {command.stdout.fileno(): 1, command.stderr.fileno(): 2}  # type: ignore[union-attr]
        self._input = command.stdin
        self._pending = b""
        self._has_ended = False
        if self._input is not None:
            os.set_blocking(self._input.fileno(), False)

    def hold(self) -> "None":
        # An alarm also ends a write that a broken link has stopped.
        signal.signal(signal.SIGALRM, _raise_silent)
        signal.setitimer(signal.ITIMER_REAL, self._patience)
        while True:
            over = self._command.poll() is not None  # asked first: all that it wrote is then there to be read
            waiting = [self._input] if self._pending else []
            pause = 0.0 if over or self._reader.pending() else LOOK_S
            ready, writable, _ = select.select([self._reader.fd, *self._outputs], waiting, [], pause)
            said = [self._carry(fd) for fd in ready if fd in self._outputs]
            if self._reader.pending() or self._reader.fd in ready:
                self._hear()
            if writable:
                self._feed()
            if over and not said:
                return

    def _carry(self, fd: "int") -> "None":
        block = os.read(fd, BLOCK)
        if block:
            self._reply.send(block, stream=self._outputs[fd])
        else:
            del self._outputs[fd]

    def _hear(self) -> "None":
        header, payload = self._reader.frame()
        signal.setitimer(signal.ITIMER_REAL, self._patience)
        if self._input is None:
            if payload:
                self._reply.send(taken=len(payload))  # it wants no more, and nobody should wait for it
            return
        self._pending += payload
        self._has_ended = self._has_ended or bool(header.get("last"))
        if self._has_ended and not self._pending:
            self._close_input()

    def _feed(self) -> "None":
        taken = len(self._pending)
        try:
            taken = os.write(self._input.fileno(), self._pending)  # type: ignore[union-attr]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._has_ended = True
        self._pending = self._pending[taken:]
        self._reply.send(taken=taken)
        if self._has_ended and not self._pending:
            self._close_input()

    def _close_input(self) -> "None":
        self._input.close()  # type: ignore[union-attr]
        self._input = None


def _spawn(
    argv: "list[bytes]", env: "dict[bytes, bytes]", folder: "bytes", umask: "int", stdin: "int"
) -> "subprocess.Popen[bytes]":
    def settle() -> "None":
        os.umask(umask)
        hostfacts.die_with_parent(signal.SIGKILL)

    try:
        return subprocess.Popen(
            argv,
            bufsize=0,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=settle,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
    except FileNotFoundError:
        if argv[0] != b"python":
            raise
        return _spawn([b"python3", *argv[1:]], env, folder, umask, stdin)  # as for scripts


def _variables(home: "bytes", runner: "str", attempt: "bytes", plan: "dict[str, object]") -> "dict[bytes, bytes]":
    """What the run's script finds in its environment, less the values that nobody kept."""
    chosen = plan.get("environment")
    note = None
    if isinstance(chosen, dict):
        note = environment.read_note(os.path.join(home, b"envs", _bytes(chosen["key"])))
    ours = prepare.variables(home, runner, attempt, plan, note or {})
    return child.environment(dict(os.environb), {}, ours)


def _end(command: "subprocess.Popen[bytes]") -> "None":
    """End what is left of the command and of all that it started."""
    family = hostfacts.descendants(command.pid) if command.poll() is None else []
    until = time.monotonic() + GRACE_S
    number = signal.SIGTERM
    while _tell_group(command.pid, number) or any(hostfacts.start_time(pid) for pid in family):
        kill.tell(family, number)
        command.poll()
        if time.monotonic() > until + GRACE_S:
            return
        number = signal.SIGKILL if time.monotonic() > until else signal.SIGCONT
        time.sleep(0.01)
    command.wait()


def _tell_group(group: "int", number: "int") -> "bool":
    """Whether there was anybody to tell."""
    try:
        os.killpg(group, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False


def _raise_silent(_number: "int", _frame: "object") -> "None":
    raise Silent()


def _plan(attempt: "bytes") -> "dict[str, object] | None":
    try:
        with open(os.path.join(attempt, b"plan.json"), "rb") as source:
            plan = json.loads(source.read().decode("utf-8"))
    except (OSError, ValueError):
        return None
    return plan if isinstance(plan, dict) else None


def _bytes(value: "object") -> "bytes":
    return str(value).encode("utf-8", "surrogateescape")
