"""``holdfast shell``: the project, with ``az ml`` of ours and the ``python`` and ``pip`` of local runs."""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast.cli.confirm import choose
from holdfast.engine.runs import path_shims
from holdfast.environments import choice
from holdfast.environments.choice import is_managed
from holdfast.errors import HoldfastError, UsageError
from holdfast.present.terminal import show
from holdfast.project import remember
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Project
    from holdfast.store.home import Home
    from holdfast.target_lookup import Chosen

# Lines of a cmd listing that begin with REM are comments; as an alias, the rest of the line is not even parsed.
_COMMENTS = "alias REM='#' rem='#'\n"
_SHELLS = ("bash", "zsh", "fish", "sh", "dash", "pwsh", "powershell", "cmd")


def shell(parsed: Parsed) -> int:
    home = open_home()
    project = remember(projects.find(parsed.text("project") or os.getcwd()))
    python, managed = local_python(home, project)
    folder = path_shims.for_shell(home, project.id, python, managed=managed)
    env = {
        **os.environ,
        "PATH": folder + os.pathsep + os.environ.get("PATH", os.defpath),
        "HOLDFAST_SHELL": project.name,
    }
    command = list(parsed.rest) or _interactive(parsed.text("shell") or _users_shell(), folder, env)
    os.chdir(project.root)
    try:
        if os.name == "nt":
            import subprocess

            return subprocess.call(command, env=env)
        sys.stdout.flush()
        os.execvpe(command[0], command, env)
    except FileNotFoundError as error:
        raise UsageError(f"{command[0]} was not found", hint="use another one with --shell NAME") from error


def local_python(home: Home, project: Project) -> tuple[str | None, bool]:
    """The path of the Python of local runs, if it is not the one on the PATH, and whether Holdfast builds it."""
    local = choose(home.path, project.root, "local")
    selected = choice.choose(project.root, local.compute, local.config, "", choice.Wanted(), os.environ)
    if selected is not None:
        local = local._replace(compute=selected.compute)
    managed = is_managed(project.root, local.compute)
    python = _environment(home, project, local) if managed else None
    return python or _interpreter(local.compute.python_location), managed


def _environment(home: Home, project: Project, local: Chosen) -> str | None:
    """The python of what the project declares, where it is built."""
    from holdfast.cli.environments import Bench

    try:
        with Bench(home, project, local) as bench:
            description = bench.describe("")
    except HoldfastError as error:  # the user may want to correct it in this shell
        sys.stderr.write(f"WARNING: {show(str(error))}\n")
        return None
    return (
        os.path.join(home.environment(str(description["environment"])), "bin", "python")
        if description.get("built")
        else None
    )


def _interpreter(location: str | None) -> str | None:
    """Only a path changes what python is; the plain word means what it already means in this shell."""
    return os.path.expanduser(location) if location and os.path.dirname(location) else None


def _users_shell() -> str:
    return os.environ.get("COMSPEC", "cmd.exe") if os.name == "nt" else os.environ.get("SHELL", "/bin/sh")


def _interactive(program: str, folder: str, env: dict[str, str]) -> list[str]:
    """The shell with our folder first on its PATH even after the user's own start files have had their say."""
    name = os.path.splitext(os.path.basename(program))[0].lower()
    if name not in _SHELLS:
        raise UsageError(f"{program!r} is not a supported shell", hint=f"--shell one of: {', '.join(_SHELLS)}")
    if not sys.stdin.isatty():
        if name == "bash" and "BASH_ENV" not in env:
            text = "unset BASH_ENV\nshopt -s expand_aliases\n" + _COMMENTS
            env["BASH_ENV"] = _start_file(folder, "bash_env", text)
        return [program]
    if name == "bash":
        text = '[ -f ~/.bashrc ] && . ~/.bashrc\nPATH="{}:$PATH"\n' + _COMMENTS
        return [program, "--rcfile", _start_file(folder, "bashrc", text)]
    if name == "zsh":
        users = env.get("ZDOTDIR", os.path.expanduser("~"))
        text = f'ZDOTDIR="{users}"\n[ -f "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"\npath=("{{}}" $path)\n'
        text += "setopt interactivecomments\n" + _COMMENTS
        env["ZDOTDIR"] = os.path.dirname(_start_file(folder, "zsh/.zshrc", text))
        return [program]
    if name == "fish":
        comments = "abbr --add REM '#'; abbr --add rem '#'"  # expanded when the line is entered
        return [program, "--init-command", f"set -gx PATH '{folder}' $PATH; {comments}"]
    if name in ("pwsh", "powershell"):
        return [program, "-NoExit", "-Command", f"$env:PATH = '{folder}' + [IO.Path]::PathSeparator + $env:PATH"]
    return [program, "/K"] if name == "cmd" else [program]


def _start_file(folder: str, name: str, text: str) -> str:
    path = os.path.join(folder, "start", name)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as target:
        target.write(text.format(folder))
    return path
