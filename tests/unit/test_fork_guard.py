"""A child that is forked while a lock is held, or a connection open, keeps neither of them."""

from __future__ import annotations

import os
import select
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.engine.connection.transport import Transport
from holdfast.hosts.local import LocalHost
from holdfast.runner.store import object_removal, objects
from holdfast.store.locks import Lock, is_held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def forked_child() -> Iterator[None]:
    """A child that does nothing until the block ends, as a worker of a pool that has no work."""
    reader, writer = os.pipe()
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.write(begins, b"x")
        os.read(reader, 1)
        os._exit(0)
    os.read(begun, 1)
    for descriptor in (reader, begun, begins):
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def test_lock_of_the_store_is_free_after_its_release_though_a_child_was_forked(tmp_path: Path) -> None:
    path = str(tmp_path / "locks" / "ids")
    lock = Lock(path)
    lock.__enter__()
    with forked_child():
        assert is_held(path)  # the end of a copy does not release it
        lock.release()
        assert not is_held(path)
        with Lock(path, patience=0.1):
            assert is_held(path)


def test_objects_can_be_removed_after_a_batch_though_a_child_was_forked(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path / "objects")
    with objects.Batch(root) as batch:
        digest = batch.add_bytes(b"content")
        child = forked_child()
        child.__enter__()
        batch.commit()
    try:
        assert objects.read(root, digest) == b"content"
        lock = object_removal.lock_for_removal(root)
        assert lock is not None
        os.close(lock)
    finally:
        child.__exit__(None, None, None)


def test_command_on_a_target_ends_with_its_connection_though_a_child_was_forked() -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    transport = Transport(LocalHost().run(("cat",)))  # holds the pipe until it ends
    os.close(writer)
    with forked_child():
        transport.close()
        assert select.select([reader], [], [], 30)[0], "the command still runs"
    os.close(reader)


def test_lock_that_was_held_when_a_child_was_forked_can_be_left_and_taken_there(tmp_path: Path) -> None:
    path = str(tmp_path / "locks" / "ids")
    reader, writer = os.pipe()
    with Lock(path):
        child = os.fork()
    if child == 0:  # after the block: its end closes nothing that this process opened since
        with Lock(path):
            os.write(writer, b"held")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"held"
    os.close(reader)
    os.close(writer)
