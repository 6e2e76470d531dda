"""Names the limit of the operating system that stopped a process."""

import errno
import os
import sys

from ..decoding import readable

# What was refused: the limit, its name in the resource module, and the option of ulimit that shows it.
_BY_ERROR = {
    errno.EFBIG: ("file size", "RLIMIT_FSIZE", "-f"),
    errno.EMFILE: ("open files", "RLIMIT_NOFILE", "-n"),
    errno.EAGAIN: ("processes", "RLIMIT_NPROC", "-u"),
    errno.ENOMEM: ("memory", "RLIMIT_AS", "-v"),
}  # type: dict[int, tuple[str, str, str]]


def explain(error: "BaseException") -> "str":
    """The limit that this error comes from, its value, and how to see it; empty for any other error."""
    if isinstance(error, MemoryError):
        return _message(*_BY_ERROR[errno.ENOMEM])
    number = getattr(error, "errno", None)
    if number == errno.ENFILE:
        return "all open files that this machine allows are in use: sysctl fs.file-nr"
    if number not in _BY_ERROR or not isinstance(error, OSError):
        return ""
    return _message(*_BY_ERROR[number])


def told(error: "BaseException") -> "str":
    """The error with its paths, and with the limit behind it if there is one."""
    paths = [readable(os.fsencode(path)) for path in _paths(error)]
    return ": ".join([reason(error), *([" -> ".join(paths)] if paths else [])])


def reason(error: "BaseException") -> "str":
    """The same without paths."""
    explanation = explain(error)
    text = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return "%s (%s)" % (text, explanation) if explanation else text


def _paths(error: "BaseException") -> "list[bytes | str]":
    named = [getattr(error, name, None) for name in ("filename", "filename2")]
    return [path for path in named if isinstance(path, (bytes, str))]


def open_files() -> "int | None":
    """How many files this process may have open; None where there is no limit."""
    limit = _limit("RLIMIT_NOFILE")
    return int(limit) if limit.isdigit() else None


def _message(what: "str", name: "str", option: "str") -> "str":
    message = "limit on %s: %s, see ulimit %s" % (what, _limit(name), option)
    group = _pids_of_group() if name == "RLIMIT_NPROC" else ""
    return message + (", pids.max of the control group is %s" % group if group else "")


def _limit(name: "str") -> "str":
    if sys.platform == "win32":
        return "unknown"
    try:
        import resource

        soft = resource.getrlimit(getattr(resource, name))[0]
    except (ImportError, AttributeError, ValueError, OSError):  # too few descriptors left to load the module
        return "unknown"
    if soft == resource.RLIM_INFINITY:
        return "unlimited"
    return "%d bytes" % soft if name in ("RLIMIT_FSIZE", "RLIMIT_AS") else str(soft)


def _pids_of_group() -> "str":
    try:
        with open("/proc/self/cgroup") as source:
            paths = [line.rstrip("\n").split(":", 2) for line in source]
        for _, controllers, path in paths:
            if controllers in ("", "pids"):
                limit = os.path.join("/sys/fs/cgroup", controllers, path.lstrip("/"), "pids.max")
                with open(limit) as source:
                    return source.read(40).strip()
    except (OSError, ValueError):
        pass
    return ""
