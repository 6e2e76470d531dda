"""Prepares the JVM that a script starts with its first session: Java, options, addresses, scratch folder."""

import os
import shlex
import socket
import sys
from urllib.parse import quote

from . import executor_python, forked, installation, java, master_page, memory, project_archive, record, say, settings

MYPY = False
if MYPY:
    from typing import Any

# Errors and real warnings are shown; what Spark says at every start is not.
_LOG4J = """status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
_QUIET = (
    "org.apache.hadoop.util.NativeCodeLoader",
    "org.apache.spark.util.Utils",
    "org.apache.spark.SparkConf",
    "org.apache.spark.sql.internal.SharedState",
    "org.apache.spark.sql.catalyst.util.SparkStringUtils",
    "org.apache.spark.sql.execution.window.WindowExec",
    "org.apache.spark.ml.util.Instrumentation",
    "dev.ludovic.netlib",
    "org.apache.spark.executor.Executor",
)
_LOOPBACK = "127.0.0.1"
_HADOOP = "/etc/hadoop/conf"
_OTHER_VERSION = "the master %s %s, and the script has PySpark %s; install pyspark==%s in the script's environment"
_SHARE = 0.6  # of a small memory that the JVM's heap may have


class CannotStart(RuntimeError):
    """Spark's JVM cannot be started; the text says why and what to do."""


def install(module: "Any") -> "None":
    """``pyspark.java_gateway`` has been imported."""
    launch = module.launch_gateway

    def launch_gateway(conf: "Any" = None, popen_kwargs: "Any" = None) -> "Any":
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            return launch(conf, popen_kwargs)
        _refuse_connect()
        try:
            prepare(dict(conf.getAll()) if conf else {})
        except java.NoJava as problem:
            raise _noted(CannotStart(str(problem))) from None
        try:
            made = _launched(launch, conf, popen_kwargs)
        except Exception as problem:
            raise _noted(CannotStart(_not_started(problem))) from problem
        process = getattr(made, "proc", None)
        record.explain_exceptions(lambda value: record.reason(value, process))
        return made

    module.launch_gateway = launch_gateway


def _launched(launch: "Any", conf: "Any", popen_kwargs: "Any") -> "Any":
    """PySpark makes a temporary folder for the start, which stays where the script is ended meanwhile."""
    import tempfile

    before, tempfile.tempdir = tempfile.tempdir, scratch()
    try:
        return launch(conf, popen_kwargs)
    finally:
        tempfile.tempdir = before


def _not_started(problem: "Exception") -> "str":
    """PySpark says only that the JVM ended; its process is a local variable of the function that started it."""
    code, trace = None, problem.__traceback__  # type: int | None, Any
    while trace is not None and code is None:
        process = trace.tb_frame.f_locals.get("proc")  # type: Any
        code = process.poll() if hasattr(process, "poll") else None
        trace = trace.tb_next
    # The JVM itself, or the shell that Spark starts it from.
    number = -code if code is not None and code < 0 else code - 128 if code is not None and code > 128 else 0
    if number:
        return record.KILLED % number
    ended = " with code %d" % code if code is not None else ""
    return "Spark's JVM ended%s before it could be used; what it printed is above (%s)" % (ended, _line(problem))


def prepare(own: "dict[str, str]") -> "None":
    """Set the variables that the JVM is started with. ``own`` is the configuration that the script itself made."""
    spark = installation.find()
    if spark is None:
        return  # pyspark says what is missing
    folder = scratch()
    chosen = java.find(spark.spark)
    values = settings()
    _provide_packages(values)
    master = own.get("spark.master") or str(values.get("master") or "local[*]")
    _check_hadoop(master)
    if values.get("checked") != master:
        _check_version(master, spark.spark)
    conf = dict(_defaults(master, folder), **(values.get("conf") or {}))
    _check_memory(conf, own)
    _keep_event_log(conf, own)
    os.environ["JAVA_HOME"] = java.usable_home(chosen, folder)
    os.environ.setdefault("SPARK_LOCAL_DIRS", folder)
    _choose_addresses(master, conf)
    os.environ["PYSPARK_PYTHON"] = _executors_python(master, conf, own)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:-UsePerfData")  # leaves a file in /tmp where it is ended
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(map(shlex.quote, options(master, conf, values)))


