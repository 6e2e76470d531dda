"""Explains a module or program that was not found: which Python lacks it, and the command that adds it."""

from __future__ import annotations

import os
import re
import sys
from shlex import quote

from holdfast import kinds
from holdfast.snapshot import ignore
from holdfast.store import package_list, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.runs import Run

_COMPLAINT = re.compile(  # of an import, and in two forms of ``python -m``
    rb"(?:(?:^|\()(?:ModuleNotFoundError|ImportError)|^\S{0,500}python[\w.]{0,20}): "
    rb"No module named '?([A-Za-z_][\w.]{0,200})",
    re.MULTILINE,
)
# Packages that have another name than their module.
_PACKAGES = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "git": "GitPython",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
    "PIL": "Pillow",
    "attr": "attrs",
    "OpenSSL": "pyOpenSSL",
    "Crypto": "pycryptodome",
    "google.protobuf": "protobuf",
    "pytorch_lightning": "pytorch-lightning",
    "umap": "umap-learn",
    "faiss": "faiss-cpu",
    **dict.fromkeys(("distutils", "pkg_resources"), "setuptools"),
    **dict.fromkeys(("nbclient", "ipykernel", "nbformat"), "nbclient ipykernel"),  # for notebooks, which need both
}
# Programs that come with a Python package, and its name.
_PROGRAMS = {
    "torchrun": "torch",
    "jupyter": "jupyter-core",
    "spark-submit": "pyspark",
    **{name: name for name in ("accelerate", "deepspeed", "dvc", "lightning", "mlflow", "papermill", "pytest", "ray")},
    **{name: name for name in ("snakemake", "streamlit", "tensorboard", "wandb")},
}
# Of the standard library up to Python 3.11 or 3.12; a package of that name is another one.
_REMOVED = frozenset(("asynchat", "asyncore", "audioop", "cgi", "crypt", "imghdr", "imp", "nntplib", "pipes", "smtpd"))
_SCRIPTS = (".py", ".sh", ".ipynb")
_NOT_FOUND = 127
_EDITED_BY_US = (".txt", ".yml", ".yaml")


def explain(run: Run, last: bytes) -> str:
    """``last`` are the last lines of the log of a run that failed; empty where they tell of no missing module."""
    modules = _COMPLAINT.findall(last)
    if not modules:
        return ""
    name = modules[-1].decode("ascii", "replace")
    module = name.partition(".")[0]
    own = _in_project(run, module)
    if own:
        return own
    plan = runs.read_plan(run) or {}
    package = _PACKAGES.get(name, _PACKAGES.get(module, module))
    lacking, command = _mending(run, plan, package)
    if module not in _PACKAGES and (module in sys.stdlib_module_names or module in _REMOVED):
        why = f"the module {name} of Python's standard library is missing in {lacking}: its version has it no longer"
        return f"{why}, or it was built or installed without it\n  try another one: --python PATH"
    text = f"the module {name} is not installed in {lacking}\n  add it with: {command}"
    spark = plan.get("spark")
    if isinstance(spark, dict) and spark.get("remote"):
        text += "\n  if a task on the Spark Connect server lacked it, install it there"
    return text


def explain_program(run: Run) -> str:
    """Of a run that printed nothing; empty where its program was found."""
    command = run.request.get("command")
    program = str(command[0]) if isinstance(command, list) and command else ""
    closed = next((event for event in run.events if event.get("type") == "closed"), {})
    if closed.get("exit_code") != _NOT_FOUND or not program or "/" in program or program.startswith("-"):
        return ""
    if program in _PROGRAMS:
        _, add = _mending(run, runs.read_plan(run) or {}, _PROGRAMS[program])
        return f"{program} comes with a Python package; add it with: {add}"
    near = _nearest(program, str(run.request.get("project_root") or ""))
    return f"did you mean {near}?" if near else ""


def _nearest(program: str, root: str) -> str:
    """A script at the top of the project or a known program with a similar name."""
    from difflib import get_close_matches

    try:
        files = [name for name in os.listdir(root) if name.endswith(_SCRIPTS)] if root else []
    except OSError:
        files = []
    by_name = {**{name: name for name in _PROGRAMS}, **{name.rpartition(".")[0]: name for name in files}}
    by_name.update((name, name) for name in files)
    matches = get_close_matches(program, by_name, 1, 0.75)
    return by_name[matches[0]] if matches else ""


def _in_project(run: Run, module: str) -> str:
    """A module of the project itself that the script does not find."""
    root = str(run.request.get("project_root") or "")
    script = str(run.request.get("script") or "")
    is_file = not script.startswith("-m ")
    for folder in ("", "src"):
        for path in (os.path.join(folder, f"{module}.py"), os.path.join(folder, module)):
            if not root or not os.path.exists(os.path.join(root, path)):
                continue
            rule = ignore.explain(root, path)
            if rule is not None:
                add = f"\n  include it with this line in .amlignore: !{path}" if rule.file else ""
                return f"{path} is in the project but was excluded from the run by {rule}{add}"
            if os.path.dirname(script) != folder:
                again = f"holdfast submit -e PYTHONPATH={folder or '.'} {quote(script) if is_file else script}"
                return f"{path} is in the project, but not where {script} looks for modules\n  try: {again}"
    return ""


def _mending(run: Run, plan: Json, package: str) -> tuple[str, str]:
    """What lacks the package, and the command that adds it."""
    environment, interpreter = plan.get("environment"), plan.get("interpreter")
    config, argv = str(run.request.get("config") or "local"), plan.get("argv")
    planned = str(plan.get("python") or (argv[0] if isinstance(argv, list) and argv else "python"))
    recorded = package_list.interpreter(run) or {}
    python = str(recorded.get("path") or planned)
    origin = interpreter.get("origin") if isinstance(interpreter, dict) else None
    add = f"holdfast env add {package}" + (f" -c {quote(config)}" if config != "local" else "")
    if isinstance(environment, dict):
        source = str(environment.get("source"))
        return f"the environment of {source}", add if source.endswith(_EDITED_BY_US) else _by_uv(source, package)
    if origin in ("target", "project") or (origin is None and plan.get("container")):
        return python, f"{add}, which declares it for the next submit"
    if origin == "path" and recorded and not recorded.get("kind"):
        return python, f"{add}, and submit without --python"  # pip refuses to change a Python of the system
    is_remote = kinds.of(str(run.request.get("kind") or kinds.DEFAULT)).is_remote
    there = f" (on {run.request.get('target')})" if is_remote else ""
    return python, f"{_installer(run, python)} {package}{there}"


def _installer(run: Run, python: str) -> str:
    """Environments that uv made have no pip."""
    packages = package_list.read(run)
    if packages is not None and "pip" not in package_list.versions(packages):
        return f"uv pip install --python {quote(python)}"
    return f"{quote(python)} -m pip install"


def _by_uv(source: str, package: str) -> str:
    if os.path.basename(source) == "pyproject.toml":
        return f"uv add {package}, or write it under dependencies in {source}"
    if source.endswith(".toml") or source == "uv.lock":
        return f"uv add {package}"
    return f"uv add --script {quote(source)} {package}"
