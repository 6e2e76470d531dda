"""Sends one file of outputs/ from a given offset. The path is opened folder by folder and no link is followed."""

import os
import sys

from .. import untrusted, wire
from ..decoding import as_bytes
from . import layout, mirror

assert sys.platform != "win32"  # a target is never Windows

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def fetch(attempt: "bytes", path: "str", offset: "int", size: "int | None", reply: "mirror.Reply") -> "None":
    """At most ``size`` bytes of the file are sent; one that has grown since is cut off there."""
    fd = _open(layout.outputs(attempt), as_bytes(path))
    try:
        while True:
            left = wire.MAX_PAYLOAD if size is None else max(0, size - offset)
            block = os.pread(fd, min(wire.MAX_PAYLOAD, left), offset)
            if not block:
                reply.end(offset=offset)
                return
            reply.send(block, offset=offset)
            offset += len(block)
    finally:
        os.close(fd)


def _open(top: "bytes", path: "bytes") -> "int":
    parts = untrusted.relative(path).split(b"/")
    folder = os.open(top, _FOLDER)
    try:
        for word in parts[:-1]:
            inner = os.open(word, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
