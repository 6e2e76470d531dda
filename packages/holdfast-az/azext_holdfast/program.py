"""Starts the ``holdfast`` program with the words of the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

from azext_holdfast import arguments

EXTENSION = "holdfast-az"
# Commands whose result is data: these print JSON if nothing else is configured, as all of the Azure CLI.
_DATA = ("list", "show", "last")
_FORMATS = {"yamlc": "yaml", "none": "json"}
_KEY = "holdfast"


def prepare(cli_ctx: Any, typed: list[str], row: dict[str, Any], words: list[str]) -> None:
    """Note what ``run`` will start; its own arguments have gone through the parser of the Azure CLI."""
    own, script = arguments.split(row, words)
    own = arguments.without(own, ("--subscription",), with_value=True)
    own = arguments.without(own, ("--only-show-errors",), with_value=False)
    asked = arguments.value_of(own, "--output", "-o")
    fmt = asked
    if asked is None and typed[-1] in _DATA:
        fmt = cli_ctx.config.get("core", "output", fallback="json")
    if fmt is not None:
        own = arguments.without(own, ("--output", "-o"), with_value=True)
        own = ["--output", _FORMATS.get(fmt, fmt), *own]
    cli_ctx.data[_KEY] = {"argv": [*typed, *own, *script], "is_quiet": fmt == "none"}


def run(cmd: Any, **kwargs: Any) -> None:  # noqa: ARG001 - the name that the Azure CLI expects
    """Become the ``holdfast`` program: its output, its exit code and its Ctrl-C are those of ``az``."""
    request = cmd.cli_ctx.data[_KEY]
    argv = [*_program(), *request["argv"]]
    sys.stdout.flush()
    sys.stderr.flush()
    if request["is_quiet"]:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if os.name == "nt" or "azext_interactive" in sys.modules:
        code = subprocess.call(argv)
        if code:
            sys.exit(code)
        return
    os.execv(argv[0], argv)


def _program() -> list[str]:
    """The program on the PATH, else the package of the Azure CLI's own Python, else where pip and pipx put programs."""
    found = shutil.which("holdfast")
    if found:
        return [found]
    from importlib.util import find_spec

    if find_spec("holdfast") is not None:
        return [sys.executable, "-I", "-m", "holdfast"]
    in_home = shutil.which("holdfast", path=os.path.join(os.path.expanduser("~"), ".local", "bin"))
    if in_home:
        return [in_home]
    from azure.cli.core.azclierror import UnclassifiedUserFault

    raise UnclassifiedUserFault(
        "the program holdfast, which runs this command, is not on the PATH",
        "install it: pip install holdfast; or put the folder it is in on the PATH",
    )
