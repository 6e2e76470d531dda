"""Records each SparkContext of a script, and stops the last one properly when the script ends."""

import functools
import http.client
import os
from urllib.parse import urlsplit

from . import forked, progress, record, registration, say, settings

MYPY = False
if MYPY:
    from typing import Any

_END_S = 20.0
_MOST_LOGS, _LOG_BYTES, _LOG_S = 4, 65536, 5


def install(module: "Any") -> "None":
    """``pyspark.core.context`` or, before Spark 4, ``pyspark.context`` has been imported."""
    kind = module.SparkContext
    if kind.__module__ != module.__name__:
        return
    begin, stop = kind.__init__, kind.stop

    @functools.wraps(begin)
    def wrapped_init(self: "Any", *arguments: "Any", **named: "Any") -> "None":
        try:
            begin(self, *arguments, **named)
        except Exception:
            _guarded(registration.explain, self)
            raise
        if is_refused(self):
            text = _refusal(self.master, self.version)
            stop(self)
            raise RuntimeError(text)
        import atexit

        atexit.register(forked.not_in_children(_end), self)
        unused = unused_cluster(str(settings().get("master") or ""), str(self.master))
        if unused:
            say(unused)
        _guarded(record.begun, self)
        _guarded(progress.begin, self)
        registration.watch(self)

    @functools.wraps(stop)
    def wrapped_stop(self: "Any") -> "None":
        progress.end()
        if getattr(self, "_jsc", None) is not None and _is_alive(self):
            _guarded(record.used, self)
            _guarded(_fetch_logs, self)
        stop(self)

    kind.__init__, kind.stop = wrapped_init, wrapped_stop


def is_refused(context: "Any") -> "bool":
    """Spark gives up after a minute without an answer that it understands; the application has no id of a master."""
    return str(context.master).startswith("spark://") and str(context.applicationId).startswith("spark-application-")


def unused_cluster(planned: "str", master: "str") -> "str":
    """Old scripts often contain a master for tests, which then does the work of a cluster on one machine."""
    if planned in ("", master) or planned.startswith("local") or not master.startswith("local"):
        return ""
    return "the script sets the master %s itself, so that the cluster %s is not used" % (master, planned)


def _refusal(master: "str", version: "str") -> "str":
    text = (
        "the master %s did not accept the application: it has another version of Spark than the script (PySpark %s), "
        "or it does not answer; compare the versions on its web page"
    )
    record.note(reason=text % (master, version))
    return text % (master, version)


def _end(context: "Any") -> "None":
    """At the end of the script: stop the application, and wait for the JVM, so that nothing is left."""
    process = getattr(context._gateway, "proc", None)
    try:
        context.stop()
    except Exception as problem:
        say("Spark could not be stopped: %s" % record.text_of(problem).split("\n")[0][:200])
    if process is None:
        return
    try:
        process.stdin.close()
        process.wait(timeout=_END_S)
    except Exception:
        process.kill()


def _is_alive(context: "Any") -> "bool":
    process = getattr(context._gateway, "proc", None)
    return process is None or process.poll() is None


def _guarded(work: "Any", context: "Any") -> "None":
    """What goes wrong in here is one line on stderr and nothing else."""
    try:
        work(context)
    except Exception as problem:
        say("the use of Spark is not recorded: %s" % record.text_of(problem).split("\n")[0][:200])


def _fetch_logs(context: "Any") -> "None":
    """Logs of executors on which a task failed, from their workers, as outputs."""
    outputs = os.environ.get("HOLDFAST_OUTPUTS")
    if not outputs or str(context.master).startswith("local"):
        return
    folder = os.path.join(outputs, "spark")
    for name, address in record.failed_logs()[:_MOST_LOGS]:
        text = _read(address)
        record.add_log(text.decode("utf-8", "replace"))
        if text:
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name), "wb") as target:
                target.write(text)


def _read(address: "str") -> "bytes":
    """The end of a log as plain text; no proxy is asked."""
    parts = urlsplit(address.replace("/logPage/", "/log/", 1))
    connection = http.client.HTTPConnection(parts.netloc, timeout=_LOG_S)
    try:
        connection.request("GET", "%s?%s&byteLength=%d" % (parts.path, parts.query, _LOG_BYTES))
        answer = connection.getresponse()
        return answer.read(2 * _LOG_BYTES) if answer.status == 200 else b""
    except (OSError, http.client.HTTPException):
        return b""
    finally:
        connection.close()
