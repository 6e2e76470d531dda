"""The supervisor: prepares the working folder, runs the script, records its output and how it ended."""

import os
import select
import sys
import time

from .. import wire
from ..machine import processes
from ..machine.package_record import PackageRecord
from ..signals import signal
from ..store import layout, run_files
from ..store.remove_tree import remove_tree
from . import notify, outcome, outputs, process_tree, script_process, workdir
from .host_process import Direct
from .run_secrets import Secrets
from .script_log import ScriptLog

MYPY = False
if MYPY:
    from ..data.run_data import RunData
    from ..gpu.no_gpus import NoHold
    from ..gpu.run_gpus import Hold
    from ..plan import Plan
    from .container_process import Contained
    from .printed_metrics import PrintedMetrics

LEFTOVER_GRACE = 5.0
LOOK_S = 1.0  # how often the guardian and the container monitor are checked


class Supervisor:
    """One attempt of one run, from its first event to its last."""

    def __init__(
        self,
        home: "bytes",
        runner: "str",
        attempt: "bytes",
        plan: "Plan",
        secrets: "Secrets",
        umask: "int",
        says_ready: "int",
    ) -> "None":
        self.home = home
        self.runner = runner
        self.attempt = attempt
        self.plan = plan
        self._secrets = secrets
        self.umask = umask
        self._says_ready = says_ready
        self.gpu = _hold(attempt, plan)
        self._script = 0
        self._status = None  # type: int | None
        self._stopping = ""
        self._kill_at = 0.0
        self._told_at = self._look_at = 0.0
        self._environment = {}  # type: dict[str, object]
        self._built = {}  # type: dict[str, object]
        self._complete_ns = 0
        self._results = outputs.Collected()
        self._data: "RunData | None" = None
        self.packages = PackageRecord(home, runner, attempt)
        self._way = self._choose_way()

    def _choose_way(self) -> "Direct | Contained":
        if self.plan.container is None:
            return Direct(self)
        from .container_process import Contained  # drives another program, which takes its time to load

        return Contained(self, self.plan.container)

    def release(self) -> "None":
        """In the guardian: let go of what only the supervisor needs."""
        os.close(self._says_ready)
        self.gpu.keep()
        self._secrets = Secrets({}, "", {})

    def run(self, guardian: "int") -> "None":
        self._log = ScriptLog(self.attempt, self.plan.max_log, self._printed_metrics())
        self.events = run_files.Events(self.attempt)
        self._folder = os.open(self.attempt, os.O_RDONLY)  # the store may be moved while the script runs
        processes.adopt_orphans()
        wakeup = _wakeup_pipe()  # before our pid is published: a stop that comes at once must find the handler
        self._accept()
        try:
            if self.plan.data:
                from ..data.run_data import RunData

                self._data = RunData(self.home, self.plan.data)
            self._complete_ns, resumed, left = workdir.prepare(self.home, self.attempt, self.plan)
            if left:
                self.events.add("checkpoints_left", why=left)
            if resumed:
                self.events.add("resumed", attempt=resumed)
            self._environment = self._make_environment()
            if not self.gpu.take(self.events, lambda wait, more: self._rest(wait, [guardian, wakeup, *more])):
                why = self._who_stopped() if _told["stop"] else outcome.GUARDIAN_DIED
                self._close(*outcome.judge(-signal.SIGTERM, why, ""))
                return
            if _told["stop"]:
                self._close(*outcome.judge(-signal.SIGTERM, self._who_stopped(), ""))
                return
            self._script, output = self._start()
        except (workdir.CannotPrepare, script_process.CannotStart) as error:
            self._close("failed", error.code, self._with_damage(error.code, str(error)))
            return
        self._watch(output, guardian, wakeup, time.monotonic())
        self._finish(output)

    def _printed_metrics(self) -> "PrintedMetrics | None":
        if not self.plan.scalars:
            return None
        from .printed_metrics import PrintedMetrics

        return PrintedMetrics(layout.metrics(self.attempt), layout.site(layout.runner(self.home, self.runner.encode())))

    def _accept(self) -> "None":
        pid = os.getpid()
        self.events.add(
            "accepted",
            host=processes.host_name(),
            pid=pid,
            start_time=processes.start_time(pid),
            pgid=os.getpgid(0),
            guardian=os.getppid(),
            guardian_start=processes.start_time(os.getppid()),
            runner=self.runner,
            python="%d.%d.%d" % sys.version_info[:3],
        )
        self.events.sync()
        os.write(self._says_ready, b"!")
        os.close(self._says_ready)

    def _make_environment(self) -> "dict[str, object]":
        """The environment of the plan, built now if it does not exist; returns its description."""
        wanted = self._secrets.environment
        if not wanted:
            return {}
        from ..machine import environment

        log, began = layout.environment_log(self.attempt), time.monotonic()
        if wanted.get("own_package"):
            wanted = dict(wanted, own_package=os.fsdecode(layout.work(self.attempt)))
        try:
            made = environment.ensure(self.home, self.runner, wanted, log, self._tell, lambda: bool(_told["stop"]))
            self._built = {"environment_ns": int((time.monotonic() - began) * 1e9)}
            return made
        except environment.Stopped:
            return {}
        except environment.CannotBuild as error:
            raise workdir.CannotPrepare(str(error)) from error

    def _tell(self, progress: "dict[str, object]") -> "None":
        """Progress of the environment, twice a second at most: it is for people."""
        now = time.monotonic()
        if now - self._told_at > 0.5 or progress.get("phase") in ("wait", "tools"):
            self._told_at = now
            self.events.add("preparing", **{name: progress.get(name) for name in ("phase", "name", "done", "total")})

    def _start(self) -> "tuple[int, int]":
        variables = self._secrets.env
        self._secrets = Secrets({}, self._secrets.on_end, {})
        pid, output, details = self._way.start(variables, self._environment)
        if details:
            self.events.add("container", **details)
        self.gpu.begin()
        program = processes.program_of(pid)
        self.events.add("started", pid=pid, start_time=processes.start_time(pid), program=program, **self._built)
        self._note("%s runs %s (%s)" % (program or "?", ascii(self.plan.script), self._why_this_python()))
        self.packages.begin(self.events, pid)
        return pid, output

    def _why_this_python(self) -> "str":
        chosen = self.plan.environment
        if chosen is None:
            interpreter = self.plan.interpreter
            return (
                interpreter.why
                if interpreter is not None and interpreter.why
                else "the interpreter of the target, unchanged"
            )
        return "environment %s from %s: %s" % (chosen.key, ascii(chosen.source), chosen.why)

    def _rest(self, wait: "float", sources: "list[int]") -> "bool":
        """Wait for a message, or for this long; False if nothing may be started any more."""
        guardian, wakeup = sources[:2]
        ready = select.select(sources, [], [], wait)[0]
        if wakeup in ready:
            os.read(wakeup, 4096)
        return guardian not in ready and not _told["stop"]

    def _watch(self, output: "int", guardian: "int", wakeup: "int", started: "float") -> "None":
        """Copy output until the script is gone, minding the clock, stop requests and the guardian."""
        sources = [output, guardian, wakeup]
        deadline = started + self.plan.timeout if self.plan.timeout else None
        while self._status is None:
            others = [*self.gpu.sources, *self.packages.sources]
            ready, _, _ = select.select([*sources, *others], [], [], self._next_wait(deadline))
            if output in ready and not self._log.copy(output):
                sources.remove(output)
            if wakeup in ready:
                os.read(wakeup, 4096)
                self._mind_signals()
            if guardian in ready and self._status is None:
                sources.remove(guardian)
                self._guardian_died()
            if set(self.gpu.sources) & set(ready):
                self.gpu.hear(self.events)
            self.packages.mind(self.events, ready)
            self._mind_clock(deadline)
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + LOOK_S
                self._continue_helpers()
                self.packages.look(self.events)

    def _next_wait(self, deadline: "float | None") -> "float":
        times = [when for when in (deadline if not self._stopping else None, self._kill_at or None) if when]
        times += [*self.gpu.times(), *self.packages.times()]
        return max(0.0, min([self._look_at, *times]) - time.monotonic())

    def _continue_helpers(self) -> "None":
        """Continue the guardian and the container monitor if a signal has stopped them."""
        helpers = [os.getppid(), *([] if isinstance(self._way, Direct) else [self._script])]
        process_tree.tell([pid for pid in helpers if pid > 1 and processes.is_stopped(pid)], signal.SIGCONT)

    def _mind_signals(self) -> "None":
        self._status = process_tree.reap()[0].get(self._script)
        if self._status is not None:
            other = self._way.goes_on()
            self._script, self._status = (other, None) if other else (self._script, self._status)
        if _told["stop"] and not self._stopping:
            self._stop(self._who_stopped())

    def _who_stopped(self) -> "str":
        try:
            is_asked = os.stat(layout.control.name, dir_fd=self._folder).st_size > 0
        except OSError:
            is_asked = False
        return outcome.CANCELED if is_asked else "the runner was stopped by signal %d" % _told["stop"]

    def _mind_clock(self, deadline: "float | None") -> "None":
        now = time.monotonic()
        if deadline and now >= deadline and not self._stopping:
            self._stop(outcome.TIMEOUT)
        idle = self.gpu.mind(self.events, now)
        if idle and not self._stopping:
            self._stop(idle)
        if self._kill_at and now >= self._kill_at:
            self._kill_at = 0.0
            self.events.add("killed", why="still running %s s after SIGTERM" % self.plan.grace)
            ended = self._way.end()
            self._status = ended.get(self._script, self._status)

    def _stop(self, why: "str") -> "None":
        self._stopping = why
        self.events.add("stopping", why=why)
        self._way.tell(self._script, signal.SIGTERM)
        self._kill_at = time.monotonic() + self.plan.grace

    def _guardian_died(self) -> "None":
        self._stopping = outcome.GUARDIAN_DIED
        self.events.add("stopping", why=self._stopping)
        ended = self._way.end()
        self._status = ended.get(self._script, self._status)

    def _finish(self, output: "int") -> "None":
        verdict = self._way.verdict(self._status or 0)
        self.packages.finish(self.events)
        code = int(str(verdict["code"]))
        self.events.add("exited", code=code, usage=_usage())
        left = verdict.get("left")
        if isinstance(left, list) and left:
            self.events.add("leftovers", commands=left[:20], count=len(left))
        if isinstance(self._way, Direct):
            self._end_leftovers(output)
        self._log.drain(output)
        changed = self._data.changed() if self._data is not None else []
        if changed:
            self.events.add("data_changed", names=changed)
        receipt = self.gpu.finish(self.events)
        reported = self._finish_spark(code) or str(verdict["reason"])
        if code and not reported and not self._stopping:
            reported = self._with_damage(code, outcome.judge(code, "", "")[2])
        self._results = results = outputs.collect(self.attempt, self.plan, self._complete_ns)
        results.trouble = "\n".join(part for part in (str(verdict.get("not_copied") or ""), results.trouble) if part)
        trouble = "; " + results.trouble if results.trouble else ""
        self._note("outputs: %d files, %d bytes%s" % (results.files, results.size, trouble))
        if results.kept:
            self.events.add("kept", **results.kept)
        stopping = self._stopping or self.gpu.verdict(receipt, code)
        self._close(*outcome.judge(code, stopping, self.plan.timeout_text, reported, bool(verdict.get("lost"))))
        self._way.tidy()

    def _finish_spark(self, code: "int") -> "str":
        if self.plan.spark is None:
            return ""
        from ..machine import spark_record

        return spark_record.finish(self.attempt, self.events, code)

    def _with_damage(self, code: "int", reason: "str") -> "str":
        """The reason of a failure; where files of the environment were damaged, that is said too."""
        if self.plan.environment is None:
            return reason
        from ..machine import environment_damage

        damage = environment_damage.explain(self.home, self.plan.environment.key, code, layout.log(self.attempt))
        return "%s; %s" % (reason, damage) if damage else reason

    def _end_leftovers(self, output: "int") -> "None":
        """A run ends when its script ends: what it left running is asked to go, then made to."""
        own = self.plan.uid
        if not process_tree.reap_family(own)[1]:
            return
        left = process_tree.family(os.getpid(), own)
        self.events.add("leftovers", commands=[processes.command_of(pid) for pid in left[:20]], count=len(left))
        process_tree.tell(left, signal.SIGTERM)
        until = time.monotonic() + min(LEFTOVER_GRACE, self.plan.grace)
        sources = [output]
        while time.monotonic() < until and process_tree.reap_family(own)[1]:
            if select.select(sources, [], [], 0.01)[0] and not self._log.copy(output):
                sources = []
        process_tree.end_family(own)

    def _close(self, outcome: "str", exit_code: "int", reason: "str") -> "None":
        log = self._log.seal()
        if self._log.trouble:
            self.events.add("log_stopped", at=self._log.size, why=self._log.trouble)
        hashes, troubles = run_files.hashes(self.attempt, **dict(self.packages.known, log=log))
        for trouble in troubles:
            self._note(trouble)
        results = self._results
        self.events.close(outcome, exit_code, reason, **hashes, **results.details())
        if self._secrets.on_end:
            message = "\n".join(part for part in (reason, results.trouble) if part)
            answer = notify.notify(self._secrets.on_end, self.plan, outcome, exit_code, message)
            self._note("notification " + answer)
        if outcome == "completed" and not (self.plan.keep_work or results.trouble or results.over_limit):
            remove_tree(layout.workspace(self.attempt))
            remove_tree(layout.old_work(self.attempt))

    def _note(self, text: "str") -> "None":
        try:
            wire.write_all(2, ("%s %s\n" % (time.strftime("%Y-%m-%dT%H:%M:%S%z"), text)).encode("utf-8", "replace"))
        except OSError:
            return  # a full disk; the events have what matters


def _hold(attempt: "bytes", plan: "Plan") -> "Hold | NoHold":
    from ..gpu import no_gpus

    if not no_gpus.concerns(plan):
        return no_gpus.NoHold()
    from ..gpu.run_gpus import Hold

    return Hold(attempt, plan)


_told = {"stop": 0}


def _wakeup_pipe() -> "int":
    """Signals become bytes on a pipe, so that one select sees everything there is to see."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, _note_nothing)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _note_stop)
    return reader


def _note_nothing(_number: "int", _frame: "object") -> "None":
    """A handler must be there for the wake-up byte to be written."""


def _note_stop(number: "int", _frame: "object") -> "None":
    _told["stop"] = number


def _usage() -> "dict[str, float]":
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"user_s": used.ru_utime, "system_s": used.ru_stime, "max_rss_kb": used.ru_maxrss}
