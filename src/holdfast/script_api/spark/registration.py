"""Ends the jobs of an application that the cluster's master has forgotten; Spark itself would wait for ever.

A standalone master that is restarted without recovery ends the executors of applications that it does not know, and
their drivers do not register again.
"""

import re
import socket
import threading

from . import record, say

MYPY = False
if MYPY:
    from typing import Any

LOOK_S = 5.0
_FORGOTTEN = 3  # looks in a row: a master that recovers its state tells its applications within moments
_FORGOTTEN_BY_SEVERAL = 24  # masters that first elect one of them
_CONNECT_S = 2.0
_ANSWER_S = 10.0
_REASON = (
    "the Spark master %s does not know application %s any more, and there are no executors: it was restarted without "
    "recovery (spark.deploy.recoveryMode)"
)
_WAITS = "the application has no executors, and the Spark master %s does not answer; waiting for it"


def watch(context: "Any") -> "None":
    """Begin to watch, in a thread that ends with the script."""
    if str(context.master).startswith("spark://"):
        watcher = Watcher(context)
        threading.Thread(target=watcher.run, name="holdfast-spark-registration", daemon=True).start()


def explain(context: "Any") -> "None":
    """The context could not be made: Spark's own exception does not say that there was no master."""
    master = str(getattr(context, "master", None) or "")
    if master.startswith("spark://") and not _answers(master):
        record.decide("the Spark master %s does not answer, and the application could not be registered" % master)


class Watcher(object):
    def __init__(self, context: "Any") -> "None":
        self._context = context
        self._master = str(context.master)
        self._pause = threading.Event()  # never set
        self._forgotten = 0
        self._has_said = False

    def run(self) -> "None":
        try:
            while not self._pause.wait(LOOK_S) and self._context._jsc is not None:
                if self._look(self._context._jsc.sc()):
                    return
        except Exception:
            return  # the application has ended, or this Spark has no such methods

    def _look(self, scheduler: "Any") -> "bool":
        """Whether the jobs were ended."""
        if int(scheduler.getExecutorMemoryStatus().size()) > 1:  # the driver is one of them
            self._forgotten = 0
            return False
        if not _answers(self._master):
            if not self._has_said:
                say(_WAITS % self._master)
            self._has_said, self._forgotten = True, 0
            return False
        self._forgotten = 0 if self._is_registered(scheduler) else self._forgotten + 1
        limit = _FORGOTTEN_BY_SEVERAL if "," in self._master else _FORGOTTEN
        jobs = list(scheduler.statusTracker().getActiveJobIds()) if self._forgotten >= limit else []
        if jobs:
            text = _REASON % (self._master, self._context.applicationId)
            say(text)
            record.decide(text)
        for job in jobs:
            scheduler.cancelJob(job, text)
        return bool(jobs)

    def _is_registered(self, scheduler: "Any") -> "bool":
        """Whether the master takes requests of the application; this one is to end none of its executors."""
        jvm = self._context._jvm
        none = jvm.org.apache.spark.api.python.PythonUtils.toSeq(jvm.java.util.ArrayList())
        answer = scheduler.schedulerBackend().doKillExecutors(none)
        waited = 0.0
        while not answer.isCompleted() and waited < _ANSWER_S:
            self._pause.wait(0.2)
            waited += 0.2
        if not answer.isCompleted():
            return True  # unknown
        result = answer.value().get()
        return bool(result.isSuccess() and result.get())


def _answers(master: "str") -> "bool":
    """Whether something listens at one of the addresses."""
    for host, port in re.findall(r"\[?([^\[\],/]+?)\]?:(\d+)", master.partition("://")[2]):
        try:
            socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
            return True
        except OSError:
            continue
    return False
