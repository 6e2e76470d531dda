"""Reads files of JSON lines; a torn or damaged line is skipped and the others are kept."""

import binascii
import os

from .. import json_text, untrusted, wire
from ..decoding import escaped

SEALED = 2  # from this version on, a line ends with a checksum of itself
_SEAL = b',"crc":"%08x"}'


def read_lines(path: "bytes", limit: "int | None" = None, most: "int | None" = None) -> "list[dict[str, object]]":
    """All whole JSON objects of a file; a torn last line and lines that are no JSON are passed over.

    untrusted.TooLargeError for a file of more than ``limit`` bytes or ``most`` lines: none of them is parsed.
    """
    try:
        with open(untrusted.open_file(path, limit), "rb") as source:
            data = source.read()
    except untrusted.TooLargeError:
        raise
    except (FileNotFoundError, untrusted.Untrusted):
        return []
    if most is not None and data.count(b"\n") > most:
        raise untrusted.TooLargeError("%s: %d lines, at most %d are read" % (escaped(path), data.count(b"\n"), most))
    objects = []
    for line in data.split(b"\n")[:-1]:
        try:
            value = untrusted.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects


def sealed(value: "dict[str, object]") -> "bytes":
    """One line that no flipped bit passes unnoticed: its last field is the checksum of all before it."""
    head = wire.dumps(dict({"v": SEALED}, **value))[:-1]
    return head + _SEAL % binascii.crc32(head) + b"\n"


def is_intact(line: "bytes") -> "bool":
    """Whether a line (without its end) is as it was written. Lines of version 1 say nothing about themselves."""
    head = line[: -len(_SEAL % 0)]
    if line[len(head) :] == _SEAL % binascii.crc32(head):
        return True
    try:
        value = json_text.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("v", 1) == 1 and "crc" not in value


def append_line(path: "bytes", value: "dict[str, object]") -> "None":
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        wire.write_all(fd, sealed(value))
        os.fsync(fd)
    finally:
        os.close(fd)
