"""``%load_ext holdfast``: ``%%submit`` runs a cell on a target, ``%runs`` shows runs, ``%azureml`` records cells."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast import project as projects
from holdfast.api import cell_sending, sending
from holdfast.api.history import runs
from holdfast.api.run_table import RunTable
from holdfast.api.script_submit import submit_words
from holdfast.engine.notebooks import cell_records
from holdfast.errors import HoldfastError, MalformedAnswerError, RemoteError, UsageError
from holdfast.present import error_text
from holdfast.present.terminal import EscapeFilter
from holdfast.script_api import cell_history
from holdfast.store.home import open_home

if TYPE_CHECKING:
    from holdfast.api.run_handle import Run
    from holdfast.api.script_submit import Options


def load(shell: Any) -> None:
    """Add the magics to an IPython shell, once."""
    if "submit" in shell.magics_manager.magics["cell"]:
        return
    magics = Magics(shell)
    shell.register_magic_function(magics.submit, "cell", "submit")
    shell.register_magic_function(magics.submit_help, "line", "submit")  # IPython refuses %%submit without a cell
    shell.register_magic_function(magics.runs, "line", "runs")
    if "azureml" not in shell.magics_manager.magics["line"]:  # a kernel on a target has it
        cell_history.install(shell, _Store())


class _Store:
    """Where the records of cells go."""

    def deliver(self, record: dict[str, Any]) -> None:
        name = os.path.basename(os.environ.get("JPY_SESSION_NAME", "")) or "notebook"
        notebook = cell_records.Notebook(name, "local", "local")
        cell_records.add(open_home(), projects.find(os.getcwd()), notebook, cell_records.read("local", record))


class Magics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def submit(self, line: str, cell: str) -> Any:
        """Run the cell as a run on a target; ``%submit --help`` lists the options."""
        try:
            options = _parsed(_submit_parser(), line)
            return None if options is None else self._submit(options, cell)
        except HoldfastError as error:
            raise _without_traceback(error) from None

    def submit_help(self, line: str) -> None:
        """``%submit --help`` lists the options of ``%%submit``."""
        try:
            if _parsed(_submit_parser(), line) is not None:
                hint = "%%submit and its options in the first line of a cell, and the code below it"
                raise UsageError("%submit has no cell to run", hint=hint)
        except HoldfastError as error:
            raise _without_traceback(error) from None

    def runs(self, line: str) -> RunTable | None:
        """The runs of the project as a table: ``%runs -n 10 accuracy > 0.9``."""
        try:
            options = _parsed(_runs_parser(), line, posix=False)  # the quotes belong to the expression
            if options is None:
                return None
            where = " ".join(options.where) or None
            return RunTable(runs(where, sort=options.sort, limit=options.limit, all_projects=options.all))
        except HoldfastError as error:
            raise _without_traceback(error) from None

    def _submit(self, options: argparse.Namespace, cell: str) -> Any:
        if "get_ipython()" in self._shell.transform_cell(cell):
            hint = "magics and ! commands work in this notebook only; use subprocess or a script"
            raise UsageError("the cell cannot be submitted: it uses a magic or a ! command", hint=hint)
        cell_sending.check(cell)
        hidden = set(self._shell.user_ns_hidden)
        namespace = {name: value for name, value in self._shell.user_ns.items() if name not in hidden}
        send, returns = _names(options.send), _names(options.get)
        root = projects.find(os.getcwd()).root
        files = cell_sending.files(cell, namespace, send, returns, root)
        run = submit_words((f"{sending.FOLDER}/{cell_sending.NAME}",), files, _submit_options(options))
        if options.no_wait:
            sys.stdout.write(f"submitted as run {run.number}\n")
            return run
        return self._followed(run, returns, is_shown=not cell.rstrip().endswith(";"))

    def _followed(self, run: Run, returns: list[str], *, is_shown: bool) -> Any:
        """The last value, unless the cell ends with a semicolon, as in IPython."""
        shown = EscapeFilter()  # what a target prints must not act on the terminal of IPython
        try:
            for text in run.follow():
                sys.stdout.write(shown.feed(f"{text}\n".encode(errors="replace")).decode())
        except KeyboardInterrupt:
            number = run.number
            sys.stdout.write(f"run {number} continues; holdfast.run({number}).cancel() ends it\n")
            return run
        variables, value = _checked(run, returns)
        self._shell.user_ns.update(variables)
        if not is_shown:
            return None
        if "text" in value:
            last = f"{value['text']}\n".encode(errors="replace")
            sys.stdout.write(shown.feed(last).decode())
        return value.get("value")


def _checked(run: Run, returns: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables that were asked for, so that a target replaces no others in the notebook, and the last value."""
    result = run.result()
    variables, last = (result.get(name) if isinstance(result, dict) else None for name in ("variables", "last"))
    if isinstance(variables, dict) and isinstance(last, dict) and set(variables) == set(returns):
        return variables, last
    what = "it is not the value of a cell with the variables that --get names"
    raise MalformedAnswerError("the target sent a malformed result", where=run.id, answer=what)


