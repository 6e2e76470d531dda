"""Reads the boot id, start times of processes and process trees from the operating system."""

import os
import sys

from ..decoding import escaped, readable

MYPY = False
if MYPY:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def boot_id() -> "str":
    """Changes with every boot of this machine, so that a pid from before a reboot is never used."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as source:
            return source.read().strip()
    except OSError:
        return _ask("sysctl", "-n", "kern.bootsessionuuid") or "unknown"


def boot_time() -> "str":
    """When this machine was booted, as text."""
    import time

    stamp = booted_at()
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(stamp)) if stamp else "an unknown time"


def booted_at() -> "int":
    """The same as seconds since 1970; 0 where this system does not tell."""
    try:
        with open("/proc/stat") as source:
            return next(int(line.split()[1]) for line in source if line.startswith("btime "))
    except (OSError, StopIteration, ValueError):
        return 0


def is_stopped(pid: "int") -> "bool":
    """Whether a signal or a debugger keeps the process from running."""
    if sys.platform.startswith("linux"):
        return _stat_fields(pid)[:1] in (["T"], ["t"])
    return _ask("ps", "-o", "stat=", "-p", str(pid))[:1] == "T"


def is_running(pid: "int", started: "object") -> "bool":
    """Whether the process with this start time is there and has not ended."""
    if not sys.platform.startswith("linux"):
        return bool(started) and start_time(pid) == started
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] not in ("Z", "X") and fields[19] == started


def start_time(pid: "int") -> "str":
    """When the process started, in whatever unit this system counts; empty if there is no such process."""
    if sys.platform.startswith("linux"):
        fields = _stat_fields(pid)
        return fields[19] if fields else ""
    return _ask("ps", "-o", "lstart=", "-p", str(pid))


def parents() -> "dict[int, int]":
    """pid -> parent pid of every process that is not a zombie."""
    if not sys.platform.startswith("linux"):
        rows = [line.split() for line in _ask("ps", "-axo", "pid=,ppid=,stat=").splitlines()]
        return {int(row[0]): int(row[1]) for row in rows if len(row) == 3 and not row[2].startswith("Z")}
    result = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat_fields(int(name))
            if fields and fields[0] != "Z":
                result[int(name)] = int(fields[1])
    return result


def descendants(root: "int", leave_out: "Callable[[int, int], bool] | None" = None) -> "list[int]":
    """Everything below a process that has not ended.

    Where ``leave_out`` says yes to a process and its parent, that process and all below it are not listed.
    """
    below = _children_by_kernel if _kernel_lists_children() else _children_by_walk()
    pids = []  # type: list[int]
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        children = [child for child in below(parent) if leave_out is None or not leave_out(child, parent)]
        pids += children
        waiting += children
    return pids


def children(parent: "int") -> "list[int]":
    """Direct children, with those that have ended and wait to be collected."""
    if _kernel_lists_children():
        return _listed_children(parent)
    if not sys.platform.startswith("linux"):
        rows = [line.split() for line in _ask("ps", "-axo", "pid=,ppid=").splitlines()]
        return [int(row[0]) for row in rows if row[1:] == [str(parent)]]
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if _stat_fields(pid)[1:2] == [str(parent)]]


def host_name() -> "str":
    return os.environ.get("COMPUTERNAME", "") if sys.platform == "win32" else os.uname().nodename


def program_of(pid: "int") -> "str":
    """The file that a process runs; empty where this system does not tell."""
    try:
        return escaped(os.fsencode(os.readlink("/proc/%d/exe" % pid)))
    except OSError:
        return ""


def command_of(pid: "int") -> "str":
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as source:
            return readable(source.read(200).replace(b"\0", b" ").strip())
    except OSError:
        return ""


def marked(variable: "bytes", value: "bytes") -> "list[int]":
    """Processes whose environment holds variable=value: how orphans are found when both watchers are gone."""
    wanted = variable + b"=" + value
    pids = []
    for name in os.listdir("/proc") if sys.platform.startswith("linux") else ():
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open("/proc/%s/environ" % name, "rb") as source:
                    if wanted in source.read().split(b"\0"):
                        pids.append(int(name))
            except OSError:
                continue
    return pids


def warm_up() -> "None":
    """Load what guardian and supervisor will need while the client is still busy; they inherit it."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None)


def adopt_orphans() -> "None":
    """Orphaned descendants become our children instead of init's, so that none can slip away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: "int") -> "None":
    """An additional safeguard only: it fires when the spawning thread ends, and grandchildren do not inherit it."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _kernel_lists_children() -> "bool":
    return os.path.exists("/proc/self/task/%d/children" % os.getpid())


def _children_by_kernel(pid: "int") -> "list[int]":
    return [child for child in _listed_children(pid) if (_stat_fields(child) or ["Z"])[0] != "Z"]


def _listed_children(pid: "int") -> "list[int]":
    """The children of one process, where the kernel keeps the list: a walk over all processes costs milliseconds."""
    pids = []  # type: list[int]
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, thread)) as source:
                pids += [int(word) for word in source.read().split()]
    except (OSError, ValueError):
        pass  # it has ended meanwhile; its children have another parent by now and are found there
    return pids


def _children_by_walk() -> "Callable[[int], list[int]]":
    children = {}  # type: dict[int, list[int]]
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    return lambda pid: children.get(pid, [])


def _prctl(option: "int", value: "int") -> "None":
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _stat_fields(pid: "int") -> "list[str]":
    try:
        with open("/proc/%d/stat" % pid, "rb") as source:
            text = source.read().decode("ascii", "replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def _ask(*argv: "str") -> "str":
    import subprocess

    try:
        return readable(subprocess.check_output(argv, stderr=subprocess.DEVNULL)).strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
