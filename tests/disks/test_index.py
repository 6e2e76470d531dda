"""An index that was flipped, emptied, cut, deleted or left amid a write gives the same answers as before."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

import seeds
from conftest import eventually
from holdfast.runner.store.jsonl import sealed
from holdfast.store.home import Home
from holdfast.store.index import files, rows
from holdfast.store.index.index import Index

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Desk

ROUNDS = 100
PAGE = 4096


def flip_a_bit(index: Path, chance: random.Random) -> None:
    whole = bytearray(index.read_bytes())
    whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
    index.write_bytes(whole)


def scribble_over_a_page(index: Path, chance: random.Random) -> None:
    with open(index, "r+b") as file:
        file.seek(chance.randrange(index.stat().st_size // PAGE) * PAGE)
        file.write(chance.randbytes(PAGE))


def empty(index: Path, chance: random.Random) -> None:
    index.write_bytes(b"")


def cut(index: Path, chance: random.Random) -> None:
    with open(index, "r+b") as file:
        file.truncate(chance.randrange(index.stat().st_size))


def delete(index: Path, chance: random.Random) -> None:
    index.unlink()


def leave_a_journal(index: Path, chance: random.Random) -> None:
    """As a writer leaves it that is killed with half a transaction in the file."""
    db = sqlite3.connect(index, isolation_level=None)
    db.execute("PRAGMA cache_size = 1")
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE runs SET reason = zeroblob(20000), experiment_id = 'nobody'")
    journal = index.with_name("index.sqlite-journal")
    kept = index.read_bytes(), journal.read_bytes()
    db.execute("ROLLBACK")
    db.close()
    index.write_bytes(kept[0])
    journal.write_bytes(kept[1])


def leave_somebody_elses_journal(index: Path, chance: random.Random) -> None:
    index.with_name("index.sqlite-journal").write_bytes(chance.randbytes(2 * PAGE))


def take_its_checksum_away(index: Path, chance: random.Random) -> None:
    index.with_name("index.sqlite.sum").write_text(chance.choice(("", "00000000\n", "\xe9")), encoding="latin-1")


def flip_a_bit_of_the_records(index: Path, chance: random.Random) -> None:
    flip_a_bit(index.with_name("index.sqlite.records"), chance)


def cut_the_records(index: Path, chance: random.Random) -> None:
    cut(index.with_name("index.sqlite.records"), chance)


def delete_the_records(index: Path, chance: random.Random) -> None:
    index.with_name("index.sqlite.records").unlink()


DAMAGE = [
    flip_a_bit_of_the_records,
    cut_the_records,
    delete_the_records,
    flip_a_bit,
    scribble_over_a_page,
    empty,
    cut,
    delete,
    leave_a_journal,
    leave_somebody_elses_journal,
    take_its_checksum_away,
]


@pytest.fixture
def store(desk: Desk) -> Home:
    desk.script("import holdfast, sys; holdfast.log('loss', int(sys.argv[1])); print('said')")
    for number in range(3):
        assert desk.submit("train.py", str(number)).code == 0
    home = Home(str(desk.home), json.loads((desk.home / "store.json").read_text())["id"])
    first = desk.attempt("1").parent
    for number in range(40):  # as many runs as make an index of several pages
        uid = f"{number:032x}"
        shutil.copytree(first, desk.home / "runs" / uid)
        request = json.loads((first / "run.json").read_text())
        request.update(uid=uid, run_id=f"project_{number + 1}", run_number=100 + number)
        del request["crc"]
        (desk.home / "runs" / uid / "run.json").write_bytes(sealed(request))
    return home


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_answers_are_the_same(store: Home, damage: Callable[[Path, random.Random], None], desk: Desk) -> None:
    before = _answers(store)
    assert len(before) == 43
    index = desk.home / "index.sqlite"
    chance = random.Random(seeds.seed())
    for number in range(ROUNDS // len(DAMAGE) + 1):
        damage(index, chance)
        assert _answers(store) == before, number
        assert index.with_name("index.sqlite.sum").exists(), "and it is kept again"
    assert desk.holdfast("history", "list", "-o", "json").json == before


UNFINISHED = "the last write to it was not completed"
OTHER_BYTES = "it is not what was last written"


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (flip_a_bit, OTHER_BYTES),
        (cut, OTHER_BYTES),
        (leave_a_journal, UNFINISHED),
        (take_its_checksum_away, UNFINISHED),
        (delete_the_records, UNFINISHED),
    ],
)
def test_verify_tells_a_write_that_was_cut_off_from_other_bytes(
    store: Home, damage: Callable[[Path, random.Random], None], what: str, desk: Desk
) -> None:
    before = _answers(store)
    damage(desk.home / "index.sqlite", random.Random(seeds.seed()))
    (problem,) = (row for row in desk.holdfast("store", "verify", "-o", "json").json if "index" in row["path"])
    assert what in problem["problem"]
    assert "no run is affected" in problem["todo"]
    assert _answers(store) == before  # which makes it again, as it said
    assert [row for row in desk.holdfast("store", "verify", "-o", "json").json if "index" in row["path"]] == []


def test_changed_record_is_found_only_by_its_checksum(store: Home, desk: Desk) -> None:
    """Without the checksum a changed record would be believed."""
    before = _answers(store)
    index = desk.home / "index.sqlite"
    db = sqlite3.connect(index)
    db.execute("UPDATE runs SET run_number = -run_number WHERE run_number < 100")
    db.commit()
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    believed = index.read_bytes()
    assert _answers(store) == before
    index.write_bytes(believed)
    files.seal(str(index), whole=True)
    assert _answers(store) != before


def test_a_large_file_is_believed_by_its_time(tmp_path: Path) -> None:
    """A large index is not read completely; every write to it is noticed, even within one tick."""
    path = tmp_path / "index.sqlite"
    (tmp_path / "index.sqlite.records").touch()
    with open(path, "wb") as file:
        file.truncate(files.LARGE + PAGE)
    for whole in (True, False):
        files.seal(str(path), whole=whole)
        assert files.is_sound(str(path))
        with open(path, "r+b") as file:
            file.write(b"\1")
        assert not files.is_sound(str(path))
        with open(path, "r+b") as file:
            file.write(b"\0")
        assert files.is_sound(str(path)) is whole, "with a sum, a new time alone is no damage"


def test_a_run_that_goes_on_does_not_write_the_index_again(desk: Desk) -> None:
    desk.script("import time; print('up', flush=True); time.sleep(600)")
    desk.submit("--no-wait", "train.py")
    eventually(lambda: desk.record()["status"] == "Running")
    home = Home(str(desk.home), json.loads((desk.home / "store.json").read_text())["id"])
    eventually(lambda: _settled(home))
    before = (desk.home / "index.sqlite").read_bytes()
    first, second = (_record(home) for _ in range(2))
    assert first["status"] == second["status"] == "Running"
    assert str(first["duration"]) < str(second["duration"])
    assert (desk.home / "index.sqlite").read_bytes() == before
    desk.holdfast("cancel")
    assert desk.wait_for_end()["status"] == "Canceled"
    assert _record(home)["status"] == "Canceled"


def test_many_runs_are_read_by_several_processes(store: Home, desk: Desk) -> None:
    uids = sorted(path.name for path in (desk.home / "runs").iterdir())
    one_by_one = [rows.read(store, uid) for uid in uids]
    together = list(rows.read_all(store, uids * 50))
    assert len(together) == 50 * len(uids)
    assert sorted(together)[::50] == sorted(one_by_one)


def _settled(home: Home) -> bool:
    index = Index(home)
    index.close()
    db = sqlite3.connect(home.index_file)
    try:
        return bool(db.execute("SELECT value != '0' FROM meta WHERE key = 'runs_mtime'").fetchone()[0])
    finally:
        db.close()


def _record(home: Home) -> dict[str, object]:
    index = Index(home)
    try:
        return index.of_store()[0]
    finally:
        index.close()


def _answers(home: Home) -> list[dict[str, object]]:
    index = Index(home)
    try:
        assert index.kept
        project = str(index.of_store()[0]["experiment_id"])
        assert index.find(project, "100") == "0" * 32
        return index.of_project(project)
    finally:
        index.close()
