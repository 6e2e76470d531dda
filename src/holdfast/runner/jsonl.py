"""Files of JSON lines, read with patience: whatever was cut off or scribbled over costs that line and no other."""

import json
import os

from . import wire


def read_lines(path: "bytes") -> "list[dict[str, object]]":
    """All whole JSON objects of a file; a torn last line and lines that are no JSON are passed over."""
    try:
        with open(path, "rb") as source:
            data = source.read()
    except FileNotFoundError:
        return []
    found = []
    for line in data.split(b"\n")[:-1]:
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def append_line(path: "bytes", value: "dict[str, object]") -> "None":
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        wire.write_all(fd, wire.dumps(value) + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def write_new(path: "bytes", data: "bytes") -> "None":
    """Write beside, sync, rename: the file is there whole or not at all."""
    beside = path + b".tmp"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        wire.write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(beside, path)


def sync_folder(path: "bytes") -> "None":
    """Names last only when their folder is on disk too."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
