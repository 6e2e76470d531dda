"""What is sealed for an attempt that waits: opened by its key alone, claimed by one process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.runner.run import waiting

if TYPE_CHECKING:
    from pathlib import Path

KEY = bytes(range(32))
FIXTURE = "686f6c6466617374207365616c656420310a459070ebbd6c6a7ef9bce6686d71caef3478428f13cff833d4848f1e68fc64a6ae7c9b"
TOLD: dict[str, object] = {"env": {"TOKEN": "hunter2", "NAME": "caf\udce9"}, "on_end": ""}


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 100, os.urandom(100_000)], ids=["empty", "one", "zeros", "large"])
def test_what_is_sealed_is_opened_by_the_same_key(data: bytes) -> None:
    assert waiting.unseal(KEY, waiting.seal(KEY, data)) == data


def test_sealed_form_is_the_one_that_is_documented() -> None:
    """A job may have been handed over by an older version."""
    sealed = "686f6c6466617374207365616c656420310a"
    assert waiting.seal(KEY, b"abc").hex().startswith(sealed)
    assert waiting.unseal(KEY, bytes.fromhex(FIXTURE)) == b"abc"


def test_what_is_sealed_does_not_show_what_it_holds() -> None:
    assert b"hunter2" not in waiting.seal(KEY, b"hunter2" * 100)
    assert waiting.seal(KEY, b"\0" * 64)[-32:] != waiting.seal(os.urandom(32), b"\0" * 64)[-32:]


def test_another_key_or_a_changed_byte_opens_nothing() -> None:
    sealed = waiting.seal(KEY, b"hunter2")
    with pytest.raises(waiting.Unreadable):
        waiting.unseal(os.urandom(32), sealed)
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(waiting.Unreadable):
            waiting.unseal(KEY, bytes(changed))
    for size in range(len(sealed)):
        with pytest.raises(waiting.Unreadable):
            waiting.unseal(KEY, sealed[:size])


def test_secrets_come_back_as_they_were_and_the_file_is_private(tmp_path: Path) -> None:
    attempt = os.fsencode(tmp_path)
    waiting.keep_secrets(attempt, KEY, TOLD)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o600
    assert waiting.open_secrets(attempt, KEY) == TOLD
    waiting.drop_secrets(attempt)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(waiting.Unreadable):
        waiting.open_secrets(attempt, KEY)


def test_only_one_process_is_given_the_claim(tmp_path: Path) -> None:
    attempt = os.fsencode(tmp_path)
    assert not waiting.claim(attempt)
    waiting.put(attempt)
    assert waiting.is_waiting(attempt)
    assert [waiting.claim(attempt), waiting.claim(attempt)] == [True, False]
    assert not waiting.is_waiting(attempt)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"job": null}', b"[" * 100_000], ids=range(5))
def test_a_job_that_cannot_be_read_is_not_known(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "job.json").write_bytes(content)
    assert waiting.job(os.fsencode(tmp_path)) == ""
    waiting.note_job(os.fsencode(tmp_path), "1234.server")
    assert waiting.job(os.fsencode(tmp_path)) == "1234.server"
