"""Nothing is deleted by a clock that makes no sense, and what is deleted can be had back for a while."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.runner.machine import clock

if TYPE_CHECKING:
    from conftest import Desk, Result

DAY_S = 86400


@pytest.fixture(name="two")
def two_fixture(desk: Desk) -> Desk:
    """Two runs, each with its own content, in a store that keeps runs for a month and is a year old."""
    for name in ("first", "second"):
        desk.script(f"print({name!r})")
        assert desk.submit("train.py").code == 0
    assert desk.holdfast("config", "keepRuns", "30d").code == 0
    assert desk.holdfast("store", "prune", "--dry-run").code == 0
    _age(desk.home / "store.json", 400)
    return desk


@pytest.mark.parametrize("skew", ["+3650d", "+40d", "-3650d"])
@pytest.mark.parametrize("noted", [True, False], ids=["clock noted", "first look"])
def test_clock_that_is_years_off_deletes_nothing(two: Desk, skew: str, noted: bool) -> None:
    two.holdfast("store", "prune")
    if not noted:
        (two.home / "clock").unlink()
        for path in (*two.home.iterdir(), *(two.home / "runs").iterdir()):
            _age(path, 1)
    for _ in range(3):
        pruned = _at(two, skew, "store", "prune", "-o", "json")
        assert pruned.code == 0
        assert {row["count"] for row in pruned.json if row["what"] != "leftovers"} == {0}, pruned
        assert "the clock shows" in pruned.err
        assert "--clock-is-right" in pruned.err
    _age(two.home / "cache" / "upkeep", -3649 if skew == "+3650d" else 5)
    after = _at(two, skew, "submit", "-c", "local", "train.py")  # has the daily upkeep on its way out
    assert after.code == 0
    assert len(two.holdfast("history", "list", "-o", "json").json) == 3
    assert not (two.home / "trash").exists()
    assert "the clock shows" not in two.holdfast("store", "prune").err, "the clock is right again"


def test_clock_that_a_person_confirms_is_believed(two: Desk) -> None:
    two.holdfast("store", "prune")
    assert _at(two, "+90d", "store", "prune", "--clock-is-right").code == 0
    assert two.holdfast("history", "list", "-o", "json").json == []
    assert {row["run_number"] for row in two.holdfast("history", "undelete", "-o", "json").json} == {1, 2}


@pytest.mark.parametrize("days", [-5, 400 + 10, 20_000])
def test_run_with_an_age_that_makes_no_sense_stays(two: Desk, days: float) -> None:
    """It ends in the future, before its store was made, or in 1970."""
    _age(two.attempt("1") / "events.jsonl", days)
    two.holdfast("store", "prune")
    assert len(two.holdfast("history", "list", "-o", "json").json) == 2


def test_expired_run_goes_to_the_trash_and_comes_back_whole(two: Desk) -> None:
    uid = two.record("1")["uid"]
    _age(two.attempt("1") / "events.jsonl", 40)
    for path in (two.home / "objects").rglob("*"):
        _age(path, 40)
    planned = {row["what"]: row["count"] for row in two.holdfast("store", "prune", "--dry-run", "-o", "json").json}
    assert planned["runs, to the trash"] == 1
    assert two.holdfast("store", "prune").code == 0
    assert [row["run_number"] for row in two.holdfast("history", "list", "-o", "json").json] == [2]
    assert (two.home / "trash" / uid / "run.json").exists()
    used = {row["what"]: row["bytes"] for row in two.holdfast("du", "-o", "json").json}
    assert used["trash"] > 0
    assert two.holdfast("history", "undelete", "-r", "1").code == 0
    assert two.record("1")["status"] == "Completed"
    assert two.holdfast("logs", "-r", "1").out == b"first\n"
    assert two.holdfast("store", "verify").code == 0, "its snapshot was kept with it"
    assert two.submit("train.py").code == 0
    assert two.record("last")["run_number"] == 3


def test_trash_is_emptied_when_its_time_is_over(two: Desk) -> None:
    assert two.holdfast("history", "delete", "-r", "1", "-r", "2", "--yes").code == 0
    first, second = sorted((two.home / "trash").iterdir())
    two.holdfast("store", "prune")
    assert first.exists()
    _age(first, 15)
    _age(second, -15)  # deleted in the future
    freed = {row["what"]: row["count"] for row in two.holdfast("store", "prune", "-o", "json").json}
    assert freed["trash"] == 1
    assert not first.exists()
    assert second.exists()
    assert two.holdfast("store", "prune", "--empty-trash").code == 0
    assert list((two.home / "trash").iterdir()) == []


def test_prune_says_what_it_keeps_for_being_young(two: Desk) -> None:
    """A submit may be about to use it."""
    assert two.holdfast("history", "delete", "-r", "1", "-r", "2", "--yes", "--now").code == 0
    result = two.holdfast("store", "prune", "-o", "json")
    row = next(row for row in result.json if row["what"] == "objects")
    assert (row["count"], row["young"] > 2, row["young_bytes"] > 0) == (0, True, True)
    assert row["note"] == f"{row['young']} more ({row['young_bytes']} B) kept: younger than an hour"
    assert row["note"] in two.holdfast("store", "prune", "-o", "table").out.decode()
    for path in (two.home / "objects").rglob("*"):
        _age(path, 1)
    row = next(row for row in two.holdfast("store", "prune", "-o", "json").json if row["what"] == "objects")
    assert (row["count"] > 2, row["young"], row["note"]) == (True, 0, "")


def test_delete_now_goes_around_the_trash(two: Desk) -> None:
    assert two.holdfast("history", "delete", "-r", "1", "--yes", "--now").code == 0
    assert two.holdfast("history", "undelete", "-o", "json").json == []
    refused = two.holdfast("history", "undelete", "-r", "1")
    assert refused.code == 2
    assert "trash" in refused.err


def test_doubted_clock_is_believed_after_a_week_of_even_time(tmp_path: Path) -> None:
    home = os.fsencode(tmp_path)
    note = tmp_path / "clock"
    assert clock.look(home).doubt == ""
    _change(note, "last", wall=-400 * DAY_S, boot="another boot")
    assert clock.look(home).doubt
    assert clock.look(home).doubt, "a second look is no proof"
    _change(note, "suspect", wall=-8 * DAY_S, boot="another boot")
    assert clock.look(home).doubt == ""
    assert clock.look(home).doubt == ""


def test_jump_within_one_boot_is_noticed_by_the_time_that_really_passed(tmp_path: Path) -> None:
    home = os.fsencode(tmp_path)
    clock.look(home)
    _change(tmp_path / "clock", "last", wall=-5 * DAY_S)
    assert clock.look(home).doubt
    assert clock.look(home, confirmed=True).doubt == ""
    assert clock.look(home).doubt == ""


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"last": []}', b'{"last": {"wall": "x"}}', b"\0" * 50])
def test_damaged_note_of_the_clock_is_like_none(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "clock").write_bytes(damage)
    assert clock.look(os.fsencode(tmp_path)).doubt == ""


def _change(note: Path, name: str, **by: Any) -> None:
    noted = json.loads(note.read_bytes())
    for key, value in by.items():
        noted[name][key] = value if isinstance(value, str) else noted[name][key] + value
    note.write_text(json.dumps(noted))


def _age(path: Path, days: float) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then), follow_symlinks=False)


def _at(desk: Desk, skew: str, *words: str) -> Result:
    """The command with the clock set forward or back, as by a dead battery or a wrong time server."""
    libraries = [*Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), *Path("/usr/lib").glob("faketime/*.so.1")]
    if not libraries:
        pytest.skip("NOT TESTED: libfaketime sets the clock")
    plain = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}
    plain |= {"NO_FAKE_STAT": "1", "FAKETIME_DONT_RESET": "1"}
    return desk.holdfast(*words, env={"LD_PRELOAD": str(libraries[0]), "FAKETIME": skew, **plain})
