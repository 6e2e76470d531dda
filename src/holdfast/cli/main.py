"""One command from its words to its exit code. Every error of ours is caught here and nowhere else."""

from __future__ import annotations

import os
import sys

from holdfast.cli.parse import HelpWanted, Parsed, parse
from holdfast.cli.table import COMMANDS, GROUPS
from holdfast.errors import Detached, HoldfastError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    try:
        return _run_and_report(argv)
    except KeyboardInterrupt:  # perhaps once more, while the first was being answered
        return 130


def _run_and_report(argv: Sequence[str]) -> int:
    try:
        parsed = parse(COMMANDS, argv)
        return _help(parsed) if isinstance(parsed, HelpWanted) else _run(parsed)
    except HoldfastError as error:
        return _report(error, "--debug" in argv)
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python must not complain about the same pipe again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        refused = _refused_as_untrusted(error) or _refused_by_a_lock(error) or _refused_by_the_disk(error)
        if refused is not None:
            return _report(refused, "--debug" in argv)
        if "--debug" in argv:
            raise
        sys.stderr.write(f"ERROR: Holdfast itself failed: {type(error).__name__}: {error}\n")
        sys.stderr.write("       please report it with what --debug prints\n")
        return 70


def _run(parsed: Parsed) -> int:
    module, _, name = parsed.command.run.partition(":")
    __import__(module)
    code = getattr(sys.modules[module], name)(parsed)
    sys.stdout.flush()
    return int(code or 0)


def _help(wanted: HelpWanted) -> int:
    from holdfast.cli.help import print_help

    print_help(wanted, COMMANDS, GROUPS, sys.stdout if wanted.asked else sys.stderr)
    return 0 if wanted.asked else 2


def _refused_as_untrusted(error: Exception) -> HoldfastError | None:
    """A value or file of a project, target or archive that was refused where it would have been used."""
    from holdfast.errors import ConfigError
    from holdfast.runner.untrusted import Untrusted

    return (
        ConfigError("a name or file from elsewhere was refused", answer=str(error))
        if isinstance(error, Untrusted)
        else None
    )


def _refused_by_a_lock(error: Exception) -> HoldfastError | None:
    from holdfast.runner.lock_wait import Held

    if not isinstance(error, Held):
        return None
    from holdfast.store.locks import locked

    return locked(os.fsdecode(error.filename), error.holders)


def _refused_by_the_disk(error: Exception) -> StoreError | None:
    """What a disk refuses is no bug of ours: it is full, read-only, forbidden or failing."""
    from errno import EACCES, EDQUOT, EIO, ENOSPC, EPERM, EROFS

    room = "holdfast du shows what takes room, holdfast store prune gives some back"
    elsewhere = "if it is in the store: set HOLDFAST_HOME to a folder you can write to"
    reasons = {
        ENOSPC: ("the disk is full", room),
        EDQUOT: ("your share of the disk is used up", room),
        EROFS: ("the disk is read-only", elsewhere),
        EACCES: ("this file or folder is not open to you", elsewhere),
        EPERM: ("this file or folder is not open to you", elsewhere),
        EIO: ("the disk fails", "save what you can; holdfast store verify tells what is damaged"),
    }
    if not isinstance(error, OSError) or error.errno not in reasons:
        return None
    what, hint = reasons[error.errno]
    where = "" if error.filename is None else os.fsdecode(error.filename)
    return StoreError(what, where=where, answer=os.strerror(error.errno), hint=hint)


def _report(error: HoldfastError, debug: bool) -> int:
    """What, where, what was answered, what to try: on stderr, the first line beginning with ERROR:."""
    from holdfast.cli.terminal import show

    head = "" if isinstance(error, Detached) else "ERROR: "
    sys.stderr.write(f"{head}{show(error.what)}\n")
    indent = " " * len(head)
    for label, text in (("at: ", error.where), ("answer: ", error.answer), ("try: ", error.hint)):
        for number, line in enumerate(text.splitlines()):
            sys.stderr.write(f"{indent}{label if not number else ' ' * len(label)}{show(line)}\n")
    if debug:
        raise error
    return error.exit_code
