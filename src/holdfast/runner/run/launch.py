"""Starts the two detached processes of a run: the guardian and, as its child, the supervisor.

The supervisor holds the reading end of a pipe whose writing end only the guardian has. If one of them dies, the other
notices, ends the script's process tree and writes the outcome; if one is stopped, the other continues it. Both inherit
the locked ``alive`` file: a held lock means that at least one of them lives.
"""

import os

from .. import wire
from ..machine import limits, processes
from ..signals import signal
from ..store import jsonl, layout, run_files
from ..store.files import SYNCED, fsync_path, temporary_beside, write_synced, write_whole
from ..store.remove_tree import remove_tree
from . import control, idle, process_tree
from .guardian import Guardian
from .supervisor import Supervisor

MYPY = False
if MYPY:
    from collections.abc import Callable

    from ..plan import Plan
    from .run_secrets import Secrets

CANNOT_START = 125


def attempt_path(home: "bytes", uid: "str", attempt: "str") -> "bytes":
    if not (len(uid) == 32 and all(c in "0123456789abcdef" for c in uid)):
        raise ValueError("not a run uid: %r" % uid)
    if not (attempt[:1] == "a" and attempt[1:].isdigit()):
        raise ValueError("not an attempt: %r" % attempt)
    return os.path.join(layout.run(home, uid.encode("ascii")), attempt.encode("ascii"))


def introduce(home: "bytes", request: "dict[str, object]") -> "None":
    """A run whose client keeps another store: what it is, so that any client of this store can know."""
    folder = os.path.dirname(attempt_path(home, str(request["uid"]), "a1"))
    path = layout.request(folder)
    if os.path.exists(path):
        return
    os.makedirs(folder, 0o700, exist_ok=True)
    write_whole(path, jsonl.sealed(request), sync=SYNCED)


def launch(home: "bytes", runner: "str", plan: "Plan", secrets: "Secrets", umask: "int") -> "bool":
    """Start an attempt; False if it was started before. Returns once the first event is on disk."""
    attempt = attempt_path(home, plan.uid, plan.attempt)
    beside = temporary_beside(attempt)
    os.makedirs(beside, 0o700)
    lock = run_files.hold(beside)
    try:
        write_synced(layout.plan(beside), wire.dumps(plan.source))
        run_files.make_reserve(beside)
        os.mkdir(layout.metrics(beside), 0o700)
        os.rename(beside, attempt)  # the claim: it fails where the attempt is there already
    except OSError:
        os.close(lock)
        remove_tree(beside)
        if not os.path.isdir(attempt):
            raise
        return False
    begin(home, runner, attempt, plan, secrets, umask, lock)
    return True


def begin(
    home: "bytes",
    runner: "str",
    attempt: "bytes",
    plan: "Plan",
    secrets: "Secrets",
    umask: "int",
    lock: "int",
) -> "None":
    """Start the watchers of an attempt that is ours. Returns once its first event is on disk; ``lock`` is theirs."""
    try:
        fsync_path(os.path.dirname(attempt))
        accepted = _start_guardian(attempt, lambda sink: Supervisor(home, runner, attempt, plan, secrets, umask, sink))
    except OSError as error:
        run_files.close(attempt, "failed", CANNOT_START, "the runner could not be started: %s" % limits.told(error))
        accepted = True
    finally:
        os.close(lock)
    if not accepted:
        control.discard(attempt, "failed", "the runner ended before it accepted the run; runner.log may say why")


def _start_guardian(attempt: "bytes", made: "Callable[[int], Supervisor]") -> "bool":
    """Whether the supervisor has written its first event."""
    ready, says_ready = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(ready)
        os.close(says_ready)
        raise
    if pid == 0:
        _guard(attempt, lambda: made(says_ready), ready)
    os.close(says_ready)
    try:
        return bool(os.read(ready, 1))
    finally:
        os.close(ready)


def _guard(attempt: "bytes", made: "Callable[[], Supervisor]", ready: "int") -> "None":
    """The guardian's main function; never returns, because its caller is the connection of a client."""
    try:
        os.close(ready)
        _leave_session(attempt)
        supervisor = made()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the session ignores it, so as to leave no zombies
        processes.adopt_orphans()
        watched, held = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            run_files.close(attempt, "failed", CANNOT_START, "the runner could not be started: %s" % limits.told(error))
            return
        if pid == 0:
            os.close(held)
            _supervise(supervisor, watched)
        os.close(watched)
        supervisor.release()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the supervisor is the one to talk to
        Guardian(attempt, pid, supervisor.plan).outlive()
        if supervisor.plan.idle is not None:
            idle.become(supervisor.home, supervisor.runner, supervisor.plan.uid, supervisor.plan.idle)
    finally:
        os._exit(0)


def _supervise(supervisor: "Supervisor", guardian: "int") -> "None":
    code = 70
    try:
        supervisor.run(guardian)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        process_tree.tell([os.getppid()], signal.SIGCONT)  # a guardian that was stopped still has to collect us
        os._exit(code)


def _leave_session(attempt: "bytes") -> "None":
    """Cut every tie to the connection that asked: session, terminal, streams, folder."""
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(layout.runner_log(attempt), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for fd, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(fd, target)
    os.close(nothing)
    os.close(log)
