"""The monitor of one container, in its own process: starts it, forwards stops, reads its result, removes it.

The container may outlive the engine's client, which can be killed or lose its daemon. So the result is read from the
note that the container's first process writes into the run's folder, or else from the engine's state of the container.
"""

import json
import os
import select
import stat
import subprocess
import time

from .. import wire
from ..decoding import readable
from ..machine import processes
from ..signals import signal
from ..store import layout
from . import engines

MYPY = False
if MYPY:
    from collections.abc import Callable  # noqa: F401 - in comments

RETRY_S = 0.2
DAEMON_S = 300.0  # how long an engine that went away may take to come back before the end of its container is unknown
REMOVE_S = 60.0
STARTING_S = 10.0
NOT_STARTED = ("absent", "created", "configured", "initialized")
NOTE_SIZE = 1 << 20


class Charge:
    """A container to monitor. ``line`` is sent to its first process; ``limit`` is its memory limit as text."""

    def __init__(self, program: "str", name: "str", argv: "list[str]", line: "bytes", attempt: "bytes") -> "None":
        self.program = program
        self.name = name
        self.words = argv
        self.line = line
        self.uid = os.path.basename(os.path.dirname(attempt))
        self.note = layout.script_end(layout.inside(attempt))
        self.ended = layout.ended(layout.inside(attempt))
        self.complaints = layout.engine_log(attempt)  # where the script has no hand in it
        self.limit = ""
        self.output = -1
        self.load = None  # type: Callable[[], None] | None
        self.fetch = None  # type: Callable[[], str] | None


def begin(charge: "Charge", again: "bool") -> "tuple[int, int]":
    """Start the monitor; returns its pid and the pipe on which it reports the result.

    ``again``: the one before was killed, and the container may have been started.
    """
    verdict, saying = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(saying)
        return pid, verdict
    try:
        _let_go(parent, sorted({saying, charge.output} - {-1}))
        os.setsid()
        result = _Monitor(charge).follow(again)
        wire.write_all(saying, json.dumps(result).encode("ascii"))
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(70)
    return 0, 0


def _let_go(parent: "int", needed: "list[int]") -> "None":
    """Go when the supervisor goes, and hold nothing of it: not the lock that says that it lives, not the log's pipe."""
    signal.set_wakeup_fd(-1)
    processes.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(70)
    first = 3
    for kept in [*needed, 4096]:
        os.closerange(first, kept)
        first = kept + 1


def remove(program: "str", name: "str", patience: "float" = REMOVE_S) -> "bool":
    """Take a container away, running or not; whether it is gone for sure."""
    until = time.monotonic() + patience
    while True:
        try:
            engines.ask(program, "rm", "--force", "--volumes", name)
            return True
        except engines.EngineTrouble as error:
            if error.code == engines.NOT_FOUND:
                return True
            if time.monotonic() > until:
                return False
        time.sleep(RETRY_S)


