"""Checks for names and files that come from a project, a target or an archive.

No such value becomes part of a path, and no such file is read, without passing one of these functions. Python 3.6 and
the standard library only: client and runner share them.
"""

import errno
import os
import stat
import sys

from . import json_text
from .decoding import as_bytes

MYPY = False
if MYPY:
    from typing import AnyStr

_LONGEST_NAME = 255  # bytes; no common file system takes a longer one
_LONGEST_PATH = 4000  # bytes; PATH_MAX is 4096 with its terminating NUL
_GUID = (8, 4, 4, 4, 12)  # hexadecimal digits
_HEX = "0123456789abcdef"
_DEEPEST = 100  # levels of JSON; those who walk a value must not run out of stack
_MOST_DIGITS = 4000  # Python refuses more than 4300, older ones take ages
_FEW_DIGITS = 18  # an integer of so few has 64 bits at most
_SURROGATES = "[\ud800-\udc7f\udd00-\udfff]"
_LARGEST_INTEGER = 1 << 63


class Untrusted(ValueError):
    """A value or file that was refused; its text says why and never quotes more than a line of it."""


class OutsideError(Untrusted):
    """A link that leads out of the folder that the file has to be in."""


class SpecialFileError(Untrusted):
    """A FIFO, socket or device where a regular file is expected."""


class TooLargeError(Untrusted):
    """A file of more bytes than are read."""


def component(name: "AnyStr") -> "AnyStr":
    """The name, if it is exactly one path component; joining it to a folder cannot leave the folder."""
    encoded = _encoded(name)
    if encoded in (b"", b".", b"..") or b"/" in encoded or b"\0" in encoded or len(encoded) > _LONGEST_NAME:
        raise Untrusted("not a file name: %.200r" % (name,))
    if os.sep == "\\" and (b"\\" in encoded or b":" in encoded):
        raise Untrusted("not a file name on this system: %.200r" % (name,))
    return name


def relative(path: "AnyStr") -> "AnyStr":
    """The path, if it consists of such components with "/" between them."""
    encoded = _encoded(path)
    if len(encoded) > _LONGEST_PATH:
        raise Untrusted("path longer than %d bytes: %.200r" % (_LONGEST_PATH, path))
    for name in encoded.split(b"/"):
        component(name)
    return path


def below(folder: "AnyStr", path: "AnyStr") -> "AnyStr":
    """The path of that relative name below the folder."""
    return os.path.join(folder, relative(path))


def guid(text: "object") -> "str":
    """The text, if it is a GUID, in lower case."""
    parts = text.split("-") if isinstance(text, str) else []
    if tuple(map(len, parts)) != _GUID or any(part.strip(_HEX + _HEX.upper()) for part in parts):
        raise Untrusted("not a GUID: %.200r" % (text,))
    return str(text).lower()


def hexadecimal(text: "object", length: "int") -> "str":
    """The text, if it is that many lower-case hexadecimal digits: run uids, store ids, digests."""
    if not isinstance(text, str) or len(text) != length or not text or text.strip(_HEX):
        raise Untrusted("not %d hexadecimal digits: %.200r" % (length, text))
    return text


def whole_number(text: "str", longest: "int" = 18) -> "int | None":
    """The number that at most so many ASCII digits spell; None for other text.

    ``int`` refuses some text of which ``str.isdigit`` is true: a superscript two, or 5,000 digits.
    """
    return int(text) if len(text) <= longest and text.encode("ascii", "replace").isdigit() else None


def loads(data: "bytes") -> "object":
    """A JSON value in a form that every reader can work with; ValueError where there is none.

    Integers beyond 64 bits become floats, NaN and infinities become null, halves of surrogate pairs become U+FFFD
    (except those that stand for bytes of a path), and nothing is nested deeper than a hundred levels.
    """
    try:
        value = json_text.loads(data.decode("utf-8"), _Bounded)
        if b"\\ud" in data or b"\\uD" in data or data.count(b"[") + data.count(b"{") > _DEEPEST:
            value = _usable(value, _DEEPEST)
    except RecursionError:
        raise Untrusted("nested too deeply") from None
    return value


