"""Where else on this machine a store could be; whether files can be cloned, and whether an environment is built.

Sent alone and run by the target's Python (3.6 or newer), before there is a runner: it imports no other module of ours.
The answer is the last line that it prints, as JSON.
"""

import binascii
import fcntl
import json
import os
import sys

_FICLONE = 0x40049409
_FOLDERS = ("~", "/scratch/%s", "/scratch", "/data/%s", "/data", "/local", "/var/tmp", "/dev/shm")


def answer(home: "str | None", prefix: "str") -> "dict[str, object]":
    """``places``: folder for a store, free bytes, free inodes (null: no limit), read-only, no-exec; on other disks."""
    store = os.path.expanduser(home or "~/.holdfast")
    return {"places": places(store), "clones": can_clone(store), "built": bool(prefix) and os.path.exists(prefix)}


def places(store: "str") -> "list[list[object]]":
    """Folders on other disks that can be written to, each with its free space."""
    user = os.environ.get("USER") or str(os.getuid())
    disk = os.stat(_existing(store)).st_dev
    candidates = []
    for pattern in _FOLDERS:
        folder = os.path.expanduser(pattern.replace("%s", user))
        if os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK) and os.stat(folder).st_dev != disk:
            name = ".holdfast" if pattern == "~" else "holdfast-" + user
            candidates.append([os.path.join(folder, name), *_room(folder)])
    return candidates


def can_clone(store: "str") -> "bool":
    """Whether a copy of a file in the store shares its disk space."""
    names = [os.path.join(store, "clone.%d.%d" % (os.getpid(), number)) for number in (0, 1)]
    try:
        with open(names[0], "wb") as source:
            source.write(b"x" * 4096)
        with open(names[0], "rb") as source, open(names[1], "wb") as copy:
            fcntl.ioctl(copy.fileno(), _FICLONE, source.fileno())
        return True
    except OSError:
        return False
    finally:
        for name in filter(os.path.exists, names):
            os.unlink(name)


def _existing(path: "str") -> "str":
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _room(folder: "str") -> "list[object]":
    status = os.statvfs(folder)
    is_read_only = bool(status.f_flag & getattr(os, "ST_RDONLY", 0))
    is_no_exec = bool(status.f_flag & getattr(os, "ST_NOEXEC", 0))
    return [status.f_bavail * status.f_frsize, status.f_favail if status.f_files else None, is_read_only, is_no_exec]


if __name__ == "__main__":
    asked = json.loads(binascii.a2b_base64(sys.argv[-1]).decode("ascii"))
    sys.stdout.write("\n%s\n" % json.dumps(answer(asked["home"], asked["prefix"])))
