"""``pip`` in the shell of a managed project: ``pip install X`` becomes a line of the file that declares it.

An environment is named by its content and shared by runs, so nothing is ever installed into one by hand.
"""

from __future__ import annotations

import os
import sys

_READING = ("list", "freeze", "show", "check", "tree")
_NEEDLESS = ("-U", "--upgrade", "-q", "--quiet", "--user")


def main() -> int:
    python, argv = sys.argv[1], sys.argv[2:]
    if argv[:1] == ["install"]:
        return _add([word for word in argv[1:] if word not in _NEEDLESS])
    if argv[:1] and argv[0] in _READING:
        return _read(python, argv)
    return _refuse(
        f"pip {' '.join(argv[:1])}", "the environments of this project are built from its files; see holdfast env -h"
    )


def _add(packages: list[str]) -> int:
    option = next((word for word in packages if word.startswith("-")), None)
    if option is not None or not packages:
        command = f"pip install {option or ''}".strip()
        return _refuse(command, "add it to the file that holdfast env show prints")
    from holdfast.cli.main import run

    code = run(["env", "add", *packages])
    if code == 0:
        sys.stderr.write("the next run uses it; to build it now: holdfast experiment prepare\n")
    return code


def _read(python: str, argv: list[str]) -> int:
    from holdfast.runner.machine.environment import builder_python
    from holdfast.runner.store import layout

    home = os.fsencode(os.environ["HOLDFAST_HOME"])
    if not python:
        return _refuse("pip " + argv[0], "the environment is not built yet: holdfast experiment prepare")
    tools = os.path.dirname(builder_python(home, lambda _: None, layout.tools_log(home)))
    uv = os.path.join(tools, "uv")
    return os.execv(uv, [uv, "pip", *argv, "--no-config", "--python", python])


def _refuse(command: str, hint: str) -> int:
    from holdfast.present.terminal import show

    sys.stderr.write(f"ERROR: {show(command)}: this project's environment is managed by Holdfast\n  {hint}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
