"""Bytes from elsewhere as text."""

from __future__ import annotations

import pytest

from holdfast.runner import decoding

ODD = b"caf\xc3\xa9 \xff\x80"


def test_each_purpose_has_its_form() -> None:
    assert decoding.readable(ODD) == "café \ufffd\ufffd"
    assert decoding.escaped(ODD) == "café \\xff\\x80"
    assert decoding.lossless(ODD) == "café \udcff\udc80"


@pytest.mark.parametrize("data", [b"", b"plain", ODD, bytes(range(256))])
def test_lossless_text_gives_the_same_bytes_again(data: bytes) -> None:
    assert decoding.as_bytes(decoding.lossless(data)) == data