class _Monitor:
    def __init__(self, charge: "Charge") -> "None":
        self._charge = charge
        self._asked = {"stop": False, "kill": False}
        self._passed_on = False
        self._broken = False
        self._ended = os.open(charge.ended, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        self._wake, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._asked.update(stop=True))
        signal.signal(signal.SIGUSR1, lambda *_: self._asked.update(stop=True, kill=True))
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def follow(self, again: "bool") -> "dict[str, object]":
        code = None if again else self._run()
        state = self._await_end(code)
        lost = self._charge.fetch() if self._charge.fetch is not None else ""
        result = judge(read_note(self._charge.note), state, self._charge, self._broken, self._asked["stop"])
        return dict(result, not_copied=lost)

    def _run(self) -> "int":
        charge = self._charge
        argv = charge.words
        if charge.load is not None:
            created = self._client(argv, b"", subprocess.DEVNULL)
            if created:
                return created
            charge.load()
            argv = [charge.program, "start", "--attach", "--interactive", charge.name]
        return self._client(argv, charge.line, charge.output if charge.output >= 0 else subprocess.DEVNULL)

    def _client(self, argv: "list[str]", line: "bytes", output: "int") -> "int":
        """The engine's client, waited for; what it complains about is kept."""
        with open(self._charge.complaints, "ab") as complaints:
            folder = os.path.dirname(self._charge.complaints)  # where podman leaves word of an end for want of memory
            # Marked, so that one that outlives all who wait for it is ended before it can start anything.
            env = {**os.environb, b"HOLDFAST_RUN_UID": self._charge.uid}
            client = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=output, stderr=complaints, cwd=folder, env=env
            )
        try:
            client.stdin.write(line)  # type: ignore[union-attr]
            client.stdin.close()  # type: ignore[union-attr]
        except BrokenPipeError:
            pass  # it says why on its stderr
        return self._wait_for(client)

    def _wait_for(self, client: "subprocess.Popen[bytes]") -> "int":
        """Until it ends, or until the script has: the client may stay for as long as the container takes to go."""
        while True:
            code = client.poll()
            if code is not None:
                return code
            if read_note(self._charge.note) is not None:
                return 0
            self._pass_on()
            pending = (self._asked["stop"] and not self._passed_on) or self._asked["kill"]
            for ready in select.select([self._wake, self._ended], [], [], RETRY_S if pending else None)[0]:
                os.read(ready, 4096)

    def _pass_on(self) -> "None":
        """What was asked of us goes to the container; one that is not there yet will be asked again."""
        if not self._asked["stop"] or (self._passed_on and not self._asked["kill"]):
            return
        number = "KILL" if self._asked["kill"] else "TERM"
        try:
            engines.ask(self._charge.program, "kill", "--signal", number, self._charge.name, patience=10)
            self._passed_on = True
        except engines.EngineTrouble:
            return

    def _await_end(self, code: "int | None") -> "dict[str, object]":
        """What the engine says of a container that has ended; it is asked only where the note does not tell."""
        began, silent_since = time.monotonic(), 0.0
        while read_note(self._charge.note) is None:
            self._pass_on()
            try:
                state = self._inspect()
                silent_since = 0.0
            except engines.EngineTrouble as error:
                self._broken = True
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > DAEMON_S:
                    return {"Status": "unknown", "why": str(error)}
                time.sleep(RETRY_S)
                continue
            is_starting = code is None and state.get("Status") in NOT_STARTED
            if is_starting and time.monotonic() - began < STARTING_S:
                time.sleep(RETRY_S)  # the client of the one before us may still be at it
                continue
            if state.get("Status") not in ("running", "paused", "restarting", "stopping", "removing"):
                return dict(state, client=code)
            self._broken = True  # its client has ended and it has not
            if self._client([self._charge.program, "wait", self._charge.name], b"", subprocess.DEVNULL):
                time.sleep(RETRY_S)
        return {"Status": "exited", "client": code}

    def _inspect(self) -> "dict[str, object]":
        try:
            output = engines.ask(
                self._charge.program, "inspect", "--type", "container", "--format", "{{json .State}}", self._charge.name
            )
        except engines.EngineTrouble as error:
            if error.code == engines.NOT_FOUND:
                return {"Status": "absent"}
            raise
        try:
            state = json.loads(output)
        except ValueError:
            raise engines.EngineTrouble("the engine's answer cannot be read", output[:200]) from None
        return state if isinstance(state, dict) else {}


