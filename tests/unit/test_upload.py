"""What is sent of an object that replaces another one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.submit.upload import difference
from holdfast.runner.store.uploads import Arrivals

if TYPE_CHECKING:
    from pathlib import Path

LINES = [b"%d: %s\n" % (number, os.urandom(20).hex().encode()) for number in range(1000)]
# Few different pieces, so that they repeat, change places and lie at the ends.
TEXTS = st.lists(st.sampled_from([b"", b"a", b"b", b"aa", b"\n"]), max_size=12).map(b"\n".join)


@given(old=TEXTS, new=TEXTS)
def test_the_new_can_always_be_made_from_the_old(old: bytes, new: bytes) -> None:
    spans, fresh = difference(old, new, b"\n")
    assert _made(old, spans, fresh) == new
    assert sum(length for place, length in spans if place < 0) == len(fresh)


def test_a_changed_line_is_all_that_is_sent() -> None:
    old, changed = b"".join(LINES), [*LINES[:500], b"changed\n", *LINES[501:]]
    spans, fresh = difference(old, b"".join(changed), b"\n")
    assert fresh == b"changed\n"
    assert len(spans) == 3


def test_lines_that_moved_are_not_sent() -> None:
    spans, fresh = difference(b"".join(LINES), b"".join([*LINES[700:], *LINES[:700]]), b"\n")
    assert (len(spans), fresh) == (2, b"")


def test_lines_that_repeat_go_on_where_the_last_ones_were() -> None:
    old = b"".join(line + b"\n" for line in LINES)
    spans, fresh = difference(old, old[:-1] + b"end\n", b"\n")
    assert (len(spans), fresh) == (2, b"end\n")


def test_what_it_is_made_from_may_be_gone(tmp_path: Path) -> None:
    arrivals = Arrivals(os.fsencode(tmp_path))
    gone, wanted = "0" * 64, "1" * 64
    arrivals.add(b"new", {"digest": wanted, "base": gone, "spans": [[0, 5], [-1, 3]]})
    arrivals.add(b"", {"digest": wanted, "at": 0, "size": 9, "copy": gone, "span": 5})
    arrivals.add(b"rest", {"digest": wanted, "at": 5, "size": 9})
    assert arrivals.take_refusal() == ""
    assert arrivals.lacks([wanted])[0] == [wanted]


def test_what_was_begun_is_told_until_it_is_old(tmp_path: Path) -> None:
    wanted, other = "1" * 64, "2" * 64
    Arrivals(os.fsencode(tmp_path)).add(b"begun", {"digest": wanted, "at": 0, "size": 9})
    arrivals = Arrivals(os.fsencode(tmp_path))
    assert arrivals.lacks([other, wanted]) == ([other, wanted], {wanted: 5})
    (half,) = (tmp_path / "arriving").iterdir()
    os.utime(half, (0, 0))
    assert arrivals.lacks([wanted]) == ([wanted], {})
    assert not half.exists()


def _made(old: bytes, spans: list[list[int]], fresh: bytes) -> bytes:
    made, at = [], 0
    for place, length in spans:
        made.append(fresh[at : at + length] if place < 0 else old[place : place + length])
        at += length if place < 0 else 0
    return b"".join(made)
