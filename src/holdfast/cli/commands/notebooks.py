"""``holdfast notebook start``"""

from __future__ import annotations

import os
import shutil
import sys

from holdfast import project as projects
from holdfast.cli.commands.shell import local_python
from holdfast.errors import UsageError
from holdfast.project import remember
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed


def start(parsed: Parsed) -> int:
    """Become Jupyter: of the local runs' Python, else the one on the PATH."""
    project = remember(projects.find(parsed.text("project") or os.getcwd()))
    python, _ = local_python(open_home(), project)
    beside = shutil.which("jupyter", path=os.path.dirname(python)) if python else None
    jupyter = beside or shutil.which("jupyter")
    if jupyter is None:
        raise UsageError(
            "Jupyter is not installed in the project's environment and is not on the PATH",
            where=project.root,
            hint="holdfast env add jupyterlab; or pip install jupyterlab",
        )
    argv = [jupyter, _application(jupyter), "--port", "8888", *parsed.rest]
    os.chdir(project.root)
    sys.stdout.flush()
    if os.name != "nt":
        os.execv(jupyter, argv)
    import subprocess

    return subprocess.call(argv)


def _application(jupyter: str) -> str:
    """JupyterLab where it is installed, else the older notebook server."""
    return "lab" if shutil.which("jupyter-lab", path=os.path.dirname(jupyter)) else "notebook"
