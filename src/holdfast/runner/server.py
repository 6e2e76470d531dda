"""Serves one client connection: hello, then one request at a time until the client disconnects.

Nothing outlives the connection except the processes that ``launch`` started.
"""

import errno
import os
import sys

from . import wire
from .decoding import as_bytes, lossless, readable
from .machine import limits, processes, store_health
from .plan import Plan, PlanError
from .run import control, launch, run_secrets, waiting
from .signals import signal
from .store import layout, mirror, object_removal, objects, uploads
from .store.store_identity import store_identity

MYPY = False
if MYPY:
    from .gpu import nvml_process
    from .history import history_verb

BEAT_S = 5.0  # a client that gets nothing for much longer than this gives up


def main(home: "bytes", runner: "str", umask: "int") -> "None":
    session = Session(home, runner, umask)
    try:
        session.converse()
    except wire.Closed:
        session.keep_arrivals()
        os._exit(0)  # nothing is left to clean up, and a caller may be waiting for this process


class Session:
    _data_arrivals: "uploads.Arrivals | None" = None
    _gpu_reader: "nvml_process.Reader | None" = None
    _shared: "history_verb.SharedFolder | None" = None

    def __init__(self, home: "bytes", runner: "str", umask: "int") -> "None":
        self.home, self.runner, self.umask = home, runner, umask
        self.objects = layout.objects(home)
        self.reader = wire.FrameReader(0)
        self._arrivals = uploads.Arrivals(home)
        self._verbs = {
            "probe": self._probe,
            "facts": self._facts,
            "image": self._image,
            "survey": self._survey,
            "gpus": self._gpus,
            "touch": self._touch,
            "register": self._register,
            "authorize": self._authorize,
            "purge": self._purge,
            "images": self._images,
            "save": self._images,
            "load": self._images,
            "clean": self._clean,
            "data": self._data,
            "history": self._history,
            "prepare": self._prepare,
            "solve": self._solve,
            "lacks": self._lacks,
            "put": self._put,
            "start": self._start,
            "queue": self._queue,
            "command": self._command,
            "pull": self._pull,
            "fetch": self._fetch,
            "look": self._look,
            "stop": self._stop,
            "bury": self._bury,
            "discard": self._discard,
            "list": self._list,
            "exec": self._exec,
            "input": self._input,
        }

    def converse(self) -> "None":
        try:
            wire.send(1, {"hello": self._hello()})
        except OSError as error:  # the disk is too full even for a directory entry
            wire.send(1, {"refused": errno.errorcode.get(error.errno or 0, "?")})
            raise wire.Closed(str(error)) from error
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guardians that end while this session lasts
        processes.warm_up()
        while True:
            header, payload = self.reader.frame()
            reply = mirror.Reply(1, self.reader, header.get("id"))
            verb = self._verbs.get(str(header.get("verb")))
            if verb is None:
                message = "this runner does not support the verb %r" % (header.get("verb"),)
                reply.end(error=message, error_code="unknown-verb")
                continue
            signal.signal(signal.SIGALRM, reply.beat)
            signal.siginterrupt(signal.SIGALRM, False)
            signal.setitimer(signal.ITIMER_REAL, BEAT_S, BEAT_S)
            try:
                verb(header, payload, reply)
            except (ImportError, OSError, ValueError, KeyError, TypeError, AttributeError, objects.Damaged) as error:
                number = errno.errorcode.get(getattr(error, "errno", None) or 0)
                message = "%s: %s" % (type(error).__name__, limits.told(error))
                reply.end(error=message, errno=number, error_code=_code(error))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _hello(self) -> "dict[str, object]":
        return {
            "protocol": wire.PROTOCOL,
            "runner": self.runner,
            "store": store_identity(self.home),
            "boot_id": processes.boot_id(),
            "host": processes.host_name(),
            "python": "%d.%d.%d" % sys.version_info[:3],
            "platform": sys.platform,
            "home": lossless(self.home),
            "fit": store_health.fit(self.home),
        }

    def _probe(self, _header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        room = os.statvfs(self.home)
        free = room.f_bavail * room.f_frsize
        facts = {"cpus": os.cpu_count() or 1, "disk_free": free, "inodes_free": room.f_favail}
        reply.end(facts=dict(facts, gpus=store_health.gpus(self.home)))

    def _facts(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .machine import facts

        reply.end(facts=facts.facts(self.home, str(header["python"])))

    def _image(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        """Engine and image of a container, pulled if needed; sends progress."""
        from .container import engines, images
        from .machine import facts

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            engine, image = images.provide(self.home, header, self._arrivals.commit, reply)
        except engines.EngineTrouble as error:
            reply.end(failed=error.to_json())
            return
        reply.end(engine=engine, image=image, facts=facts.within(self.home, image))

    def _survey(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .machine import survey

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        reply.end(facts=survey.survey(self.home, float(str(header["within"]))))

    def _gpus(self, _header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .gpu import gpu_queue, nvml_process

        self._gpu_reader = self._gpu_reader or nvml_process.Reader(answer_s=nvml_process.ANSWER_S)
        reply.end(facts=self._gpu_reader.read(), queue=gpu_queue.listing())

    def _touch(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .gpu import target_probe

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        container, bare = header.get("container"), bool(header.get("bare"))
        if isinstance(container, dict):
            reply.end(found=target_probe.in_container(self.home, container, bare))
        else:
            reply.end(found=target_probe.directly(self.home, str(header["python"]), bare))

    def _register(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .machine import client_account

        reply.end(clients=client_account.register(self.home, str(header["client"]), str(header["label"])))

    def _authorize(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .machine import client_account

        if header["line"]:
            client_account.authorize(self.home, str(header["client"]), str(header["line"]))
        else:
            client_account.withdraw(self.home, str(header["client"]))
        reply.end()

    def _purge(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .machine import client_account

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        reply.end(gone=client_account.purge(self.home, str(header["client"])))

    def _images(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        """The images of the engine here: listed, handed out, taken in."""
        from .container import images

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        images.answer(self.home, header, self.reader, reply)

    def _clean(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .cleanup import clean

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        reply.end(rows=clean.clean(self.home, header))

    def _prepare(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        """Build an environment now; sends progress."""
        from .machine import environment

        wanted = dict(header["environment"])  # type: ignore[call-overload]
        log = os.path.join(layout.cache(self.home), b"prepare-%d.log" % os.getpid())
        os.makedirs(os.path.dirname(log), 0o700, exist_ok=True)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            note = environment.ensure(
                self.home, self.runner, wanted, log, lambda event: reply.send(b"", progress=event), lambda: False
            )
            reply.end(ledger=note.get("ledger"))
        except environment.CannotBuild as error:
            reply.end(failed=str(error))

    def _solve(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        """Solve an environment whose packages must be built for that; sends progress."""
        from .machine import environment, environment_solve

        log = layout.solve_log(self.home)
        os.makedirs(os.path.dirname(log), 0o700, exist_ok=True)
        self._arrivals.commit()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            answer = environment_solve.solve(
                self.home, self.runner, header, log, lambda event: reply.send(b"", progress=event)
            )
            reply.end(answer=answer, log=lossless(log))
        except environment.CannotBuild as error:
            reply.end(failed=str(error))

    def _data(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .data import data_verb

        reply.end(**data_verb.answer(self.home, header, self._arrivals_for(header)))

    def _history(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .history import history_verb

        self._shared = self._shared or history_verb.SharedFolder(self.home)
        self._shared.answer(header, reply)

    def _lacks(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        arrivals = self._arrivals_for(header)
        refused = arrivals.take_refusal()
        absent, begun = arrivals.lacks([str(digest) for digest in header["digests"]])  # type: ignore[attr-defined]
        reply.end(missing=absent, partial=begun, refused=refused, free=arrivals.free_bytes())

    def _put(self, header: "dict[str, object]", payload: "bytes", _reply: "mirror.Reply") -> "None":
        """Not answered: the client learns at the start whether everything is there."""
        self._arrivals_for(header).add(payload, header)

    def _arrivals_for(self, header: "dict[str, object]") -> "uploads.Arrivals":
        """Data sets (``data``: their shared folder) and runs of a team are kept apart from project files."""
        if header.get("history") and self._shared is not None:
            return self._shared.arrivals
        shared = header.get("data")
        if shared is None:
            return self._arrivals
        if self._data_arrivals is None:
            from .data import data_sets

            self._data_arrivals = uploads.Arrivals(self.home, data_sets.place(self.home, str(shared))[1])
        return self._data_arrivals

    def keep_arrivals(self) -> "None":
        """The client is gone, perhaps cut off: what came whole need not come again."""
        for arrivals in (self._arrivals, self._data_arrivals, self._shared.begun if self._shared else None):
            try:
                if arrivals is not None:
                    arrivals.commit()
            except OSError:
                pass

    def _start(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        plan, secrets = _startable(header)
        if self._is_complete(plan, secrets, reply):
            started = launch.launch(self.home, self.runner, plan, run_secrets.told(secrets), self.umask)
            reply.end(state="started" if started else "already")

    def _queue(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        """Start by a job that a command of the target takes, reads on its standard input, and runs later."""
        from .run import queued

        plan, secrets = _startable(header)
        argv = [str(word) for word in header["argv"]]  # type: ignore[attr-defined]
        if self._is_complete(plan, secrets, reply):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            secrets.pop("request", None)
            try:
                state, job = queued.submit(self.home, self.runner, plan, secrets, self.umask, argv)
            except queued.CannotQueue as error:
                reply.end(state="refused", refused=str(error))
            else:
                reply.end(state=state, job=job)

    def _command(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        """A short command of the target's queue, for a launcher."""
        from .run import queued

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            code, out, err = queued.command([str(word) for word in header["argv"]])  # type: ignore[attr-defined]
        except queued.CannotQueue as error:
            code, out, err = 127, b"", as_bytes(error)
        reply.end(code=code, out=readable(out), err=readable(err))

    def _is_complete(self, plan: "Plan", secrets: "dict[str, object]", reply: "mirror.Reply") -> "bool":
        """Whether all that the run needs is here; where not, that is the answer."""
        request = secrets.get("request")
        if not isinstance(request, dict):
            return True
        refused = self._arrivals.take_refusal()
        with object_removal.Kept(self.objects):
            is_complete = not refused and not self._lacks_any(plan.tree) and self._has_data(plan)
            if is_complete:
                launch.introduce(self.home, request)
        if not is_complete:
            reply.end(state="missing", refused=refused)
        return is_complete

    def _has_data(self, plan: "Plan") -> "bool":
        if not plan.data:
            return True
        from .data import data_sets

        wanted = [data for data in plan.data if not data.path]
        return all(data_sets.find(self.home, data.tree, data.shared) for data in wanted)

    def _lacks_any(self, tree: "str") -> "bool":
        try:
            return bool(objects.missing(self.objects, tree))
        except objects.Damaged as error:
            objects.discard(self.objects, error.digest)
            return True

    def _pull(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        have = {str(name): int(size) for name, size in header["have"].items()}  # type: ignore[attr-defined]
        mirror.pull(self._attempt(header), have, bool(header["carry"]), bool(header["wait"]), reply)

    def _fetch(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        size = header.get("size")
        most = size if isinstance(size, int) else None
        from .store import output_download

        output_download.fetch(self._attempt(header), str(header["path"]), int(str(header["offset"])), most, reply)

    def _look(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        states, jobs = {}, {}
        for ticket in header["tickets"]:  # type: ignore[attr-defined]
            uid, attempt = [*str(ticket).split("/"), ""][:2]
            path = launch.attempt_path(self.home, uid, attempt)
            states[str(ticket)], jobs[str(ticket)] = control.look(path), waiting.job(path)
        reply.end(states=states, jobs=jobs)

    def _stop(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        reply.end(state=control.stop(self._attempt(header), str(header["by"])))

    def _bury(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        reply.end(state=control.bury(self._attempt(header), header.get("gone") is True))

    def _discard(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        outcome = "lost" if header.get("outcome") == "lost" else "failed"
        reply.end(state=control.discard(self._attempt(header), outcome, str(header["reason"])))

    def _list(self, _header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .store import run_list

        for run in run_list.runs(self.home):
            reply.send(run=dict(run, unlisted=run_list.unlisted(self.home, run)))
        reply.end()

    def _exec(self, header: "dict[str, object]", _payload: "bytes", reply: "mirror.Reply") -> "None":
        from .run import exec_command

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        exec_command.execute(self.home, self.runner, self._attempt(header), header, self.umask, self.reader, reply)

    def _input(self, _header: "dict[str, object]", _payload: "bytes", _reply: "mirror.Reply") -> "None":
        """Said to a command that has ended meanwhile."""

    def _attempt(self, header: "dict[str, object]") -> "bytes":
        return launch.attempt_path(self.home, str(header["uid"]), str(header.get("attempt", "a1")))


def _startable(header: "dict[str, object]") -> "tuple[Plan, dict[str, object]]":
    plan, secrets = Plan(header["plan"]), header["secrets"]
    if not isinstance(secrets, dict):
        raise ValueError("a start without secrets")
    return plan, secrets


def _code(error: "Exception") -> "str":
    """By which a client knows the error; the text is for people."""
    if isinstance(error, (PlanError, objects.Damaged)):
        return error.code if isinstance(error, PlanError) else "object-damaged"
    return "system-error" if isinstance(error, (ImportError, OSError)) else "bad-request"
