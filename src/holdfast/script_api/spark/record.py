"""What is known of a run's Spark application, in ``spark.jsonl`` beside the metrics: versions, use, why it ended."""

import json
import os
import re
import sys
import time

from . import executor_python, forked, say

MYPY = False
if MYPY:
    from typing import Any

FILE = "spark.jsonl"
_LONGEST = 600
_OF_SPARK = "Spark: "
_TRACEBACK = "Traceback (most recent call last)"
_PY4J = "An error occurred while calling"
_known = {}  # type: dict[str, Any]
_decided = []  # type: list[str]
_executors = []  # type: list[dict[str, Any]]
KILLED = "Spark's driver JVM was killed by signal %d: by another process, or by the kernel when memory ran out"
_END_S = 3.0
_SHUTDOWN_S = 30.0  # of a JVM that takes no connections any more; on a busy machine its end takes many seconds
_EXIT_CODES = {52: ": it ran out of memory; raise spark.driver.memory"}  # Spark's own
_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError|exited with code 52\b")
_EXECUTOR_MEMORY = "; an executor ran out of memory: raise spark.executor.memory"
_JOB = re.compile(r"Job aborted due to stage failure: ([^\n]*)")
_WORKER = re.compile(r"^holdfast: (worker [^\n]*)$", re.MULTILINE)  # by executor_python
_LAST_EXCEPTION = re.compile(r"^\s*((?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b[^\n]*)$", re.MULTILINE)


def note(**fields: "Any") -> "None":
    """Add a line to the record: clients copy the file while it grows. A full disk is no reason to stop a script."""
    folder = os.environ.get("HOLDFAST_METRICS_DIR")
    _known.update(fields)
    if not folder:
        return
    try:
        with open(os.path.join(folder, FILE), "ab", buffering=0) as target:
            target.write(json.dumps(fields).encode("ascii") + b"\n")
    except OSError as problem:
        say("the record of Spark cannot be written: %s" % problem)


def decide(text: "str") -> "None":
    """The reason of the run if it fails from now on, whatever exception the script ends with."""
    _decided[:] = [text]
    note(reason=text)


def begun(context: "Any") -> "None":
    """A SparkContext has been made."""
    jvm = context._jvm
    note(
        application=context.applicationId,
        master=context.master,
        spark=context.version,
        scala=str(jvm.scala.util.Properties.versionNumberString()),
        java=str(jvm.java.lang.System.getProperty("java.version")),
        python="%d.%d.%d" % sys.version_info[:3],
        ui=context.uiWebUrl,
        started=time.time(),
    )


def used(context: "Any") -> "None":
    """What the application did, by Spark's own status store; asked just before it is stopped."""
    jvm = context._jvm
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())
    context._jsc.sc().listenerBus().waitUntilEmpty(2000)  # the last task is counted
    store = context._jsc.sc().statusStore()
    executors = json.loads(mapper.writeValueAsString(store.executorList(False)))
    stages = json.loads(mapper.writeValueAsString(_stages(context, store)))
    _executors[:] = executors
    _add_stage(stages)
    note(receipt=receipt(executors, stages, str(context.master)))


def _add_stage(stages: "list[dict[str, Any]]") -> "None":
    """Spark 4 gives a script the exception of its task alone; the stage that was aborted for it is named here."""
    failed = [row for row in stages if row.get("status") == "FAILED" and row.get("failureReason")]
    cause = str(_known.get("reason") or "")
    if not failed or not cause.startswith(_OF_SPARK):
        return
    last = max(failed, key=lambda row: int(row.get("stageId") or 0))
    job = _JOB.search(str(last["failureReason"]))
    number, failures = int(last.get("stageId") or 0), int(last.get("numFailedTasks") or 0)
    text = job.group(1)[:300] if job else "stage %d, %d of its tasks failed" % (number, failures)
    note(reason="Spark stage aborted: %s: %s" % (text, cause[len(_OF_SPARK) :]))


def failed_logs() -> "list[tuple[str, str]]":
    """(file name, address) of the error output of every executor on which a task failed, or which was lost."""
    rows = [row for row in _executors if row.get("failedTasks") or row.get("removeReason")]
    logs = [(str(row.get("id")), (row.get("executorLogs") or {}).get("stderr")) for row in rows]
    return [("executor-%s.stderr.txt" % name, str(address)) for name, address in logs if address and name.isdigit()]


def add_log(text: "str") -> "None":
    """Where no Python could be started on a worker, its executor's log has the reason, and the exception has not."""
    match = _WORKER.search(text)
    if match is not None and _known.get("reason"):
        note(reason="Spark could not start Python on its %s" % match.group(1)[:_LONGEST])


def _stages(context: "Any", store: "Any") -> "Any":
    jvm = context._jvm
    try:
        numbers = context._gateway.new_array(jvm.double, 0)
        return store.stageList(None, False, False, numbers, jvm.java.util.ArrayList())
    except Exception:
        return store.stageList(None)  # Spark before 3.1


