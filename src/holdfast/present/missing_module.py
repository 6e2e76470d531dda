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
_ADD_ANY = "holdfast env add PACKAGE adds the one that has the module"
# Modules that Python had until 3.11 or 3.12.
_REMOVED = re.compile(
    "aifc|asynchat|asyncore|audioop|cgi|cgitb|chunk|crypt|imghdr|imp|mailcap|nis|nntplib|ossaudiodev|pipes|smtpd|sndhdr"
    "|spwd|sunau|telnetlib|uu|xdrlib"
)
_PYTHON_2 = {
    "ConfigParser": "configparser",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "StringIO": "io",
    "Tkinter": "tkinter",
    "cPickle": "pickle",
    "httplib": "http.client",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
}
# Programs that come with a Python package, and its name.
_PROGRAMS = {
    "torchrun": "torch",
    "jupyter": "jupyter-core",
    "spark-submit": "pyspark",
    **{name: name for name in ("accelerate", "deepspeed", "dvc", "lightning", "mlflow", "papermill", "pytest", "ray")},
    **{name: name for name in ("snakemake", "streamlit", "tensorboard", "wandb")},
}
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
    plan = runs.read_plan(run) or {}
    own = _in_project(run, name) or _of_python(run, plan, name) or _of_installed(run, plan, name)
    if own:
        return own
    package = _PACKAGES.get(name, _PACKAGES.get(module, module))
    lacking, command = _mending(run, plan, package)
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
    near = _nearest_program(program, str(run.request.get("project_root") or ""))
    return f"did you mean {near}?" if near else ""


def _nearest_program(program: str, root: str) -> str:
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


def _in_project(run: Run, name: str) -> str:
    """A module of the project itself that the script does not find."""
    module = name.partition(".")[0]
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
            if name != module:  # Python found its package
                return _lacks_module(root, path, name)
            if os.path.dirname(script) != folder:
                again = f"holdfast submit -e PYTHONPATH={folder or '.'} {quote(script) if is_file else script}"
                return f"{path} is in the project, but not where {script} looks for modules\n  try: {again}"
    return "" if name in _PACKAGES else _misspelled(root, os.path.dirname(script) if is_file else "", module)


def _lacks_module(root: str, package: str, name: str) -> str:
    """Of a package of the project: the module that it lacks, and the nearest one."""
    parent, _, last = name.rpartition(".")
    inner = os.path.join(package, *parent.split(".")[1:])
    near = _nearest(last, list(_modules(os.path.join(root, inner))))
    return f"{package} is in the project, but has no module {name}" + (
        f"\n  did you mean {parent}.{near}?" if near else ""
    )


def _misspelled(root: str, folder: str, module: str) -> str:
    """A module beside the script with a similar name: no package of such a name is suggested."""
    modules = _modules(os.path.join(root, folder)) if root else {}
    near = _nearest(module, list(modules))
    if near in ("", module):  # it is there, and another process, on a server for example, lacked it
        return ""
    return (
        f"no module {module} was found\n  did you mean {near}? {os.path.join(folder, modules[near])} is in the project"
    )


def _modules(folder: str) -> dict[str, str]:
    """The modules in a folder, and the file or folder of each."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    is_package = (name for name in names if os.path.exists(os.path.join(folder, name, "__init__.py")))
    return {**{name[:-3]: name for name in names if name.endswith(".py")}, **{name: name for name in is_package}}


def _nearest(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, names, 1, 0.8)), "")


def _of_python(run: Run, plan: Json, name: str) -> str:
    """A module of another Python, or one that this Python was built without: no package has it."""
    top = name.partition(".")[0]
    if top in _PACKAGES:
        return ""
    lacking, _ = _mending(run, plan, top)
    if top in _PYTHON_2:
        return (
            f"{name} is a module of Python 2; in Python 3: {_PYTHON_2[top]}\n  change the import, or see holdfast check"
        )
    if _REMOVED.fullmatch(top) and name == top:
        return f"Python removed the module {name}, and {lacking} has it no more\n  try an older Python: --python PATH"
    if top not in sys.stdlib_module_names:
        return ""
    again = "; on Debian and Ubuntu: apt-get install python3-tk" if top in ("tkinter", "_tkinter") else ""
    return f"{name} is a part of Python that {lacking} lacks\n  try another Python: --python PATH{again}"


def _of_installed(run: Run, plan: Json, name: str) -> str:
    """A package that is installed and lacks this module: to add the package would change nothing."""
    from packaging.utils import canonicalize_name

    top = name.partition(".")[0]
    if top == name or name in _PACKAGES:
        return ""
    package = canonicalize_name(_PACKAGES.get(top, top))
    versions = package_list.versions(package_list.read(run) or {})
    installed = next((known for known in versions if canonicalize_name(known) == package), None)
    lacking, _ = _mending(run, plan, package)
    if installed is None:
        return f"the module {name} is not installed in {lacking}\n  several packages share the name {top}: {_ADD_ANY}"
    return (
        f"{installed} {versions[installed]} in {lacking} has no module {name}\n"
        f"  check the spelling, or declare a version of {installed} that has it"
    )


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
