"""``holdfast`` and ``python -m holdfast``."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Ends the process without Python's own tidying up, which takes longer than everything a small command does."""
    try:
        code = _main()
    except KeyboardInterrupt:  # while our own modules were still being read
        code = 130
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1
    os._exit(code)


def _main() -> int:
    if sys.argv[1:] == ["--version"]:
        from holdfast._version import __version__

        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    from holdfast.cli.conceal import conceal

    conceal(sys.argv[1:])
    from holdfast.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
