"""Says why a program could not be started, from the error of ``exec``.

The first process of a container imports this file too, so it also runs under Python 2.7.
"""

import errno
import os

MYPY = False
if MYPY:
    from typing import Any  # noqa: F401 - in comments


def replace_process(argv):
    # type: (list[Any]) -> None
    """Become this program, which is looked for on the PATH; an error says why that cannot be."""
    try:
        os.execvp(argv[0], argv)
    except EnvironmentError as error:
        raise RuntimeError(reason(error, argv[0]))  # noqa: B904 - Python 2 has no from


def reason(error, program):
    # type: (EnvironmentError, Any) -> str
    """``program`` is the first word of the command, in the folder where it was to run."""
    name = os.fsdecode(program) if hasattr(os, "fsdecode") else str(program)
    code = error.errno or 0
    if code == errno.ENOENT and os.sep not in name:
        return "there is no program %s on the PATH of the run" % name
    cause = os.strerror(code)
    if code == errno.ENOENT and os.path.exists(program):
        cause = "the interpreter or loader that it needs does not exist on this machine"
    elif code == errno.EACCES:
        cause = (
            "it is a folder" if os.path.isdir(program) else "it is not executable, or on a file system without programs"
        )
    elif code == errno.ENOEXEC:
        cause = "it is not a program of this machine, and has no #! line"
    return "%s cannot be started: %s" % (name, cause)