def _submit_options(options: argparse.Namespace) -> Options:
    return {
        "config": options.config,
        "gpus": options.gpus,
        "wait_for_gpu": options.wait_for_gpu,
        "require_gpu": options.require_gpu,
        "environment": options.env,
        "python": options.python,
        "timeout": options.timeout,
        "secrets": options.secret,
        "env": dict(map(_variable, options.variable)),
        "data": dict(map(_data, options.data)),
        "large": options.large,
        "progress": True,
    }


def _variable(text: str) -> tuple[str, str]:
    """NAME=VALUE, or NAME for its value in this process, as ``holdfast submit -e`` takes them."""
    name, equals, value = text.partition("=")
    if not equals and name not in os.environ:
        raise UsageError(f"-e {name}: {name} is not set in this process", hint=f"-e {name}=VALUE")
    return name, value if equals else os.environ[name]


def _data(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    return (name, path) if equals else (os.path.basename(os.path.normpath(text)), text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint=self.format_usage().strip())

    def exit(self, _status: int = 0, _message: str | None = None) -> NoReturn:
        raise _HelpShown


class _HelpShown(Exception):
    """``--help`` was given."""


def _parsed(parser: _Parser, line: str, *, posix: bool = True) -> argparse.Namespace | None:
    try:
        return parser.parse_args(shlex.split(line, posix=posix))
    except _HelpShown:
        return None
    except ValueError as error:
        raise UsageError(f"{parser.prog}: {error}") from error


def _submit_parser() -> _Parser:
    parser = _Parser("%%submit", description="Run the cell as a run on a target.")
    parser.add_argument("-c", dest="config", metavar="NAME", help="run configuration or target; default: local")
    parser.add_argument("--send", action="append", default=[], metavar="NAMES", help="variables the cell uses: a,b")
    parser.add_argument("--get", action="append", default=[], metavar="NAMES", help="variables that come back: a,b")
    parser.add_argument("--no-wait", action="store_true", help="return the run at once")
    parser.add_argument("--gpus", metavar="N", help="reserve this many GPUs")
    parser.add_argument("--wait-for-gpu", metavar="TIME")
    parser.add_argument("--require-gpu", action="store_true")
    parser.add_argument("--env", metavar="project|active|none")
    parser.add_argument("--python", metavar="PATH")
    parser.add_argument("--timeout", metavar="TIME")
    parser.add_argument("--secret", action="append", default=[], metavar="NAME")
    parser.add_argument("-e", dest="variable", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--data", action="append", default=[], metavar="NAME=PATH", help="data that the cell reads")
    parser.add_argument("--large", action="store_true", help="store more than 1 GB of new files")
    return parser


def _runs_parser() -> _Parser:
    parser = _Parser("%runs", description="Show the runs of the project.")
    parser.add_argument("where", nargs="*", help="as holdfast history list --where")
    parser.add_argument("-n", dest="limit", type=int, default=20, metavar="N")
    parser.add_argument("--sort", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="of all projects")
    return parser


def _names(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _without_traceback(error: HoldfastError) -> HoldfastError:
    """IPython asks an exception how to show it: without a traceback of our code. A cell's own is in the log."""
    text = str(error) if isinstance(error, RemoteError) else "\n  ".join(error_text.lines(error))
    shown = [f"{type(error).__name__}: {text}"]
    error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    return error
