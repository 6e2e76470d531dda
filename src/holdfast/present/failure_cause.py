"""Finds why a script failed from its last lines: a missing module, an ignored file, a full disk or another limit."""

from __future__ import annotations

import os
import re
from shlex import quote

from holdfast.runner.decoding import readable
from holdfast.runner.store import layout
from holdfast.snapshot import ignore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.runs import Run

_TAIL = 65536
_UP = os.pardir + os.sep
_COMPLAINTS = re.compile(
    rb"""No such file or directory: b?['"]([^'"\n]{1,1000})['"]|([^\s:'"]{1,1000}): No such file or directory"""
)
# What Python and the C library say last when a limit ends a program, and the option of ulimit that shows the limit.
_LAST = 1000
_LONGEST_SCRIPT = 1 << 20
# As argparse and click say it.
_UNRECOGNIZED = re.compile(rb"error: unrecognized arguments: (.+)|No such option:? '?(-[-\w]+)")
_NO_SPACE = re.compile(rb"\[Errno (?:28|122)\]|No space left on device|Disk quota exceeded")
_LIMITS = (
    (re.compile(rb"\[Errno 27\]|File too large"), "file size", "-f"),
    (re.compile(rb"\[Errno 24\]|Too many open files"), "open files", "-n"),
    (re.compile(rb"can't start new thread|\[Errno 11\]|fork: Resource temporarily unavailable"), "processes", "-u"),
    (re.compile(rb"^MemoryError|\[Errno 12\]|std::bad_alloc", re.MULTILINE), "memory", "-v"),
)


# Names that scripts of Framework PySpark had without an import.
_OF_SPARK = re.compile(rb"NameError: (?:global )?name '(spark|sc|sqlContext)' is not defined")


def explain(run: Run) -> str:
    last = _tail(layout.log(run.attempt))[-_LAST:]
    if not last and run.request.get("command"):
        from holdfast.present import missing_module

        return missing_module.explain_program(run)
    if b"No module named" in last:
        from holdfast.present import missing_module

        hint = missing_module.explain(run, last)
        if hint:
            return hint
    if b"cannot open shared object file" in last:
        from holdfast.present import missing_library

        hint = missing_library.explain(run, last)
        if hint:
            return hint
    return _left_out(run) or _full(run, last) or _limited(last) or _without_spark(run, last)


def _without_spark(run: Run, last: bytes) -> str:
    name = _OF_SPARK.search(last)
    if name is None:
        return ""
    text = f"{name[1].decode()} is there without an import only in runs with Framework: PySpark\n"
    return f"{text}  write it in aml_config/{run.request.get('config')}.runconfig, or make a session in the script"


def unrecognized(run: Run) -> list[str]:
    """The arguments that a script refused because it does not know them."""
    match = _UNRECOGNIZED.search(_tail(layout.log(run.attempt))[-_LAST:])
    return readable(match[1] or match[2]).split() if match else []


def _full(run: Run, last: bytes) -> str:
    stopped = (str(event.get("why")) for event in run.events if event.get("type") == "log_stopped")
    if not _NO_SPACE.search(last + "\n".join(stopped).encode()):
        return ""
    from holdfast.engine.system_errors import room_hint

    target = str(run.request.get("target") or "local")
    return f"the disk of {target} was full, or a quota was reached\n  {room_hint(target)}"


def _limited(last: bytes) -> str:
    for complaint, what, option in _LIMITS:
        if complaint.search(last):
            return f"the limit on {what} may have ended it: ulimit {option} on the target shows the limit"
    return ""


def _left_out(run: Run) -> str:
    root = str(run.request.get("project_root", ""))
    for named in reversed(_missed(layout.log(run.attempt))):
        path = _relative(run, root, named)
        if not path or not os.path.lexists(os.path.join(root, path)):
            elsewhere = _only_here(run, named) if os.path.isabs(named) else _beside_script(run, root, named)
            if elsewhere:
                return elsewhere
            continue
        if path.startswith(_UP):
            return _outside(path)
        rule = ignore.explain(root, path)
        if rule is not None:
            return f"{path} is in the project but was excluded from the run by {rule}\n  {_bring(run, path)}"
    return ""


def _beside_script(run: Run, root: str, named: str) -> str:
    """A path as it is seen from the folder of the script."""
    folder = os.path.dirname(str(run.request.get("script") or ""))
    path = os.path.normpath(os.path.join(folder, named))
    if not folder or path.startswith(_UP) or not os.path.lexists(os.path.join(root, path)):
        return ""
    return (
        f"{named} was looked for in the folder of the project, where every run starts; {path} is in the project\n"
        f"  name it {path}, or begin the path with os.path.dirname(__file__)"
    )


def _only_here(run: Run, named: str) -> str:
    """A file that another machine lacks. A target must not make a user send files: only what the script names."""
    if "reached_by" not in run.request or not os.path.lexists(named) or not _is_in_script(run, named):
        return ""
    return (
        f"{named} is on this machine, but not on {run.request.get('target')}\n"
        f"  send it with --data NAME={quote(named)}; the script finds it at data/NAME"
    )


def _is_in_script(run: Run, named: str) -> bool:
    arguments = run.request.get("arguments")
    if isinstance(arguments, list) and any(named in str(argument) for argument in arguments):
        return True
    try:
        with open(os.path.join(str(run.request.get("project_root")), str(run.request.get("script"))), "rb") as source:
            return os.fsencode(named) in source.read(_LONGEST_SCRIPT)
    except OSError:
        return False


def _bring(run: Run, path: str) -> str:
    """The option that gives a run what the snapshot leaves out: a link leads nowhere on another machine."""
    if "reached_by" not in run.request:
        return f"use --link {quote(path.split(os.sep, maxsplit=1)[0])} to link it instead of copying"
    root = str(run.request.get("project_root", ""))
    parts = path.split(os.sep)
    folders = (os.sep.join(parts[:depth]) for depth in range(1, len(parts)))
    excluded = next((folder for folder in folders if ignore.explain(root, folder)), path)
    return f"use --data {quote(excluded)} to send it once and have it there at the same path"


def _missed(log: str) -> list[str]:
    return [os.fsdecode(groups[0] or groups[1]) for groups in _COMPLAINTS.findall(_tail(log))]


def _tail(log: str) -> bytes:
    try:
        with open(log, "rb") as source:
            source.seek(max(0, os.path.getsize(log) - _TAIL))
            return source.read()
    except OSError:
        return b""


def _outside(path: str) -> str:
    *up, name = path.split(_UP)
    above = "the folder above" if len(up) == 1 else f"{len(up)} folders above"
    return (
        f"{path} is outside the project, and a run has a copy of the project only\n"
        f"  submit from {above}, where it is {name}"
    )


def _relative(run: Run, root: str, named: str) -> str:
    """The path that a script meant, relative to the project, whether it said it so or in full."""
    work = layout.worked_in(run.attempt)
    if named.startswith(work):
        named = os.path.relpath(named, work)
    elif os.path.isabs(named):
        named = os.path.relpath(named, root)
        return "" if named.startswith(_UP) else named
    return os.path.normpath(named)
