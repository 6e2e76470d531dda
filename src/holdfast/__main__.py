"""``holdfast`` and ``python -m holdfast``."""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

OUTPUT = "<stdout>"


def main() -> NoReturn:
    """Ends the process without Python's own cleanup, which takes longer than everything a small command does."""
    _open_closed_streams()
    try:
        code = _main()
    except KeyboardInterrupt:  # while our own modules were still being read
        code = 130
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            code = code or _report(error)
    os._exit(code)


def _main() -> int:
    if sys.argv[1:] == ["--version"]:
        from holdfast._version import __version__

        try:
            sys.stdout.write(f"holdfast {__version__}\n")
        except OSError as error:
            return _report(error)
        return 0
    try:
        from holdfast.cli.conceal import conceal
        from holdfast.cli.main import run
    except (EOFError, ValueError, TypeError):
        from holdfast.bytecode import remove_damaged

        if not remove_damaged():
            raise
        from holdfast.cli.conceal import conceal
        from holdfast.cli.main import run
    conceal(sys.argv[1:])
    return run(sys.argv[1:])


def _open_closed_streams() -> None:
    """Where a caller closed one of the three streams, Python has none and a file of ours would get its number.

    Standard output is opened for reading: a write to it fails, as it does on a closed descriptor, and is reported.
    """
    for fd, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)  # the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _Output.in_place_of(sys.stdout, neutralised=sys.stdout.isatty())
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Output.in_place_of(sys.stderr, neutralised=True)
        sys.stderr.may_fail = True


class _Output(io.TextIOWrapper):
    """A stream whose errors say that they are about it, and which any encoding can take.

    With ``neutralised``, characters of foreign text that act on a terminal are written as escapes. With ``may_fail``,
    text that cannot be written is dropped: messages for a person decide nothing about the exit code.
    """

    neutralised = False
    may_fail = False

    @classmethod
    def in_place_of(cls, stream: io.TextIOWrapper, *, neutralised: bool) -> _Output:
        encoding, errors, lines = stream.encoding, stream.errors, stream.line_buffering
        if encoding.lower() not in ("utf-8", "utf8"):
            errors = "backslashreplace"
        through = stream.write_through
        made = cls(stream.detach(), encoding, errors, line_buffering=lines, write_through=through)
        made.neutralised = neutralised
        return made

    def write(self, text: str) -> int:
        if self.neutralised and not (text.isascii() and text.replace("\n", "").isprintable()):
            from holdfast.present.terminal import neutralise

            text = neutralise(text)
        try:
            return super().write(text)
        except OSError as error:
            if self.may_fail:
                return len(text)
            error.filename = OUTPUT
            raise

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            if self.may_fail:
                return
            error.filename = OUTPUT
            raise


def _report(error: OSError) -> int:
    try:
        sys.stderr.write(f"ERROR: standard output cannot be written\n       answer: {error.strerror}\n")
        sys.stderr.flush()
    except OSError:
        pass
    return 74  # as StoreError


if __name__ == "__main__":
    main()