def check_cluster(values: "dict[str, Any]") -> "None":
    """Whether the cluster's version of Spark and the Python of its executors suit; asked before the first line."""
    spark = installation.find()
    if spark is None:
        return  # the script will notice
    _check_version(str(values["master"]), spark.spark)
    values["checked"] = values["master"]
    named = (values.get("conf") or {}).get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON", "")
    if named and named != sys.executable:
        _check_python(named)


def _provide_packages(values: "dict[str, Any]") -> "None":
    """Those of a script in which no use of Spark was seen; of others they are there before its first line."""
    if values.get("packages_of_session"):
        from . import packages

        try:
            packages.provide(values, values["packages_of_session"])
        except packages.CannotProvide as problem:
            raise _noted(CannotStart(str(problem))) from None


def options(master: "str", conf: "dict[str, str]", values: "dict[str, Any]") -> "list[str]":
    """Arguments for spark-submit; those of the user's own PYSPARK_SUBMIT_ARGS come last and win."""
    argv = ["--master", master, "--name", conf.pop("spark.app.name", "") or os.path.basename(sys.argv[0]) or "python"]
    if values.get("deploy_mode"):
        argv += ["--deploy-mode", str(values["deploy_mode"])]
    for name, value in sorted(conf.items()):
        argv += ["--conf", "%s=%s" % (name, value)]
    jars = [path for path in os.environ.get("HOLDFAST_SPARK_JARS", "").split(os.pathsep) if path]
    if jars:
        argv += ["--jars", ",".join(jars)]
    files = jars + (
        [] if master.startswith("local") else [project_archive.write(scratch(), str(values.get("work") or os.getcwd()))]
    )
    if files:
        argv += ["--py-files", ",".join(files)]
    own = [word for word in shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")) if word != "pyspark-shell"]
    return [*argv, *own, "pyspark-shell"]


def _defaults(master: "str", folder: "str") -> "dict[str, str]":
    """What holds where the project's file says nothing else."""
    log = os.path.join(folder, "log4j2.properties")
    with open(log, "w") as target:
        rows = [
            "logger.q%d.name = %s\nlogger.q%d.level = %s\n" % (n, name, n, _level(name))
            for n, name in enumerate(_QUIET)
        ]
        target.write(_LOG4J + "".join(rows))
    folders = (_option("-Dlog4j2.configurationFile=file:" + quote(log)), _option("-Djava.io.tmpdir=" + folder))
    java_options = "-XX:-UsePerfData %s %s" % folders
    conf = {"spark.ui.showConsoleProgress": "false", "spark.driver.defaultJavaOptions": java_options}
    if master.startswith("local"):
        conf.update({"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK})
    if master.startswith("local") or os.environ.get("_SPARK_AUTH_SECRET"):
        conf["spark.authenticate"] = "true"  # in local mode Spark makes the secret itself
    if master.startswith("local") and sys.path and sys.path[0]:
        conf["spark.executorEnv.PYTHONPATH"] = sys.path[0]  # a script's own modules, in Python workers too
    return conf


def _option(text: "str") -> "str":
    """As Spark's launcher takes options apart: at spaces outside quotes."""
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def _level(name: "str") -> "str":
    """In local mode the executor repeats the exception of every failed task, which the scheduler tells too."""
    return "fatal" if name.endswith(".Executor") else "error"


def _choose_addresses(master: "str", conf: "dict[str, str]") -> "None":
    """On a standalone cluster only the driver listens where workers reach it; they have no use for the UI."""
    if os.environ.get("SPARK_LOCAL_IP") or not master.startswith("spark://"):
        os.environ.setdefault("SPARK_LOCAL_IP", address(master))
        return
    reached = address(master)
    os.environ.update(SPARK_LOCAL_IP=_LOOPBACK, SPARK_PUBLIC_DNS=_LOOPBACK)
    conf.setdefault("spark.driver.host", reached)
    conf.setdefault("spark.driver.bindAddress", reached)


def address(master: "str") -> "str":
    """The address that the driver listens on: the loopback, or the one from which the master is reached."""
    import re

    match = re.match(r"spark://\[?([^\],/]+?)\]?:(\d+)", master)
    if match is None:
        return _LOOPBACK if master.startswith("local") else _outward()
    try:
        family, kind, _, _, name = socket.getaddrinfo(match.group(1), int(match.group(2)), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(name)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as problem:
        raise _noted(CannotStart("the Spark master %s cannot be found: %s" % (master, problem))) from None


def _executors_python(master: "str", conf: "dict[str, str]", own: "dict[str, str]") -> "str":
    """The script's Python, which workers without it fetch from here; another one only where the user names it."""
    named = own.get("spark.pyspark.python") or conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON", "")
    if named and named != sys.executable:
        _check_python(named)
        return named
    if master.startswith("local") or "spark.files" in own:  # what the script says replaces our files
        return sys.executable
    host = own.get("spark.driver.host") or conf.get("spark.driver.host") or os.environ["SPARK_LOCAL_IP"]
    port = own.get("spark.driver.port") or conf.get("spark.driver.port", "")
    try:
        program = executor_python.provide(scratch(), host, port)
    except OSError as problem:
        say("workers can only use %s if they have it: %s" % (sys.executable, problem))
        return sys.executable
    conf["spark.files"] = ",".join(filter(None, [conf.get("spark.files"), program]))
    return "./" + executor_python.NAME


def _check_python(named: "str") -> "None":
    """Spark needs the same minor version in driver and executors, and says so only when the first task has failed."""
    import subprocess

    argv = [named, "-I", "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        answer = subprocess.check_output(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return  # not on this machine; the workers may have it
    version, mine = answer.decode("utf-8", "replace").strip(), "%d.%d" % sys.version_info[:2]
    if version != mine:
        message = (
            "PYSPARK_PYTHON or spark.pyspark.python gives the executors Python %s (%s), and the script has Python %s; "
            "Spark needs the same version: delete that setting, or name a Python %s"
        )
        raise _noted(CannotStart(message % (version, named, mine, mine)))


def _check_version(master: "str", mine: "str") -> "None":
    theirs = master_page.version(master)
    if master_page.is_other(mine, theirs):
        raise _noted(CannotStart(_OTHER_VERSION % (master, "has Spark %s" % theirs, mine, theirs)))


def _check_hadoop(master: "str") -> "None":
    """YARN is found by Hadoop's configuration; without it Spark's own error does not say what to write."""
    if master != "yarn" or os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR"):
        return
    if os.path.isdir(_HADOOP):
        os.environ["HADOOP_CONF_DIR"] = _HADOOP
        return
    message = (
        "this machine has no configuration of Hadoop (HADOOP_CONF_DIR, %s), by which YARN is found; for another "
        "cluster write its master into the .compute file: sparkMaster: spark://HOST:7077"
    )
    raise _noted(CannotStart(message % _HADOOP))


def _outward() -> "str":
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return _LOOPBACK


def scratch() -> "str":
    """The folder for Spark's temporary files: the run's own, which the runner removes, or one of this process."""
    folder = str(settings().get("scratch") or "")
    if folder and os.access(folder, os.W_OK):
        return folder
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="holdfast-spark-")
    atexit.register(forked.not_in_children(shutil.rmtree), folder, ignore_errors=True)
    settings()["scratch"] = folder
    return folder


def _keep_event_log(conf: "dict[str, str]", own: "dict[str, str]") -> "None":
    """Where it is asked for without a folder, it becomes an output."""
    outputs, both = os.environ.get("HOLDFAST_OUTPUTS"), dict(conf, **own)
    is_on = both.get("spark.eventLog.enabled", "").strip().lower() == "true"  # as Spark reads it
    if outputs and is_on and "spark.eventLog.dir" not in both:
        folder = os.path.join(outputs, "spark-events")
        os.makedirs(folder, exist_ok=True)
        conf["spark.eventLog.dir"] = "file://" + quote(folder)


def _check_memory(conf: "dict[str, str]", own: "dict[str, str]") -> "None":
    """Refuse a heap that is larger than the machine or container; reduce the default where memory is small."""
    limit = memory.limit()
    text = own.get("spark.driver.memory") or conf.get("spark.driver.memory", "")
    message = memory.complaint(text)
    if message:
        raise _noted(CannotStart(message))
    if limit and not text and limit * _SHARE < 1 << 30:
        conf["spark.driver.memory"] = "%dm" % (int(limit * _SHARE) >> 20)


def _refuse_connect() -> "None":
    if settings().get("remote"):
        from . import connect

        raise _noted(CannotStart(connect.NO_CONTEXT % connect.server()))


def _noted(problem: "CannotStart") -> "CannotStart":
    record.note(reason=str(problem))
    return problem


def _line(problem: "Exception") -> "str":
    return record.text_of(problem).strip().split("\n")[0][:200]
