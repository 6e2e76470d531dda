"""Becomes the user's own shell in the folder of a run, or a command in its container.

Sent alone and run by the target's Python (3.6 or newer) at a terminal: it imports no other module of ours. It is Python
because every target has it, while login shells differ.
"""

import binascii
import json
import os
import pwd
import sys


def main(store: "bytes", folders: "list[bytes]", command: "list[bytes]") -> "None":
    """``folders`` of the run below the store, the best one first; ``command``: engine, "exec", container, argv."""
    paths = [os.path.join(os.path.expanduser(store), folder) for folder in folders]
    if command:
        tty = [b"--tty"] if os.isatty(0) else []
        folder = next(filter(os.path.isdir, paths), paths[0])
        argv = [*command[:2], *tty, b"--interactive", b"--workdir", folder, *command[2:]]
        os.execvp(argv[0], argv)
    entered = next((path for path in paths if _enter(path)), None)
    if paths and entered is None:
        sys.exit("holdfast: this run is not on this machine any more")
    if paths and entered == paths[-1]:
        sys.stderr.write("holdfast: the work folder was removed; this is the attempt's folder\n")
        sys.stderr.flush()
    shell = os.environ.get("SHELL") or pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    os.execv(shell, ["-" + os.path.basename(shell)])  # the dash makes it a login shell


def _enter(path: "bytes") -> "bool":
    try:
        os.chdir(path)
    except OSError:
        return False
    return True


def _bytes(text: "str") -> "bytes":
    return text.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    asked = json.loads(binascii.a2b_base64(sys.argv[-1]).decode("ascii"))
    main(_bytes(asked["store"]), list(map(_bytes, asked["folders"])), list(map(_bytes, asked["command"])))
