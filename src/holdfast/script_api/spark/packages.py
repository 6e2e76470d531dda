"""Spark packages of a run: fetched by Ivy, which Spark brings, before the script's first line, and kept by content."""

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import time
from xml.sax.saxutils import quoteattr

from . import installation, java, record, repositories, say

MYPY = False
if MYPY:
    from typing import IO, Any

_files = importlib.import_module(
    "holdfast.script_api.replace" if __name__.startswith("holdfast.") else "_holdfast_replace"
)
CENTRAL = "https://repo1.maven.org/maven2/"
_REFUSED = 65  # as for other files of the project that cannot be followed
_SCALA = re.compile(r"_(2\.\d+|3)$")
_AGAIN_S = 24 * 3600  # when a package that was left out is looked for again
_LONGEST_S = 1800
_MOST_NAMED = 5
_BROKEN = re.compile(r"\[FAILED\s*\] [^\s!]+!(\S+): ([^\n]*?)(?: \(\d+ms\))?\n")
_SETTINGS = """<ivysettings>
  <settings defaultResolver="all"/>
  <timeout-constraints>
    <timeout-constraint name="network" connectionTimeout="10000" readTimeout="60000"/>
  </timeout-constraints>
  <caches defaultCacheDir=%s/>
  <resolvers><chain name="all" returnFirst="true">
%s
  </chain></resolvers>
</ivysettings>
"""
_RESOLVER = '    <ibiblio name="r%d" root=%s m2compatible="true" usepoms="true" timeoutConstraint="network"/>'
# What Spark itself brings is not fetched a second time, in another version.
_MODULE = """<ivy-module version="2.0">
  <info organisation="holdfast" module="run"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
%s
    <exclude org="org.apache.spark"/>
    <exclude org="org.scala-lang"/>
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = '    <dependency org=%s name=%s rev=%s conf="default->default"/>'


class Unresolved(Exception):
    """Packages that no repository has, with what Ivy said."""

    def __init__(self, names: "list[str]", output: "str") -> "None":
        super().__init__(", ".join(names))
        self.names = names
        self.output = output


class CannotProvide(Exception):
    """A package cannot be had; the text names it, its line and what to do."""


def ensure(settings: "dict[str, Any]") -> "None":
    """Before the script's first line; ends the process where a package cannot be had."""
    try:
        provide(settings, settings["packages"])
    except CannotProvide as problem:
        refuse(str(problem))


def provide(settings: "dict[str, Any]", rows: "list[dict[str, Any]]") -> "None":
    """Put the jars of the packages into a variable for the JVM."""
    spark = installation.find()
    if "HOLDFAST_SPARK_JARS" in os.environ or spark is None:
        return  # a child of the script, or a Python without Spark, which the script will notice if it needs it
    wanted = [row for row in rows if _is_loadable(row, spark, settings)]
    try:
        os.environ["HOLDFAST_SPARK_JARS"] = os.pathsep.join(_jars(wanted, settings, spark))
    except Unresolved as problem:
        raise CannotProvide(_not_found(problem, settings, rows)) from None
    except java.NoJava as problem:
        raise CannotProvide(str(problem)) from None
    except OSError as problem:
        raise CannotProvide("the Spark packages cannot be kept in %s: %s" % (_cache(settings), problem)) from None


def refuse(message: "str") -> "None":
    """End the process before the script's first line."""
    record.note(reason=message)
    say(message)
    sys.stdout.flush()
    os._exit(_REFUSED)


def _is_loadable(row: "dict[str, Any]", spark: "installation.Installation", settings: "dict[str, Any]") -> "bool":
    artifact = row["coordinate"].split(":")[1]
    match = _SCALA.search(artifact)
    if match is None or match.group(1) == spark.scala:
        return True
    text = "%s: %s is built for Scala %s and left out; Spark %s here uses Scala %s"
    say(text % (_place(row, settings), row["coordinate"], match.group(1), spark.spark, spark.scala))
    return False


def _jars(
    wanted: "list[dict[str, Any]]", settings: "dict[str, Any]", spark: "installation.Installation"
) -> "list[str]":
    if not wanted:
        return []
    given = list(settings.get("repositories") or [])
    basis = [sorted(row["coordinate"] for row in wanted), given, spark.scala]
    folder = os.path.join(_cache(settings), hashlib.sha256(json.dumps(basis).encode("ascii")).hexdigest()[:32])
    os.makedirs(folder, 0o700, exist_ok=True)
    with open(os.path.join(folder, "lock"), "a") as lock:
        _hold(lock)
        known = _known(folder)
        if known is None:
            known = _resolved(wanted, given, folder, spark)
    for row in wanted:
        if row["coordinate"] in known["left_out"]:
            say("%s: %s cannot be had now and is left out" % (_place(row, settings), row["coordinate"]))
    return [os.path.join(folder, "jars", name) for name in known["jars"]]


def _hold(lock: "IO[str]") -> "None":
    if sys.platform != "win32":  # a target is never Windows
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)


def _known(folder: "str") -> "dict[str, Any] | None":
    """The result of an earlier run; one that left something out holds for a day."""
    try:
        with open(os.path.join(folder, "resolved.json"), encoding="ascii") as source:
            known = json.load(source)  # type: dict[str, Any]
    except (OSError, ValueError):
        return None
    is_old = bool(known["left_out"]) and not 0 <= time.time() - known["time"] < _AGAIN_S
    return None if is_old or not all(map(os.path.exists, _paths(folder, known))) else known


