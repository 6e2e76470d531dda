"""Files that a script hands over by name: they go below the run's outputs/, whatever the name says.

Paths are bytes, because Python 3.6 under LC_ALL=C cannot open ``é`` otherwise.
"""

import os
import posixpath
import sys

import holdfast


def place_for(name: "str") -> "bytes":
    """The path of outputs/<name>, with the folders on the way made."""
    path = _path_of(_inner_name(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def write_new(name: "str", ending: "str", content: "bytes") -> "str":
    """Write outputs/<name><ending>, or <name>-1 and so on where that is taken; returns the name it got."""
    stem = _inner_name(name)
    if stem.endswith(ending):
        stem = stem[: len(stem) - len(ending)]
    filename, number = stem + ending, 0
    while True:
        try:
            with open(place_for(filename), "xb") as target:
                target.write(content)
            return f"outputs/{filename}"
        except FileExistsError:
            number += 1
            filename = f"{stem}-{number}{ending}"


def name_within(path: "str") -> "str | None":
    """``outputs/...`` for a file that lies there already."""
    outputs = os.path.join(os.path.realpath(holdfast.outputs()), "")
    real = os.path.realpath(path)
    return "outputs/" + real[len(outputs) :].replace(os.sep, "/") if real.startswith(outputs) else None


def complain(what: "object", problem: "Exception") -> "None":
    try:
        sys.stderr.write(f"holdfast: cannot store {what!a}: {problem}; the script continues\n")
        sys.stderr.flush()
    except Exception:
        pass


def _inner_name(name: "str") -> "str":
    """The name as seen from outputs/: ``..`` ends there, and outputs/ in front, which many scripts write, is meant."""
    inner = posixpath.normpath("/" + str(name).replace("\\", "/")).lstrip("/")
    return inner[len("outputs/") :] if inner.startswith("outputs/") else inner


def _path_of(inner: "str") -> "bytes":
    return os.path.join(os.fsencode(holdfast.outputs()), inner.encode("utf-8", "surrogateescape"))
