"""Sessions with a Spark Connect server: the project's settings for them, their record, and how they end."""

import functools
import os
import signal
import sys
import threading

from . import forked, installation, progress, record, say, server_version, settings

MYPY = False
if MYPY:
    from typing import Any

NO_CONTEXT = (
    "this target is a Spark Connect server (%s), which has no SparkContext and no RDDs: use spark and "
    "DataFrames, or attach the cluster's master (spark://HOST:7077)"
)
# Conditions by which Spark refuses what needs a JVM in the script's process.
_NEEDS_JVM = ("JVM_ATTRIBUTE_NOT_SUPPORTED", "CONTEXT_UNAVAILABLE_FOR_REMOTE_CLIENT")
_RELEASE_S = 5.0
_clients = []  # type: list[Any]
_outage = {"told": False, "final": False}


def install(module: "Any") -> "None":
    """``pyspark.sql.connect.session`` has been imported."""
    kind = module.SparkSession
    begin = kind.__init__

    @functools.wraps(begin)
    def wrapped_init(self: "Any", *arguments: "Any", **named: "Any") -> "None":
        begin(self, *arguments, **named)
        if not settings().get("remote"):
            return  # a server that the script chose itself
        _refuse_newer(self)
        try:
            _begun(self)
        except Exception as problem:
            say("the use of Spark is not recorded: %s" % record.text_of(problem).split("\n")[0][:200])

    kind.__init__ = wrapped_init
    if settings().get("remote"):
        os.environ.setdefault("SPARK_CONNECT_RELEASE_SESSION_ON_EXIT", "true")
        record.explain_exceptions(reason)


def server() -> "str":
    """The server's address, without a token or other parameters."""
    return str(settings().get("remote") or "").split("/;")[0]


def reason(value: "BaseException") -> "str":
    """Why the script's exception was raised, in words for a user of a Connect server."""
    chain = record._chain(value)
    if any(_needs_jvm(problem) for problem in chain):
        return NO_CONTEXT % server()
    if any(_is_unavailable(problem) for problem in chain):
        _outage["final"] = True  # Spark would try for minutes again to release the session
        return "the Spark Connect server %s no longer answers; the session and its job are lost" % server()
    if any("SESSION_" in _condition(problem) or "RESPONSE_ALREADY" in _condition(problem) for problem in chain):
        return "the Spark Connect server %s has been restarted; the session and its job are lost" % server()
    return record.reason(value, None)


def _refuse_newer(session: "Any") -> "None":
    """Of a script that was not asked before its first line, because it shows no use of Spark."""
    try:
        text = server_version.complaint(server(), installation.client_version(), session.version)
    except Exception:
        return  # the script's next call says why
    if text:
        _release(session.client)
        record.decide(text)
        raise RuntimeError(text)


def _begun(session: "Any") -> "None":
    client = session.client
    if not _clients:
        _release_on_termination()
    # Spark releases it at exit, in children too, and the script's own session would be gone.
    client.release_session = forked.not_in_children(client.release_session)
    _clients.append(client)
    _tell_of_outages(client)
    if hasattr(session, "registerProgressHandler"):  # Spark 4
        session.registerProgressHandler(_progressed)
    record.note(
        session=session.session_id,
        application=str(session.conf.get("spark.app.id", "") or ""),
        master=server(),
        spark=session.version,
        python="%d.%d.%d" % sys.version_info[:3],
    )
    conf = settings().get("conf") or {}
    refused = [name for name in sorted(conf) if not _set(session, name, conf[name]) and name != "spark.app.name"]
    if refused:
        say("settings of the Spark Connect server, which a script cannot change: %s" % ", ".join(refused))
    _send_modules(session)


def _send_modules(session: "Any") -> "None":
    """Files of the project beside the script, which its functions import on the server."""
    from . import gateway, project_archive

    work, script = str(settings().get("work") or os.getcwd()), os.path.realpath(sys.argv[0])
    if all(os.path.realpath(path) == script for path in project_archive.files(work)):
        return
    if not hasattr(session, "addArtifacts"):  # before Spark 3.5
        say("modules of the project are not sent to the Spark Connect server: this needs Spark 3.5 or newer")
        return
    try:
        session.addArtifacts(project_archive.write(gateway.scratch(), work), pyfile=True)
    except Exception as problem:
        text = record.text_of(problem).split("\n")[0][:200]
        say("modules of the project could not be sent to the Spark Connect server: %s" % text)


def _progressed(stages: "Any" = None, done: "bool" = False, **_more: "Any") -> "None":
    rows = [] if done else [stage for stage in stages or () if not stage.done]
    progress.show((stage.stage_id, stage.num_completed_tasks, stage.num_tasks) for stage in rows)


def _set(session: "Any", name: "str", value: "str") -> "bool":
    if not name.startswith("spark.sql."):
        return False
    try:
        session.conf.set(name, value)
    except Exception as problem:
        if _is_unavailable(problem):
            raise
        return False
    return True


def _tell_of_outages(client: "Any") -> "None":
    """Spark waits in silence, up to ten minutes, for a server that does not answer."""
    policies = client.get_retry_policies() if hasattr(client, "get_retry_policies") else []  # Spark 4
    for policy in policies:
        policy.can_retry = functools.partial(_may_retry, policy.can_retry)


def _may_retry(can_retry: "Any", problem: "BaseException") -> "bool":
    if _outage["final"] or not can_retry(problem):
        return False
    if _is_unavailable(problem) and not _outage["told"]:
        _outage["told"] = True
        say("the Spark Connect server %s does not answer; Spark tries again for ten minutes" % server())
    return True


def _release_on_termination() -> "None":
    """A cancelled run leaves no job on the server, which would go on for minutes without its client."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: "int", _frame: "Any") -> "None":
    _outage["final"] = True
    signal.signal(number, signal.SIG_DFL)
    for client in _clients:
        # In a thread, because the interrupted call may hold a lock that this one needs.
        release = threading.Thread(target=_release, args=(client,))
        release.daemon = True
        release.start()
        release.join(_RELEASE_S)
    os.kill(os.getpid(), number)


def _release(client: "Any") -> "None":
    try:
        client.release_session()
    except Exception:
        return  # the server ends the session itself after a while


def _condition(problem: "BaseException") -> "str":
    find = getattr(problem, "getCondition", None) or getattr(problem, "getErrorClass", None)
    return str(find() or "") if find is not None else ""


def _needs_jvm(problem: "BaseException") -> "bool":
    condition = _condition(problem)
    parameters = getattr(problem, "getMessageParameters", dict)() or {}  # type: dict[str, str]
    return condition in _NEEDS_JVM or (condition == "NOT_IMPLEMENTED" and parameters.get("feature") == "rdd")


def _is_unavailable(problem: "BaseException") -> "bool":
    """By the status of gRPC, as its own exceptions and Spark's have it."""
    code = getattr(problem, "_grpc_status_code", None)
    find = getattr(problem, "code", None)
    code = find() if code is None and callable(find) else code
    return getattr(code, "name", "") == "UNAVAILABLE"
