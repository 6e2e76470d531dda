"""``holdfast`` and ``python -m holdfast``."""

from __future__ import annotations

import sys


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        from holdfast._version import __version__

        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    from holdfast.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