def judge(
    note: "dict[str, object] | None", state: "dict[str, object]", charge: "Charge", broken: "bool", requested: "bool"
) -> "dict[str, object]":
    """``code`` as a script's own (minus the signal), ``reason`` where others ended it, ``lost`` where it is unknown."""
    engine = os.path.basename(charge.program)
    if note is not None:
        return _by_note(note, charge, engine, broken, requested)
    status = state.get("Status")
    if status == "unknown":
        reason = "%s stopped responding and the script's outcome is unknown: %s" % (engine, state.get("why"))
        return {"code": 125, "reason": reason, "lost": True}
    if status in NOT_STARTED and state.get("client") is None and not broken:
        reason = (
            "the container monitor was killed, and the container no longer exists or never ran; the outcome is unknown"
        )
        return {"code": 125, "reason": reason, "lost": True}
    if status == "absent" and (broken or state.get("client") not in (125, 126, 127)):
        who = "stopped by %s, which was shut down" % engine if broken else "killed or removed externally"
        return {"code": -9, "reason": "" if requested else "the container was %s" % who}
    if status in NOT_STARTED:
        trouble = engines.meaning(charge.program, _text(charge.complaints))
        reason = "the container could not be started: %s" % "\n".join(
            part for part in (trouble.answer, trouble.hint) if part
        )
        return {"code": 125, "reason": reason}
    code = int(str(state.get("ExitCode") or 0))
    if state.get("OOMKilled") or os.path.exists(layout.out_of_memory(os.path.dirname(charge.complaints))):
        return {"code": -9, "reason": out_of_memory(charge.limit)}
    if broken and not requested:
        return {
            "code": code,
            "reason": "the container was stopped by %s, which was shut down (exit code %d)" % (engine, code),
        }
    if code == 137 and not requested:
        return {"code": -9, "reason": "the container was killed externally, or by the kernel when memory ran out"}
    reason = "the container's first process ended with code %d without a status of the script" % code
    return {"code": code, "reason": "" if requested else reason}


def _by_note(
    note: "dict[str, object]", charge: "Charge", engine: "str", broken: "bool", requested: "bool"
) -> "dict[str, object]":
    result = {"reason": "", "left": note["left"]}  # type: dict[str, object]
    if note["status"] is None:
        result.update(code=127, reason="the script could not be started in the container: %s" % note["trouble"])
        return result
    status = int(str(note["status"]))
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    result["code"] = code
    if code and note["out_of_memory"]:
        result["reason"] = out_of_memory(charge.limit)
        if code != -9:
            result["reason"] = "%s; the script then exited with code %d" % (result["reason"], code)
    elif code and note["told"] and not requested:
        down = broken or not _answers(charge.program)
        or_by = ", or by docker when it was restarted" if engine == "docker" else ""  # podman has no daemon
        who = "%s, which was shut down" % engine if down else "another program" + or_by
        result["reason"] = "the container was stopped by %s" % who
    return result


def out_of_memory(limit: "str") -> "str":
    return "out of memory (limit %s)" % limit if limit else "out of memory: the machine has no free memory"


def _answers(program: "str") -> "bool":
    try:
        engines.ask(program, "version", patience=10)
        return True
    except engines.EngineTrouble:
        return False


def read_note(path: "bytes") -> "dict[str, object] | None":
    """How the script ended (``status`` or ``trouble``), ``left``, ``told``, ``out_of_memory``; None if unknown.

    It comes from within the container, where the script may have put anything in its place.
    """
    try:
        document = json.loads(readable(plain_content(path)))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    status, trouble, left = document.get("status"), document.get("trouble"), document.get("left")
    if not _is_end(status) and not isinstance(trouble, str):
        return None
    return {
        "status": status if _is_end(status) else None,
        "trouble": str(trouble or ""),
        "left": [str(command)[:200] for command in left[:1000]] if isinstance(left, list) else [],
        "told": bool(document.get("told")),
        "out_of_memory": bool(document.get("out_of_memory")),
    }


def plain_content(path: "bytes") -> "bytes":
    """Of a file, but not by way of a link that leads elsewhere, nor of a FIFO."""
    note = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(note, NOTE_SIZE) if stat.S_ISREG(os.fstat(note).st_mode) else b""
    finally:
        os.close(note)


def _is_end(status: "object") -> "bool":
    """What waitpid may have said of a process that has ended."""
    if type(status) is not int or not 0 <= status <= 0xFFFF:
        return False
    return os.WIFEXITED(status) or os.WIFSIGNALED(status)


def _text(path: "bytes") -> "str":
    try:
        with open(path, "rb") as source:
            return readable(source.read()[-8000:])
    except OSError:
        return ""
