"""The guardian: parent process of a run's supervisor; it ends the run if the supervisor cannot.

A supervisor that dies is noticed at once. One that is stopped (SIGSTOP, a debugger) is continued; where that does not
help and the run should have ended by now, because of its timeout or a cancel, the guardian ends it in its place.
"""

import os
import select
import time

from ..machine import processes
from ..signals import signal
from ..store import jsonl, layout, run_files
from . import outcome, outputs, process_tree

MYPY = False
if MYPY:
    from ..plan import Plan

LOOK_S = 1.0
BEAT_S = 10.0  # how often the guardian shows other nodes that it lives
CONTINUE_S = 0.02  # a script that stops its supervisor in a loop is answered no faster than this
ASK_S = 1.0  # from the moment a run should end until the guardian itself asks the script to
HELD_S = 3.0  # a supervisor that was found stopped so recently is being held up
MARGIN_S = 3.0  # what a supervisor that is held up may take beyond the grace period
PATIENCE_S = 120.0  # the same for one that is not: an engine may be slow to remove a container
KILLED_S = 10.0
STOPPED = "the runner's supervisor was stopped, and its guardian ended the run"


class Guardian:
    def __init__(self, attempt: "bytes", supervisor: "int", plan: "Plan") -> "None":
        self._attempt = attempt
        self._supervisor = supervisor
        self._plan = plan
        self._uid = plan.uid
        self._began = time.monotonic()
        self._status = None  # type: int | None
        self._held_at = self._canceled_at = self._beat_at = 0.0
        self._has_asked = False

    def outlive(self) -> "None":
        """Until the supervisor has ended or had to be ended; then nothing of the run is left, and it is closed."""
        wake = _wakeup_pipe()
        while self._collect() is None:
            why = self._mind(time.monotonic())
            if why:
                self._take_over(why)
                return
            if select.select([wake], [], [], LOOK_S)[0]:
                os.read(wake, 4096)
        process_tree.end_family(self._uid)
        if self._status:
            self._remove_container(is_lost=True)
            reason = "the runner's supervisor ended %s; the script was ended with it and its own outcome is unknown"
            run_files.close_as_lost(self._attempt, reason % _how(self._status))

    def _collect(self) -> "int | None":
        """The supervisor's wait status, once it has ended. One that was stopped is continued."""
        while self._status is None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return 0
            if pid == 0:
                return None
            if pid == self._supervisor and os.WIFSTOPPED(status):
                self._continue()
                return None  # it may be stopped again at once, for ever; time limits are minded in between
            if pid == self._supervisor:
                self._status = status
        return self._status

    def _continue(self) -> "None":
        self._held_at = time.monotonic()
        process_tree.tell([self._supervisor], signal.SIGCONT)
        time.sleep(CONTINUE_S)

    def _mind(self, now: "float") -> "str":
        """Why the guardian must end the run itself now; empty as long as it need not."""
        if now - self._beat_at > BEAT_S:
            self._beat_at = now
            run_files.beat(self._attempt)
        if processes.is_stopped(self._supervisor):
            self._continue()  # a debugger's stop is not reported to the parent
        if not self._canceled_at and self._is_accepted() and os.path.exists(layout.control(self._attempt)):
            self._canceled_at = now
            process_tree.tell([self._supervisor], signal.SIGTERM)  # the request may come from another node
        timeout = self._plan.timeout
        is_late = bool(timeout and now - self._began > timeout)
        is_held = now - self._held_at < HELD_S
        if not (is_late or self._canceled_at or is_held):
            return ""
        return self._overdue(now, is_held)

    def _is_accepted(self) -> "bool":
        """Whether the supervisor has written its first event: before that it does not listen to signals yet."""
        try:
            return os.stat(layout.events(self._attempt)).st_size > 0
        except FileNotFoundError:
            return False

    def _overdue(self, now: "float", is_held: "bool") -> "str":
        """What the events say that should have happened by now, and has not."""
        events = jsonl.read_lines(layout.events(self._attempt))
        allowed = self._plan.grace + (MARGIN_S if is_held else PATIENCE_S)
        exited = _moment(events, "exited")
        if exited:
            return "finishing" if is_held and now > exited + allowed else ""
        stopping, why = _moment(events, "stopping"), self._why(events)
        began = stopping or self._due(events)
        if not began or not why:
            return ""
        if is_held and not stopping and not self._has_asked and now > began + ASK_S:
            self._has_asked = True
            family = process_tree.family(os.getpid(), self._uid)
            process_tree.tell([pid for pid in family if pid != self._supervisor], signal.SIGTERM)
        return why if now > began + allowed else ""

    def _due(self, events: "list[dict[str, object]]") -> "float":
        """The moment at which the run should have been asked to end; 0 where there is none."""
        started, timeout = _moment(events, "started"), self._plan.timeout
        moments = [self._canceled_at, started + timeout if started and timeout else 0.0]
        return min([moment for moment in moments if moment] or [0.0])

    def _why(self, events: "list[dict[str, object]]") -> "str":
        reasons = [str(event.get("why")) for event in events if event.get("type") == "stopping"]
        if reasons:
            return reasons[0]
        is_canceled = self._canceled_at and self._due(events) == self._canceled_at
        return outcome.CANCELED if is_canceled else outcome.TIMEOUT

    def _take_over(self, why: "str") -> "None":
        process_tree.tell([self._supervisor], signal.SIGKILL)
        until = time.monotonic() + KILLED_S
        while self._collect() is None and time.monotonic() < until:
            time.sleep(0.01)
        process_tree.end_family(self._uid)
        self._remove_container()
        close_in_place(self._attempt, self._plan, why, STOPPED)

    def _remove_container(self, is_lost: "bool" = False) -> "None":
        if self._plan.container:
            from . import container_process

            if is_lost:
                container_process.save_checkpoints(self._plan, self._attempt)
            container_process.destroy(self._plan)


