"""Copies files into and out of a container, for engines that cannot mount host folders (sharedVolumes: false)."""

import errno
import io
import os
import subprocess
import tarfile

from ..decoding import readable
from . import argv, engines

MYPY = False
if MYPY:
    from typing import IO

    from .monitor import Charge

_NAMED = 20  # files that a message names


def load(charge: "Charge", places: "argv.Places") -> "None":
    """All that a run has to find, at its own path and owned by whom the script runs as."""
    copier = subprocess.Popen(
        [charge.program, "cp", "-", charge.name + ":/"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with tarfile.open(fileobj=copier.stdin, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        made = set()  # type: set[str]
        for here, there, _ in places.mounts():
            if here == places.share:
                continue  # what is copied in does not outlive the run
            _parents(archive, there, made)
            archive.add(here, there.lstrip("/"), filter=lambda entry: _owned(entry, places))
    copier.stdin.close()  # type: ignore[union-attr]
    message = readable(copier.stderr.read())  # type: ignore[union-attr]
    if copier.wait():
        raise engines.meaning(charge.program, message)


def fetch(charge: "Charge", places: "argv.Places") -> "str":
    """What the script left behind: its outputs, its metrics, how it ended. Nothing where it never was.

    Returns line by line what could not be copied. A file that fails costs that file alone.
    """
    lost = []  # type: list[str]
    for part in argv.PARTS:
        try:
            lost += fetch_folder(charge.program, charge.name, os.path.join(places.attempt, part))
        except OSError as error:
            lost.append("%s could not be copied from the container: %s" % (part, error.strerror or error))
    return "\n".join(lost[:_NAMED] + (["and %d more" % (len(lost) - _NAMED)] if len(lost) > _NAMED else []))


def fetch_folder(program: "str", name: "str", folder: "str") -> "list[str]":
    """Copy a folder out of a container, to the same path here; returns what could not be copied."""
    copier = subprocess.Popen(
        [program, "cp", "%s:%s" % (name, folder), "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    lost = _take_all(copier.stdout, os.path.dirname(folder))  # type: ignore[arg-type]
    copier.stdout.close()  # type: ignore[union-attr]
    copier.wait()
    return lost


def _take_all(stream: "IO[bytes]", folder: "str") -> "list[str]":
    lost = []
    count = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for entry in archive:
                count += 1
                try:
                    _take(archive, entry, folder)
                except OSError as error:
                    why = error.strerror or error
                    lost.append("%s could not be copied from the container: %s" % (ascii(entry.name), why))
    except (tarfile.TarError, OSError) as error:
        if count:  # an empty answer: the container has no such folder, or is gone
            lost.append("copying from the container ended early: %s" % error)
    return lost


def _take(archive: "tarfile.TarFile", entry: "tarfile.TarInfo", folder: "str") -> "None":
    """Only files in the run's own folder, and nothing through a link from the archive."""
    path = os.path.normpath(os.path.join(folder, entry.name))
    real, above = os.path.realpath(folder), os.path.realpath(os.path.dirname(path))
    if above != real and not above.startswith(real + os.sep):
        return
    if entry.isdir():
        os.makedirs(path, 0o700, exist_ok=True)
    elif entry.isfile() or entry.issym() or entry.islnk():
        if os.path.lexists(path):
            os.unlink(path)
        if entry.issym():
            os.symlink(entry.linkname, path)
            return
        if entry.islnk():
            _link(os.path.normpath(os.path.join(folder, entry.linkname)), path, real)
            return
        source = archive.extractfile(entry)
        with open(path, "wb") as target:
            while True:
                block = source.read(1 << 20)  # type: ignore[union-attr]
                if not block:
                    break
                target.write(block)
        os.chmod(path, entry.mode & 0o777 | 0o600)
        os.utime(path, (entry.mtime, entry.mtime))


def _link(first: "str", path: "str", top: "str") -> "None":
    """Another name of a file that the archive brought before."""
    if not os.path.realpath(first).startswith(top + os.sep) or os.path.islink(first):
        raise OSError(errno.EXDEV, "a hard link to a file that was not copied")
    os.link(first, path)


def _parents(archive: "tarfile.TarFile", there: "str", made: "set[str]") -> "None":
    """The parent folders, with mode 0755."""
    above = os.path.dirname(there)
    todo = []
    while above not in ("/", "") and above not in made:
        todo.append(above)
        above = os.path.dirname(above)
    for folder in reversed(todo):
        made.add(folder)
        if folder.count("/") < 2:
            continue  # the image's own: /home, /tmp
        entry = tarfile.TarInfo(folder.lstrip("/"))
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry, io.BytesIO())


def _owned(entry: "tarfile.TarInfo", places: "argv.Places") -> "tarfile.TarInfo | None":
    if not (entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()):
        return None  # the named pipe stays here
    entry.uid, entry.gid = places.ours
    entry.uname = entry.gname = ""
    return entry
