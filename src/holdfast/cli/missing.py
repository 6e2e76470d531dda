"""When a script fails on a file that is in the project but not in its copy: which rule left it out, and what to do."""

from __future__ import annotations

import os
import re

from holdfast import ignore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.runs import Run

_TAIL = 65536
_COMPLAINTS = re.compile(
    rb"""No such file or directory: b?['"]([^'"\n]{1,1000})['"]|([^\s:'"]{1,1000}): No such file or directory"""
)


def explain(run: Run) -> str:
    root = str(run.request.get("project_root", ""))
    for named in reversed(_missed(os.path.join(run.attempt, "log"))):
        path = _inside(run, root, named)
        if path and os.path.lexists(os.path.join(root, path)):
            rule = ignore.explain(root, path)
            if rule is not None:
                top = path.split(os.sep)[0]
                what = f"{path} is in the project but was left out of the run's copy by {rule}"
                return f"{what}\n  --link {top} shows it there without copying"
    return ""


def _missed(log: str) -> list[str]:
    try:
        with open(log, "rb") as source:
            source.seek(max(0, os.path.getsize(log) - _TAIL))
            tail = source.read()
    except OSError:
        return []
    return [os.fsdecode(found[0] or found[1]) for found in _COMPLAINTS.findall(tail)]


def _inside(run: Run, root: str, named: str) -> str:
    """The path in the project that a script meant, whether it said it relative to its folder or in full."""
    work = os.path.join(run.attempt, "work")
    if os.path.isabs(named):
        named = os.path.relpath(named, work if named.startswith(work) else root)
    path = os.path.normpath(named)
    return "" if path.startswith(os.pardir) or os.path.isabs(path) else path
