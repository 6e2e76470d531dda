"""Reserves a GPU by binding a name in Linux's abstract socket namespace.

A bound name belongs to the processes that have its socket open. It is free again when the last of them is gone, however
it ended, and no other unprivileged user can remove, rename or take over it. See docs/decisions/0016.
"""

import errno
import hashlib
import re
import socket

MYPY = False
if MYPY:
    from collections.abc import Iterator

SHARED_AT_MOST = 128  # runs on one card


def reserve(domain: "bytes", uuid: "str", shared: "bool") -> "int":
    """A descriptor that holds the card while any copy of it is open; -1 where another run holds the card.

    ``domain`` separates queues that have nothing to do with each other. Each side first binds its own name and then
    looks for the other side's, so that a run alone and a run that shares never both succeed.
    """
    alone, slots = _name(domain, uuid, b"alone"), list(_slots(domain, uuid))
    mine = _bind_first(slots if shared else [alone])
    if mine is None:
        return -1
    if _any_bound([alone] if shared else slots):
        mine.close()
        return -1
    return mine.detach()


def shown(domain: "bytes", uuid: "str") -> "str":
    """The name as ``ss -xa`` and /proc/net/unix print it."""
    return "@" + _name(domain, uuid, b"alone")[1:].decode("ascii")


def _slots(domain: "bytes", uuid: "str") -> "Iterator[bytes]":
    for number in range(SHARED_AT_MOST):
        yield _name(domain, uuid, b"shared-%d" % number)


def _name(domain: "bytes", uuid: "str", kind: "bytes") -> "bytes":
    """At most 107 bytes, of which a UUID is 40."""
    queue = hashlib.sha256(domain).hexdigest()[:12].encode("ascii")
    card = re.sub(r"[^\w.-]", "_", uuid).encode("ascii", "replace")[-60:]
    return b"\0holdfast-gpu-%s/%s/%s" % (queue, card, kind)


def _bind_first(names: "list[bytes]") -> "socket.socket | None":
    """A socket that is bound to the first of these names that is free."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        made.shutdown(socket.SHUT_RDWR)  # nothing can be sent to it
        for name in names:
            try:
                made.bind(name)
                return made
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
    except BaseException:
        made.close()
        raise
    made.close()
    return None


def _any_bound(names: "list[bytes]") -> "bool":
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        for name in names:
            try:
                probe.connect(name)
                return True
            except OSError as error:
                if error.errno != errno.ECONNREFUSED:
                    return True
    return False
