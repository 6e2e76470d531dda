"""An index that was flipped, emptied, cut, deleted or left amid a write gives the same answers as before."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from holdfast.store.home import Home
from holdfast.store.index import Index

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
    db.execute("UPDATE runs SET record = zeroblob(20000), project_id = 'nobody'")
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


DAMAGE = [
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
        (desk.home / "runs" / uid / "run.json").write_text(json.dumps(request))
    return home


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_answers_are_the_same(store: Home, damage: Callable[[Path, random.Random], None], desk: Desk) -> None:
    before = _answers(store)
    assert len(before) == 43
    index = desk.home / "index.sqlite"
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for number in range(ROUNDS // len(DAMAGE) + 1):
        damage(index, chance)
        assert _answers(store) == before, number
        assert index.with_name("index.sqlite.sum").exists(), "and it is kept again"
    assert desk.holdfast("history", "list", "-o", "json").json == before


def test_the_check_can_fail(store: Home, desk: Desk) -> None:
    """Without the checksum a changed record would be believed."""
    before = _answers(store)
    index = desk.home / "index.sqlite"
    whole = index.read_bytes()
    assert whole.count(b'"Completed"') > 1
    db = sqlite3.connect(index)
    db.execute("UPDATE runs SET record = replace(record, 'Completed', 'Falsified')")
    db.commit()
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    assert _answers(store) == before


def _answers(home: Home) -> list[dict[str, object]]:
    index = Index(home)
    try:
        assert index.kept
        project = str(index.of_store()[0]["experiment_id"])
        assert index.find(project, "100") == "0" * 32
        return index.of_project(project)
    finally:
        index.close()
