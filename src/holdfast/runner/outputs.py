"""What a script left in outputs/: moved out of its folder and listed with size and hash."""

import errno
import hashlib
import os
import stat
import time

from . import limits, wire

_NAMED = 20  # files that the closing event names; the manifest has them all
_LARGEST_HOLE = (
    1 << 40
)  # bytes of a sparse file that are not stored; reading them would take the better part of an hour


def collect(attempt: "bytes") -> "tuple[int, int, str]":
    """Keep work/outputs as outputs/ beside it and write its manifest.

    Returns the number of files and of bytes, and line by line what could not be kept; empty when all is well.
    """
    kept = os.path.join(attempt, b"outputs")
    files = size = 0
    unread = []  # type: list[str]
    try:
        trouble = _keep(os.path.join(attempt, b"work", b"outputs"), kept)
        fd = os.open(os.path.join(attempt, b"outputs.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for name, problem in _names(kept):
                row = _row(os.path.join(kept, name), name, problem, unread)
                wire.write_all(fd, wire.dumps(row) + b"\n")
                files += 1
                size += row["size"] if isinstance(row["size"], int) else 0
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        trouble = "%s could not be kept: %s" % (kept.decode("utf-8", "replace"), limits.told(error))
    return files, size, "\n".join(([trouble] if trouble else []) + _few(unread))


def _few(problems: "list[str]") -> "list[str]":
    more = len(problems) - _NAMED
    return problems[:_NAMED] + (["and %d more, all of them named in outputs.jsonl" % more] if more > 0 else [])


def _keep(made: "bytes", kept: "bytes") -> "str":
    if os.path.islink(made):
        trouble = "outputs/ was replaced by a link to %s; what is there was not collected" % ascii(os.readlink(made))
    elif os.path.isdir(made):
        os.rename(made, kept)
        return ""
    else:
        trouble = "outputs/ was gone when the script ended; nothing was collected"
    os.mkdir(kept, 0o700)
    return trouble


def _names(top: "bytes") -> "list[tuple[bytes, str]]":
    """Every file below, links not followed. A folder that cannot be read is named too, with the reason."""
    found = []
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(top, folder)))
        except OSError as error:
            found.append((folder, str(error)))
            continue
        for entry in entries:
            name = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            else:
                found.append((name, ""))
    return sorted(found)


def _row(path: "bytes", name: "bytes", problem: "str", unread: "list[str]") -> "dict[str, object]":
    """The line of the manifest; ``unread`` gets a sentence if the file or folder could not be read."""
    try:
        if problem:
            raise OSError(problem)
        found = os.lstat(path)
        row = {"path": name.decode("utf-8", "surrogateescape"), "size": 0, "seen_ns": int(time.time() * 1e9)}
        row["mtime_ns"] = found.st_mtime_ns
        if stat.S_ISLNK(found.st_mode):
            row["link"] = os.readlink(path).decode("utf-8", "surrogateescape")
        elif stat.S_ISREG(found.st_mode):
            _refuse_hole(found)
            row["size"], row["sha256"] = digest(path)
        else:
            row["skipped"] = "not a plain file"
    except OSError as error:
        unread.append("outputs/%s could not be read: %s" % (_shown(name), error.strerror or error))
        return {"path": name.decode("utf-8", "surrogateescape"), "size": 0, "skipped": str(error)}
    return row


def _refuse_hole(found: "os.stat_result") -> "None":
    stored = found.st_blocks * 512
    if found.st_size - stored > _LARGEST_HOLE:
        raise OSError(errno.EFBIG, "a sparse file of %d bytes, of which %d are stored" % (found.st_size, stored))


def _shown(name: "bytes") -> "str":
    text = name.decode("utf-8", "replace")
    return text if text.isprintable() and "\\" not in text else ascii(text)


def digest(path: "bytes") -> "tuple[int, str]":
    """Length and SHA-256 of a file, synced to disk on the way: what is promised in the closing event must last."""
    state = hashlib.sha256()
    size = 0
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(fd)
        while True:
            block = os.read(fd, 1024 * 1024)
            if not block:
                return size, state.hexdigest()
            state.update(block)
            size += len(block)
    finally:
        os.close(fd)
