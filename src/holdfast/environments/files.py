"""Files of the project: read with a limit, and never outside it."""

from __future__ import annotations

import os
import stat

from holdfast.amlconfig.source import codec
from holdfast.errors import ConfigError

# The lock of a large project has a few megabytes.
_MAX_BYTES = 32 << 20


def read_text(root: str, name: str) -> str:
    """The text of a project file, as UTF-8 or whatever its byte order mark says; line ends are ``\\n``."""
    path = os.path.join(root, name)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ConfigError("is not a file", where=name)
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError("cannot be read", where=name, answer=str(error.strerror)) from None
    if len(data) > _MAX_BYTES:
        raise ConfigError("is larger than 32 MiB: this does not describe an environment", where=name)
    encoding, mark = codec(data)
    try:
        return data[len(mark) :].decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=name, hint="save the file as UTF-8") from None


def exists(root: str, name: str) -> bool:
    return os.path.isfile(os.path.join(root, name))


def inside(root: str, folder: str, path: str) -> str | None:
    """``path``, written in a file of ``folder``, relative to the project with ``/``; ``None`` if it leads outside."""
    path = path.replace("\\", "/")
    if path.startswith(("/", "~")) or path[1:2] == ":" or "\0" in path:
        return None
    joined = os.path.normpath(os.path.join(folder, path)).replace("\\", "/")
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(root, joined))
    if joined.split("/")[0] == ".." or os.path.commonpath((real, real_root)) != real_root:
        return None
    return joined


def sha256(root: str, name: str) -> str:
    import hashlib

    digest = hashlib.sha256()
    with open(os.path.join(root, name), "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
