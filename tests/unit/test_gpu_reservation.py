"""A card is held alone or shared, until the last copy of its descriptor is closed."""

from __future__ import annotations

import array
import os
import socket

import pytest

from holdfast.runner.gpu.reservation import SHARED_AT_MOST, reserve, shown

CARD = "GPU-5b0e4d6c-0000-4000-8000-000000000001"


@pytest.fixture
def domain() -> bytes:
    return os.urandom(8)


def test_alone_excludes_all_and_shared_excludes_alone(domain: bytes) -> None:
    alone = reserve(domain, CARD, shared=False)
    assert alone >= 0
    assert [reserve(domain, CARD, shared=shared) for shared in (False, True)] == [-1, -1]
    other = [reserve(domain, CARD + "2", shared=False), reserve(domain + b"2", CARD, shared=False)]
    assert min(other) >= 0, "another card, and another queue"
    os.close(alone)
    shared = [reserve(domain, CARD, shared=True) for _ in range(SHARED_AT_MOST)]
    assert min(shared) >= 0
    assert [reserve(domain, CARD, shared=shared) for shared in (False, True)] == [-1, -1]
    os.close(shared.pop(0))
    shared.append(reserve(domain, CARD, shared=True))
    assert shared[-1] >= 0
    for descriptor in (*shared, *other):
        os.close(descriptor)
    last = reserve(domain, CARD, shared=False)
    assert last >= 0, "nothing is left behind"
    os.close(last)


def test_copy_in_an_unread_message_holds_the_card(domain: bytes) -> None:
    """As the guardian holds it: the message is never read and ends with its socket."""
    ours, guardians = socket.socketpair()
    mine = reserve(domain, CARD, shared=False)
    ours.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [mine]))])
    ours.close()
    os.close(mine)
    assert reserve(domain, CARD, shared=False) == -1
    guardians.close()
    again = reserve(domain, CARD, shared=False)
    assert again >= 0
    os.close(again)


def test_nothing_can_be_sent_to_it(domain: bytes) -> None:
    mine = reserve(domain, CARD, shared=False)
    name = shown(domain, CARD)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, pytest.raises(BrokenPipeError):
        sender.sendto(b"x", b"\0" + name[1:].encode())
    with open("/proc/net/unix") as source:
        assert name in source.read()
    os.close(mine)
