"""What a script left in outputs/: moved out of its folder and listed with size and hash."""

import hashlib
import os
import stat
import time

from . import wire


def collect(attempt: "bytes") -> "tuple[int, int]":
    """Keep work/outputs as outputs/ beside it and write its manifest; returns the number of files and of bytes."""
    made = os.path.join(attempt, b"work", b"outputs")
    kept = os.path.join(attempt, b"outputs")
    if os.path.isdir(made) and not os.path.islink(made):
        os.rename(made, kept)
    else:
        os.mkdir(kept, 0o700)
    files = size = 0
    fd = os.open(os.path.join(attempt, b"outputs.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for row in _rows(kept):
            wire.write_all(fd, wire.dumps(row) + b"\n")
            files += 1
            size += row["size"] if isinstance(row["size"], int) else 0
        os.fsync(fd)
    finally:
        os.close(fd)
    return files, size


def _rows(top: "bytes") -> "list[dict[str, object]]":
    names = []
    for folder, folders, files in os.walk(top):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        names += [os.path.relpath(os.path.join(folder, name), top) for name in files + links]
    return [_row(os.path.join(top, name), name) for name in sorted(names)]


def _row(path: "bytes", name: "bytes") -> "dict[str, object]":
    try:
        found = os.lstat(path)
        row = {"path": name.decode("utf-8", "surrogateescape"), "size": 0, "seen_ns": int(time.time() * 1e9)}
        row["mtime_ns"] = int(found.st_mtime * 1e9)
        if stat.S_ISLNK(found.st_mode):
            row["link"] = os.readlink(path).decode("utf-8", "surrogateescape")
        elif stat.S_ISREG(found.st_mode):
            row["size"], row["sha256"] = digest(path)
        else:
            row["skipped"] = "not a plain file"
    except OSError as error:
        return {"path": name.decode("utf-8", "surrogateescape"), "size": 0, "skipped": str(error)}
    return row


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
