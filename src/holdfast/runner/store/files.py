"""Durable writes. A failed fsync is never tried again: the data may be lost."""

import os
import sys

MYPY = False
if MYPY:
    from typing import AnyStr


def write_all(descriptor: "int", data: "bytes") -> "None":
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def unlink_quietly(path: "bytes") -> "None":
    try:
        os.unlink(path)
    except OSError:
        pass  # sweep takes it later; the failure that brought us here is the one to tell


def temporary_beside(path: "AnyStr") -> "AnyStr":
    """A name in the same folder for a file that is not whole yet; short, as the file's own name may be the longest."""
    name = ".holdfast-%s.tmp" % os.urandom(8).hex()
    folder = os.path.dirname(path)
    return os.path.join(folder, os.fsencode(name) if isinstance(path, bytes) else name)


def make_private(folder: "bytes") -> "None":
    for each in (os.path.dirname(folder), folder):  # makedirs gives its mode to the last one only
        os.makedirs(each, mode=0o700, exist_ok=True)


def fsync_path(path: "bytes") -> "None":
    """Sync a file or directory by name. Windows cannot open a directory, nor does it need to."""
    if sys.platform == "win32" and os.path.isdir(path):
        return
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(path: "bytes") -> "bool":
    """One sync for everything on the file system that holds ``path``; False where that cannot be relied on."""
    if not sys.platform.startswith("linux") or _kernel_version() < (5, 8):
        return False  # before 5.8 syncfs answers success for data it could not write
    try:
        import ctypes

        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, OSError, AttributeError):
        return False
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        if syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(descriptor)
    return True


def _kernel_version() -> "tuple[int, ...]":
    if sys.platform == "win32":
        return (0,)
    numbers = os.uname().release.split("-")[0].split(".")[:2]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)
