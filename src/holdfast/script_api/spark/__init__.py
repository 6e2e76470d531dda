"""Spark in a script: the names ``spark`` and ``sc`` without an import, which start nothing until they are used."""

import os
import sys

MYPY = False
if MYPY:
    from typing import Any

_settings = {}  # type: dict[str, Any]


def settings() -> "dict[str, Any]":
    """What the run says about Spark: the plan's ``spark``, with folders of the target added by the runner."""
    if not _settings and os.environ.get("HOLDFAST_SPARK"):
        import json

        _settings.update(json.loads(os.environ["HOLDFAST_SPARK"]))
    return _settings


def define() -> "None":
    """Called before the first line of the script."""
    import builtins

    for name in _OBTAIN:
        setattr(builtins, name, LazyName(name))
    try:
        _check_and_provide(os.environ["HOLDFAST_SPARK"])
    except Exception as problem:  # Python itself would print it and go on, without addresses and authentication
        from . import packages

        packages.refuse("Spark cannot be prepared: %s: %s" % (type(problem).__name__, problem))


def _check_and_provide(text: "str") -> "None":
    if '"memory_line"' in text or '"uses_spark"' in text:
        from . import early

        early.check(settings())
    if '"packages"' in text:  # the runs that have none do not parse it
        from . import packages

        packages.ensure(settings())
    if '"remote"' in text:
        os.environ.setdefault("SPARK_REMOTE", settings()["remote"])


def say(message: "str") -> "None":
    sys.stderr.write("holdfast: %s\n" % message)
    sys.stderr.flush()


class LazyName(object):
    """Stands for ``spark`` or ``sc`` and becomes it when it is used; the real one then takes its name."""

    __slots__ = ("_holdfast_name",)

    def __init__(self, name: "str") -> "None":
        object.__setattr__(self, "_holdfast_name", name)

    def __getattr__(self, name: "str") -> "Any":
        return getattr(_obtained(self), name)

    def __setattr__(self, name: "str", value: "Any") -> "None":
        setattr(_obtained(self), name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> "Any":
        """For ``isinstance``, which starts nothing."""
        module, name = _KINDS[object.__getattribute__(self, "_holdfast_name")]
        return getattr(sys.modules.get(module), name, LazyName)

    def __repr__(self) -> "str":
        return repr(_obtained(self))

    def __dir__(self) -> "list[str]":
        return dir(_obtained(self))

    def __enter__(self) -> "Any":
        return _obtained(self).__enter__()

    def __exit__(self, *problem: "Any") -> "Any":
        return _obtained(self).__exit__(*problem)


def _obtained(lazy: "LazyName") -> "Any":
    import builtins

    name = object.__getattribute__(lazy, "_holdfast_name")
    real = _OBTAIN[name]()
    if getattr(builtins, name, None) is lazy:
        setattr(builtins, name, real)
    return real


def _session() -> "Any":
    return _pyspark("pyspark.sql", "spark").SparkSession.builder.getOrCreate()


def _context() -> "Any":
    return _pyspark("pyspark", "sc").SparkContext.getOrCreate()


def _pyspark(module: "str", name: "str") -> "Any":
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as problem:
        text = "the script uses %s, but this Python (%s) cannot import pyspark (%s); add it to the project's packages"
        raise ImportError(text % (name, sys.executable, problem)) from None


_OBTAIN = {"spark": _session, "sc": _context}
_KINDS = {"spark": ("pyspark.sql", "SparkSession"), "sc": ("pyspark", "SparkContext")}