def _usable(value: "object", levels: "int") -> "object":
    if isinstance(value, str):
        return _whole_text(value)
    if isinstance(value, (dict, list)) and levels == 0:
        raise Untrusted("nested too deeply")
    if isinstance(value, dict):
        return {_whole_text(name): _usable(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_usable(item, levels - 1) for item in value]
    return value


def _whole_text(text: "str") -> "str":
    import re

    return re.sub(_SURROGATES, "\ufffd", text)


def _integer(text: "str") -> "int | float | None":
    number = int(_readable_number(text))
    if len(text) <= _FEW_DIGITS or -_LARGEST_INTEGER <= number < _LARGEST_INTEGER:
        return number
    try:
        return float(number)
    except OverflowError:
        return None


def _finite(text: "str") -> "float | None":
    return json_text.finite(_readable_number(text))


def _readable_number(text: "str") -> "str":
    if len(text) > _MOST_DIGITS and sum(map(str.isdigit, text)) > _MOST_DIGITS:
        raise Untrusted("a number of more than %d digits" % _MOST_DIGITS)
    return text


class _Bounded(json_text.Finite):
    parse_int = _integer
    parse_float = _finite


def open_file(
    path: "AnyStr", limit: "int | None" = None, within: "AnyStr | None" = None, follow: "bool" = True
) -> "int":
    """A descriptor of a regular file of at most ``limit`` bytes; never blocks on a FIFO or a device.

    With ``within``, links are followed only as long as they stay below that folder; without ``follow`` the file itself
    must not be one. A file that is not there is a FileNotFoundError, as always.
    """
    if within is not None:
        inside(path, within)
    # Before the open: opening a device may have an effect.
    _refuse_irregular(path, os.stat(path) if follow else os.lstat(path), limit)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        _refuse_irregular(path, os.fstat(fd), limit)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_file(path: "AnyStr", limit: "int", within: "AnyStr | None" = None, follow: "bool" = True) -> "bytes":
    """The content of such a file."""
    with open(open_file(path, limit, within, follow), "rb") as source:
        content = source.read(limit + 1)
    if len(content) > limit:  # it grew meanwhile
        raise TooLargeError("%s: larger than %d bytes" % (_shown(path), limit))
    return content


def create_file(path: "AnyStr", mode: "int" = 0o600) -> "int":
    """A descriptor of a new, empty file; what had that name before, perhaps a link, is removed and not written to."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    return os.open(path, flags, mode)


def inside(path: "AnyStr", folder: "AnyStr") -> "AnyStr":
    """The path, if it is below the folder after all links in it are followed, or the folder itself."""
    real, root = os.fsencode(os.path.realpath(path)), os.fsencode(os.path.realpath(folder))
    if real != root and not real.startswith(root.rstrip(os.sep.encode()) + os.sep.encode()):
        raise OutsideError("%s: a link that leads out of %s" % (_shown(path), _shown(folder)))
    return path


def own_ids() -> "tuple[int, ...]":
    """This user and, under sudo, the one who called it."""
    if sys.platform == "win32":
        return ()
    user = os.geteuid()
    caller = os.environ.get("SUDO_UID", "") if user == 0 else ""
    return (user, int(caller)) if caller.isdecimal() and caller.encode("ascii", "replace").isdigit() else (user,)


def _refuse_irregular(path: "AnyStr", status: "os.stat_result", limit: "int | None") -> "None":
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise SpecialFileError("%s: not a regular file" % _shown(path))
    if limit is not None and status.st_size > limit:
        raise TooLargeError("%s: %d bytes, at most %d are read" % (_shown(path), status.st_size, limit))


def _encoded(name: "AnyStr") -> "bytes":
    if isinstance(name, bytes):
        return name
    if not isinstance(name, str):
        raise Untrusted("not a file name: %.200r" % (name,))
    try:
        return as_bytes(name)
    except UnicodeEncodeError:
        raise Untrusted("not a file name: %.200r" % (name,)) from None


def _shown(path: "AnyStr") -> "str":
    return os.fsdecode(path)[:_LONGEST_PATH]
