"""Numbers and ids that two nodes claim on one folder, where the lock holds within each node only."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from holdfast.model import Identity, Project
from holdfast.store import run_numbers
from holdfast.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = Project("/x", "11111111-1111-1111-1111-111111111111", "x")
NOW = 1_790_000_000.0


class _SlowClock:
    """A node that reads the clock, and is held up while another one claims twice."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._reads = 0
        self.others: list[Identity] = []

    def time(self) -> float:
        self._reads += 1
        if self._reads == 1:
            self.others = [run_numbers.claim(self._home, PROJECT) for _ in range(2)]
            return NOW
        return NOW + 0.001 * (self._reads - 2)


def test_node_that_was_held_up_gets_no_id_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Home, "lock", lambda _home, _name: contextlib.nullcontext())
    home = Home(str(tmp_path), "0" * 32)
    clock = _SlowClock(home)
    monkeypatch.setattr(run_numbers, "time", clock)
    slow = run_numbers.claim(home, PROJECT)
    claimed = [slow, *clock.others]
    assert len({one.run_id for one in claimed}) == len({one.run_number for one in claimed}) == 3, claimed


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("-dash", "dash_"),
        ("\u043f\u0440 \u2013x", "\u043f\u0440--x_"),
        ("\u6a21\u578b", "\u6a21\u578b_"),
        ("\u5199\u771f \u306e\u5206\u985e", "\u5199\u771f-\u306e\u5206\u985e_"),
        ("\u30d5\u309a", "\u30d7_"),
        ("\u0939\u093f", "\u0939\u093f_"),
        ("\u202ea\x1b[1m\u200bb", "a--1m-b_"),
        ("\u2014\udc80", "project_"),
        ("a-b", "a-b_"),
        ("", "project_"),
    ],
)
def test_run_id_never_begins_like_an_option(tmp_path: Path, name: str, begin: str) -> None:
    assert run_numbers.claim(Home(str(tmp_path), "0" * 32), PROJECT._replace(name=name)).run_id.startswith(begin)