def reason_to_end(attempt: "bytes", timeout: "float | None") -> "str":
    """Why a run that goes on should have ended: its cancel or its timeout; empty where there is neither."""
    events = jsonl.read_lines(layout.events(attempt))
    reasons = [str(event.get("why")) for event in events if event.get("type") == "stopping"]
    if reasons or os.path.exists(layout.control(attempt)):
        return reasons[0] if reasons else outcome.CANCELED
    started = _moment(events, "started")
    return outcome.TIMEOUT if started and timeout and time.monotonic() > started + timeout else ""


def close_in_place(attempt: "bytes", plan: "Plan | None", why: "str", who: "str", **more: "object") -> "None":
    """Close a run in place of its supervisor, after all its processes have ended.

    ``why`` it was to end; empty where it should not have, and its outcome is unknown. ``more``: more of its last event.
    """
    if run_files.closed(attempt) is not None:
        return
    events = run_files.Events(attempt)
    kinds = [event.get("type") for event in jsonl.read_lines(events.path)]
    if why and "exited" not in kinds:
        if "stopping" not in kinds:
            events.add("stopping", why=why)
        if "started" in kinds:
            events.add("exited", code=-signal.SIGKILL)
    if "started" in kinds and not os.path.lexists(layout.manifest(attempt)):
        results = outputs.collect(attempt, plan)
        if results.kept:
            events.add("kept", **results.kept)
        more.update(results.details())
    if not why or "exited" in kinds:
        end = "lost", 125, "the script's own outcome is unknown"
    else:
        end = outcome.judge(-signal.SIGKILL, why, plan.timeout_text if plan is not None else "")
    run_files.close(attempt, end[0], end[1], "%s; %s" % (end[2], who), **more)


def _moment(events: "list[dict[str, object]]", kind: "str") -> "float":
    """When the first such event was written, by the clock that this machine counts since its boot; 0 without one."""
    return next((float(str(event["mono_ns"])) / 1e9 for event in events if event.get("type") == kind), 0.0)


def _how(status: "int") -> "str":
    return "by signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else "with code %d" % os.WEXITSTATUS(status)


def _wakeup_pipe() -> "int":
    """Readable when a child ended or was stopped."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader
