"""Finds why a script failed from its last lines: a missing module, an ignored file, or a limit of the system."""

from __future__ import annotations

import os
import re

from holdfast.runner.store import layout
from holdfast.snapshot import ignore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.runs import Run

_TAIL = 65536
_COMPLAINTS = re.compile(
    rb"""No such file or directory: b?['"]([^'"\n]{1,1000})['"]|([^\s:'"]{1,1000}): No such file or directory"""
)
# What Python and the C library say last when a limit ends a program, and the option of ulimit that shows the limit.
_LAST = 1000
_LIMITS = (
    (re.compile(rb"\[Errno 27\]|File too large"), "file size", "-f"),
    (re.compile(rb"\[Errno 24\]|Too many open files"), "open files", "-n"),
    (re.compile(rb"can't start new thread|\[Errno 11\]|fork: Resource temporarily unavailable"), "processes", "-u"),
    (re.compile(rb"^MemoryError|\[Errno 12\]|std::bad_alloc", re.MULTILINE), "memory", "-v"),
)


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
    return _left_out(run) or _limited(last)


def _limited(last: bytes) -> str:
    for complaint, what, option in _LIMITS:
        if complaint.search(last):
            return f"the limit on {what} may have ended it: ulimit {option} on the target shows the limit"
    return ""


def _left_out(run: Run) -> str:
    root = str(run.request.get("project_root", ""))
    for named in reversed(_missed(layout.log(run.attempt))):
        path = _inside(run, root, named)
        if path and os.path.lexists(os.path.join(root, path)):
            rule = ignore.explain(root, path)
            if rule is not None:
                top = path.split(os.sep)[0]
                what = f"{path} is in the project but was excluded from the run by {rule}"
                return f"{what}\n  use --link {top} to link it instead of copying"
    return ""


def _missed(log: str) -> list[str]:
    return [os.fsdecode(groups[0] or groups[1]) for groups in _COMPLAINTS.findall(_tail(log))]


def _tail(log: str) -> bytes:
    try:
        with open(log, "rb") as source:
            source.seek(max(0, os.path.getsize(log) - _TAIL))
            return source.read()
    except OSError:
        return b""


def _inside(run: Run, root: str, named: str) -> str:
    """The path in the project that a script meant, whether it said it relative to its folder or in full."""
    work = layout.work(run.attempt)
    if os.path.isabs(named):
        named = os.path.relpath(named, work if named.startswith(work) else root)
    path = os.path.normpath(named)
    return "" if path.startswith(os.pardir) or os.path.isabs(path) else path
