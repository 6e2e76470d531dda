"""Counts the client's modules that a local submit runs through: ``python tools/trace_submit.py [FOLDER/src]``.

One ``holdfast submit -c local`` of an empty script runs in this process under ``sys.setprofile``, a second one after a
first has installed the runner. Only functions of the client count: no imports, no standard library, and not
``holdfast.runner``, which also runs on targets. With an argument the package of another checkout is traced. Use the
same Python for both: comprehensions are functions of their own before 3.12.

    modules    modules of which a function was called
    switches   successive calls of functions in different modules
    crossings  switches between the packages cli and engine

The counts vary by a few with the time that the target takes to answer.
"""

from __future__ import annotations

import inspect
import itertools
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "src").resolve()


def main() -> int:
    sys.path.insert(0, str(SOURCE))
    submit = ["submit", "-c", "local", "train.py"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOLDFAST_HOME"] = os.path.join(folder, "store")
        project = Path(folder, "project")
        project.mkdir()
        project.joinpath("train.py").write_text("", encoding="utf-8")
        os.chdir(project)
        first = [sys.executable, "-m", "holdfast", *submit]
        subprocess.run(first, env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=True, capture_output=True)
        sys.argv[1:] = submit
        steps = _traced(submit)
        os.chdir("/")
    switches = [(before, after) for before, after in itertools.pairwise(steps) if before != after]
    crossings = [step for step in switches if {_package(module) for module in step} == {"cli", "engine"}]
    print(f"modules {len(set(steps))}, switches {len(switches)}, crossings between cli and engine {len(crossings)}")
    for module in dict.fromkeys(steps):
        print(f"  {module}")
    return 0


def _traced(argv: list[str]) -> list[str]:
    """The modules in the order of their calls."""
    from holdfast.cli.main import run

    steps: list[str] = []
    names: dict[str, str | None] = {}

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            name = _module(frame, names)
            steps.extend([name] if name is not None else [])

    with open(os.devnull, "w", encoding="utf-8") as sink, redirect_stdout(sink), redirect_stderr(sink):
        sys.setprofile(on_event)
        try:
            code = run(argv)
        finally:
            sys.setprofile(None)
    if code != 0:
        raise SystemExit(f"the submit failed with exit code {code}")
    return steps


def _module(frame: FrameType | None, names: dict[str, str | None]) -> str | None:
    """The client's module that a frame is in; None for imports and for everything else."""
    if frame is None or _is_importing(frame):
        return None
    path = frame.f_code.co_filename
    if path not in names:
        inside = path.startswith(str(SOURCE / "holdfast") + os.sep)
        name = Path(path).relative_to(SOURCE / "holdfast").with_suffix("").as_posix() if inside else ""
        names[path] = name if name and not name.startswith("runner/") else None
    return names[path]


def _is_importing(frame: FrameType | None) -> bool:
    """Whether the frame is the body of a module or class, or was called by one."""
    while frame is not None and frame.f_code.co_name != "_traced":
        if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return True
        frame = frame.f_back
    return False


def _package(module: str) -> str:
    return module.partition("/")[0]


if __name__ == "__main__":
    sys.exit(main())
