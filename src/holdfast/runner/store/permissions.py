"""Opens up what a script made read-only or unreadable in its own folder, so that it can be kept or handed over."""

import os
import stat


def open_folder(path: "bytes") -> "None":
    """Let the owner list and change a folder. A link is left alone, and so is a folder of another user."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU)
    except OSError:
        return  # what is tried next says what is wrong


def open_file(path: "bytes", status: "os.stat_result") -> "None":
    """Let the owner read a plain file. One that has other names, perhaps outside the folder, is left alone."""
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and not status.st_mode & stat.S_IRUSR:
        try:
            os.chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRUSR)
        except OSError:
            return  # as above
