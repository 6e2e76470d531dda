"""Runs one command, from its arguments to its exit code. All errors of Holdfast are caught here."""

from __future__ import annotations

import os
import sys

from holdfast.cli.parse import HelpWanted, Parsed, parse
from holdfast.cli.table.commands import COMMANDS
from holdfast.errors import Detached, HoldfastError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parse import Command

_PAGER = "holdfast.cli.pager"


def run(argv: Sequence[str], commands: Sequence[Command] = COMMANDS) -> int:
    try:
        code = _run_and_report(argv, commands)
        if _PAGER in sys.modules:
            sys.modules[_PAGER].finish()
        return code
    except KeyboardInterrupt:  # perhaps once more, while the first was being answered
        return 130


def _run_and_report(argv: Sequence[str], commands: Sequence[Command]) -> int:
    try:
        parsed = parse(commands, argv)
        if _is_paged(parsed) and "--no-pager" not in argv:
            from holdfast.cli import pager

            pager.start()
        return _help(parsed, commands) if isinstance(parsed, HelpWanted) else _run(parsed)
    except HoldfastError as error:
        return _report(error, "--debug" in argv)
    except BrokenPipeError:
        if _PAGER in sys.modules:  # the user has seen enough and left the pager
            return 0
        # The reader (head, less) has seen enough. Python must not complain about the same pipe again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        from holdfast.engine.system_errors import translate

        refused = translate(error)
        if refused is not None:
            return _report(refused, "--debug" in argv)
        if "--debug" in argv:
            raise
        from holdfast.present.terminal import show

        sys.stderr.write(f"ERROR: Holdfast itself failed: {show(f'{type(error).__name__}: {error}')}\n")
        sys.stderr.write("       please report it with what --debug prints\n")
        return 70


def _is_paged(parsed: Parsed | HelpWanted) -> bool:
    if isinstance(parsed, HelpWanted):
        return parsed.asked and sys.stdout.isatty()
    return parsed.command.paged and parsed.values.get("follow") is not True and sys.stdout.isatty()


def _run(parsed: Parsed) -> int:
    folder = parsed.values.get("project")
    if isinstance(folder, str) and not os.path.isdir(folder):
        raise UsageError("no such folder", where=folder, hint="--project takes the folder of a project")
    module, _, name = parsed.command.run.partition(":")
    __import__(module)
    code = getattr(sys.modules[module], name)(parsed)
    sys.stdout.flush()
    return int(code or 0)


def _help(wanted: HelpWanted, commands: Sequence[Command]) -> int:
    from holdfast.cli.help import print_help
    from holdfast.cli.table.topics import GROUPS, TOPICS

    print_help(wanted, commands, GROUPS, TOPICS, sys.stdout if wanted.asked else sys.stderr)
    return 0 if wanted.asked else 2


def _report(error: HoldfastError, debug: bool) -> int:
    """What, where, what was answered, what to try: on stderr, the first line beginning with ERROR:."""
    from holdfast.present.error_text import lines
    from holdfast.present.terminal import show

    head = "" if isinstance(error, Detached) else "ERROR: "
    first = "\n" if isinstance(error, Detached) else head  # after the ^C that a terminal shows
    indent = " " * len(head)
    for line in lines(error, indent):
        sys.stderr.write(f"{first}{line}\n")
        first = ""
    if debug:
        sys.stderr.write(f"{indent}code: {show(error.code)}\n")
        raise error
    return error.exit_code