def receipt(executors: "list[dict[str, Any]]", stages: "list[dict[str, Any]]", master: "str") -> "dict[str, Any]":
    """The figures of an application and the verdict on them: used, idle or driver only."""
    workers = [row for row in executors if row.get("id") != "driver"]
    rows = executors if master.startswith("local") else workers
    tasks, duration = _total(rows, "totalTasks"), _total(rows, "totalDuration")
    lost = [row for row in workers if row.get("removeReason")]
    ran = [row for row in stages if row.get("status") in ("COMPLETE", "FAILED", "ACTIVE")]
    verdict = "used" if tasks else "idle" if workers else "driver only"
    return {
        "verdict": verdict,
        "executors": len(rows),
        "lost": [{"id": str(row["id"]), "reason": str(row["removeReason"])[:300]} for row in lost[:20]],
        "tasks": tasks,
        "failed_tasks": _total(rows, "failedTasks"),
        "stages": len(ran),
        "failed_stages": sum(1 for row in ran if row.get("status") == "FAILED"),
        "input_bytes": _total(rows, "totalInputBytes"),
        "shuffle_read_bytes": _total(rows, "totalShuffleRead"),
        "shuffle_write_bytes": _total(rows, "totalShuffleWrite"),
        "spill_bytes": _total(ran, "diskBytesSpilled"),
        "environment_bytes": executor_python.sent_bytes(),
        "gc_share": round(_total(rows, "totalGCTime") / float(duration), 4) if duration else 0.0,
    }


def _total(rows: "list[dict[str, Any]]", name: "str") -> "int":
    return sum(int(row.get(name) or 0) for row in rows)


def explain_exceptions(find: "Any") -> "None":
    """Where ``find`` knows why the exception that ends the script was raised, say it and record it."""
    show, find_here = sys.excepthook, forked.not_in_children(find)

    def explain(kind: "Any", value: "Any", trace: "Any") -> "None":
        show(kind, value, trace)
        text = find_here(value)
        if text:
            say(text)
            note(reason=text)

    sys.excepthook = explain


def reason(value: "BaseException", process: "Any") -> "str":
    """Why the script's exception was raised, where Spark knows more than its text; empty where it does not."""
    if _decided:
        return _decided[0]
    kinds = [type(error) for error in _chain(value)]
    of_gateway = any(kind.__module__.startswith("py4j") or issubclass(kind, OSError) for kind in kinds)
    text = "\n".join(text_of(error) for error in _chain(value))
    is_of_java = any(kind.__name__ == "Py4JJavaError" for kind in kinds)
    has_answered = is_of_java and bool(text.strip())  # so that the JVM is not about to end
    is_closed = ConnectionRefusedError in kinds or (is_of_java and not has_answered)  # it cannot be asked for the text
    patience = _SHUTDOWN_S if is_closed else 0 if has_answered else _END_S
    code = _ended(process, patience) if of_gateway else None
    if code is not None and code < 0:
        return KILLED % -code
    job = _JOB.search(text)
    of_executor = job is not None and "executor driver)" not in job.group(1)
    if "java.lang.OutOfMemoryError" in text and not of_executor:
        return "Spark's driver JVM ran out of memory (%s); raise spark.driver.memory" % _first(text, "OutOfMemoryError")
    if code is not None:
        return "Spark's driver JVM ended with code %d%s" % (code, _EXIT_CODES.get(code, ""))
    if not any(kind.__module__.startswith(("py4j", "pyspark")) for kind in kinds):
        return ""
    inner = _LAST_EXCEPTION.findall(text)
    if job is not None:
        cause = inner[-1].strip() if inner and inner[-1].strip() not in job.group(1) else ""
        aborted = ("Spark stage aborted: %s%s" % (job.group(1).strip(), " " + cause if cause else ""))[:_LONGEST]
        return aborted + (_EXECUTOR_MEMORY if of_executor and _OUT_OF_MEMORY.search(aborted) else "")
    is_of_python = inner and _TRACEBACK in text
    return _OF_SPARK + (inner[-1].strip() if is_of_python else _message(text) or kinds[0].__name__)[:_LONGEST]


def text_of(error: "BaseException") -> "str":
    """An exception of the JVM is asked for its text, which fails when the JVM has ended."""
    try:
        return str(error)
    except Exception:
        return ""


def _message(text: "str") -> "str":
    """The first line that says something; py4j's own is above the exception of the JVM."""
    lines = [line.lstrip(": ") for line in text.split("\n") if line.strip() and not line.startswith(_PY4J)]
    return lines[0] if lines else text[:_LONGEST]


def _chain(value: "BaseException | None") -> "list[BaseException]":
    result = []  # type: list[BaseException]
    while value is not None and value not in result and len(result) < 10:
        result.append(value)
        value = value.__cause__ or value.__context__
    return result


def _ended(process: "Any", patience: "float") -> "int | None":
    """The exit code of the JVM, which may be about to end."""
    if process is None:
        return None
    try:
        return int(process.wait(timeout=patience))
    except Exception:
        return None


def _first(text: "str", word: "str") -> "str":
    line = next(line for line in text.split("\n") if word in line)
    return line.strip()[:200]
