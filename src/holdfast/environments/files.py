"""Files of the project: read with a limit, and never outside it."""

from __future__ import annotations

import os

from holdfast.amlconfig.source import codec, refused
from holdfast.errors import ConfigError
from holdfast.runner import untrusted

# The lock of a large project has a few megabytes.
_MAX_BYTES = 32 << 20


def read_text(root: str, name: str) -> str:
    """The text of a project file, as UTF-8 or whatever its byte order mark says; line ends are ``\\n``."""
    try:
        data = untrusted.read_file(os.path.join(root, name), _MAX_BYTES, root)
    except untrusted.Untrusted as error:
        what, hint = refused(error, _MAX_BYTES)
        raise ConfigError(what, where=name, answer=str(error), hint=hint) from None
    except (OSError, ValueError) as error:
        raise ConfigError("this file cannot be read", where=name, answer=str(error)) from None
    encoding, mark = codec(data)
    try:
        return data[len(mark) :].decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise ConfigError("this file is not UTF-8 text", where=name, hint="save the file as UTF-8") from None


def line_end(root: str, name: str) -> str:
    """How the lines of a file that ``read_text`` has read end."""
    return "\r\n" if b"\r\n" in untrusted.read_file(os.path.join(root, name), _MAX_BYTES, root) else "\n"


def exists(root: str, name: str) -> bool:
    """Whether something of that name is to be read. What is not a regular file is refused when it is read."""
    path = os.path.join(root, name)
    return os.path.lexists(path) and not os.path.isdir(path)


def inside(root: str, folder: str, path: str) -> str | None:
    """``path``, written in a file of ``folder``, relative to the project with ``/``; ``None`` if it leads outside."""
    path = path.replace("\\", "/")
    if path.startswith(("/", "~")) or path[1:2] == ":" or "\0" in path:
        return None
    joined = os.path.normpath(os.path.join(folder, path)).replace("\\", "/")
    try:
        untrusted.inside(os.path.join(root, untrusted.relative(joined) if joined != "." else joined), root)
    except untrusted.Untrusted:
        return None
    return joined


def sha256(root: str, name: str) -> str:
    import hashlib

    digest = hashlib.sha256()
    with open(untrusted.open_file(os.path.join(root, name), within=root), "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
