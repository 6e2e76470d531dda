"""Tells which node wrote a file, for folders that several machines share without sharing locks.

A node concludes something only from what it wrote itself. It is known by its boot id and, after a reboot, by machine id
and host name together: images that are cloned share the first, machines that are set up anew may share the second.
"""

import hashlib

from .. import json_text
from ..decoding import as_bytes
from ..store import jsonl
from ..store.files import TEMPORARY
from . import processes

MYPY = False
if MYPY:
    from collections.abc import Mapping

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_LONGEST = 4096


def mark() -> "dict[str, object]":
    """This node, as it is written into files that others may read."""
    return {"host": processes.host_name(), "machine": _machine(), "boot_id": processes.boot_id()}


def encoded() -> "bytes":
    """The same as the content of a lock file: one line with a checksum."""
    return jsonl.sealed(mark())


def own_ending() -> "bytes":
    """For names of folders that only this node works in."""
    return b".on-" + name() + TEMPORARY.encode("ascii")


def name() -> "bytes":
    """For names of files that each node has its own of."""
    identity = "%s %s" % (processes.host_name(), _machine())
    return hashlib.sha256(as_bytes(identity)).hexdigest()[:8].encode("ascii")


def is_this(written: "Mapping[str, object]") -> "bool":
    """Whether this node wrote that mark, now or before a reboot. A mark without a host name is from an old version."""
    if not written.get("host") or is_this_boot(written):
        return True
    machine = written.get("machine")
    return written.get("host") == processes.host_name() and machine in (None, _machine())


def is_this_boot(written: "Mapping[str, object]") -> "bool":
    return written.get("boot_id") == processes.boot_id()


def read(path: "str | bytes") -> "dict[str, object]":
    """The mark in a lock file; empty where there is none or it is damaged."""
    try:
        with open(path, "rb") as source:
            line = source.read(_LONGEST).partition(b"\n")[0]
        document = json_text.loads(line.decode("utf-8")) if jsonl.is_intact(line) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _machine() -> "str":
    """A hash: the machine id itself is not for others to know."""
    for path in _MACHINE_IDS:
        try:
            with open(path, "rb") as source:
                text = source.read(_LONGEST).strip()
        except OSError:
            continue
        if text and text != b"uninitialized":
            return hashlib.sha256(b"holdfast " + text).hexdigest()[:32]
    return ""