def _paths(folder: "str", known: "dict[str, Any]") -> "list[str]":
    return [os.path.join(folder, "jars", name) for name in known["jars"]]


def _resolved(
    wanted: "list[dict[str, Any]]", given: "list[str]", folder: "str", spark: "installation.Installation"
) -> "dict[str, Any]":
    """Fetch what is wanted; what may be missing is left out where it cannot be had."""
    left_out = []  # type: list[str]
    optional = [row["coordinate"] for row in wanted if row.get("optional")]
    while True:
        coordinates = [row["coordinate"] for row in wanted if row["coordinate"] not in left_out]
        try:
            jars = _fetch(coordinates, given, folder, spark) if coordinates else []
            break
        except Unresolved as problem:
            missing = [name for name in problem.names if name in optional]
            if not missing or len(missing) < len(problem.names):
                raise
            left_out += missing
    known = {"jars": jars, "left_out": left_out, "time": time.time()}
    _files.replace_text(os.path.join(folder, "resolved.json"), json.dumps(known))
    return known


def _fetch(
    coordinates: "list[str]", given: "list[str]", folder: "str", spark: "installation.Installation"
) -> "list[str]":
    roots = ["%s/" % root.rstrip("/") for root in given] + [CENTRAL]
    roots = repositories.reachable(roots)
    if not roots:
        raise Unresolved(coordinates, "Connection to no repository within %d s\n" % repositories.LIMIT_S)
    machine = java.find(spark.spark)
    resolvers = "\n".join(_RESOLVER % (number, quoteattr(root)) for number, root in enumerate(roots))
    _write(os.path.join(folder, "settings.xml"), _SETTINGS % (quoteattr(os.path.join(folder, "ivy")), resolvers))
    rows = [_DEPENDENCY % tuple(map(quoteattr, coordinate.split(":"))) for coordinate in coordinates]
    _write(os.path.join(folder, "module.xml"), _MODULE % "\n".join(rows))
    jars = os.path.join(folder, "jars")
    argv = [os.path.join(machine.home, "bin", "java"), "-XX:-UsePerfData", "-cp", os.path.join(spark.home, "jars", "*")]
    argv += ["org.apache.ivy.Main", "-settings", os.path.join(folder, "settings.xml")]
    argv += ["-ivy", os.path.join(folder, "module.xml"), "-confs", "default", "-types", "jar", "bundle"]
    argv += ["-retrieve", os.path.join(jars, "[organization]_[artifact]-[revision](-[classifier]).[ext]")]
    try:
        done = subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        raise Unresolved(coordinates, "Ivy did not end within %d s" % _LONGEST_S) from None
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise Unresolved(_missing(output, coordinates), output)
    return sorted(os.listdir(jars)) if os.path.isdir(jars) else []


def _missing(output: "str", coordinates: "list[str]") -> "list[str]":
    """Those of ours that Ivy names as not found or not downloaded; all where it names none or one of theirs."""
    failed = _failed(output)
    ours = [name for name in coordinates if name in failed]
    return ours or coordinates


def _failed(output: "str") -> "list[str]":
    """What Ivy did not find or could not download."""
    failed = [":".join(parts) for parts in re.findall(r":: ([\w.\-]+)#([\w.\-]+);([^\s:]+): ", output)]
    return failed + [":".join(parts) for parts in re.findall(r":: ([\w.\-]+)#([\w.\-]+);([^\s!]+)!", output)]


def _not_found(problem: "Unresolved", settings: "dict[str, Any]", packages: "list[dict[str, Any]]") -> "str":
    rows = {row["coordinate"]: row for row in packages}
    roots = ", ".join([*(settings.get("repositories") or []), CENTRAL])
    errors = re.findall(r"(?:Server access error|java\.net\.|Connection|timed out|Could not)[^\n]*", problem.output)
    answer = "; " + errors[-1].strip()[:200] if errors else ""
    location, names = _place(rows[problem.names[0]], settings), ", ".join(problem.names)
    broken = _BROKEN.search(problem.output)
    if broken is not None:
        text = (
            "%s: the Spark package %s could not be downloaded from %s: %s: %s; submit again when the repository answers"
        )
        return text % (location, names, roots, broken.group(1), broken.group(2)[:200])
    needed = sorted({name for name in _failed(problem.output) if name not in rows})
    if needed:
        names += ", or what it needs (%s)," % ", ".join(needed[:_MOST_NAMED])
    text = "%s: the Spark package %s was not found in %s%s; correct or delete this entry"
    return text % (location, names, roots, answer)


def _place(row: "dict[str, Any]", settings: "dict[str, Any]") -> "str":
    return "%s:%d" % (settings["file"], row["line"]) if row.get("line") else str(settings.get("file") or "packages")


def _cache(settings: "dict[str, Any]") -> "str":
    """The target's, or, in a container that shares no folder with it, one of the container."""
    folder = str(settings.get("cache") or "")
    if folder and os.access(folder, os.W_OK):
        return folder
    import tempfile

    return os.path.join(tempfile.gettempdir(), "holdfast-spark-packages")


def _write(path: "str", text: "str") -> "None":
    with open(path, "w", encoding="utf-8") as target:
        target.write(text)
