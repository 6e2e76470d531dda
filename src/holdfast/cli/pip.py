"""``pip`` in the shell of a managed project: ``pip install X`` becomes a line of the file that declares it.

An environment is named by its content and shared by runs, so nothing is ever installed into one by hand.
"""

from __future__ import annotations

import os
import sys

_READING = ("list", "freeze", "show", "check", "tree")
_NEEDLESS = ("-U", "--upgrade", "-q", "--quiet", "--user")


def main() -> int:
    python, words = sys.argv[1], sys.argv[2:]
    if words[:1] == ["install"]:
        return _add([word for word in words[1:] if word not in _NEEDLESS])
    if words[:1] and words[0] in _READING:
        return _read(python, words)
    return _refuse(
        f"pip {' '.join(words[:1])}", "the environments of this project are built from its files; see holdfast env -h"
    )


def _add(packages: list[str]) -> int:
    option = next((word for word in packages if word.startswith("-")), None)
    if option is not None or not packages:
        said = f"pip install {option or ''}".strip()
        return _refuse(said, "add it to the file that holdfast env show prints")
    from holdfast.cli.main import run

    code = run(["env", "add", *packages])
    if code == 0:
        sys.stderr.write("the next run uses it; to build it now: holdfast experiment prepare\n")
    return code


def _read(python: str, words: list[str]) -> int:
    from holdfast.runner.machine.environment import builder_python
    from holdfast.runner.store import layout

    home = os.fsencode(os.environ["HOLDFAST_HOME"])
    if not python:
        return _refuse("pip " + words[0], "the environment is not built yet: holdfast experiment prepare")
    tools = os.path.dirname(builder_python(home, lambda _: None, layout.tools_log(home)))
    uv = os.path.join(tools, "uv")
    return os.execv(uv, [uv, "pip", *words, "--no-config", "--python", python])


def _refuse(said: str, hint: str) -> int:
    from holdfast.present.terminal import show

    sys.stderr.write(f"ERROR: {show(said)}: this project's environment is managed by Holdfast\n  {hint}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
