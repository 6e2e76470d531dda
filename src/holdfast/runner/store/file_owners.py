"""Names of the owners of files. Client and runner share it."""

import sys


def user_name(uid: "int") -> "str":
    if sys.platform == "win32":
        return "uid %d" % uid
    import pwd

    try:
        return "%s (uid %d)" % (pwd.getpwuid(uid).pw_name, uid)
    except KeyError:
        return "uid %d" % uid


def short_name(uid: "int") -> "str":
    """The name alone; empty where the file system names no owner."""
    return user_name(uid).partition(" (")[0] if uid >= 0 else ""
