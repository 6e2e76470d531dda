"""``holdfast store verify``: whatever bit is flipped, wherever, is found; what can be made again is made again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from disks.flips import flip_bits, sound_store

if TYPE_CHECKING:
    from conftest import Desk
    from holdfast.store.home import Home

FLIPS = 400


@pytest.fixture(name="store")
def store_fixture(desk: Desk) -> Home:
    return sound_store(desk)


def test_every_flipped_bit_is_found(store: Home) -> None:
    flip_bits(store, FLIPS)


def test_what_is_damaged_is_named_with_its_use_and_what_to_do(desk: Desk, store: Home) -> None:
    damaged = _object_of(desk, b"a,b\n")
    damaged.chmod(0o600)
    damaged.write_bytes(damaged.read_bytes().replace(b"1", b"3", 1))
    result = desk.holdfast("store", "verify", "-o", "json")
    assert result.code == 74
    (problem,) = result.json
    assert problem["path"] == str(damaged)
    assert "does not match" in problem["problem"]
    assert "data/rows.csv of project_" in problem["problem"]
    assert problem["todo"] == "holdfast store verify --repair"
    table = desk.holdfast("store", "verify", "-o", "table")
    assert str(damaged) in table.text
    assert "1 remaining" in table.err


def test_repair_and_the_next_submit_put_a_damaged_file_right(desk: Desk, store: Home) -> None:
    damaged = _object_of(desk, b"a,b\n")
    good = damaged.read_bytes()
    damaged.chmod(0o600)
    damaged.write_bytes(b"x" * len(good))
    repaired = desk.holdfast("store", "verify", "--repair")
    assert repaired.code == 74  # the runs that used it lack it until it is stored again
    assert "submit" in repaired.json[0]["todo"]
    assert (desk.home / "objects" / "damaged" / (damaged.parent.name + damaged.name)).read_bytes() == b"x" * len(good)
    assert desk.submit("train.py", "0").code == 0
    assert damaged.read_bytes() == good
    assert desk.holdfast("store", "verify").code == 0


@pytest.mark.parametrize("damage", ["flip", "cut", "missing"])
def test_a_damaged_object_costs_one_submit(desk: Desk, store: Home, damage: str) -> None:
    """It is found before the script starts, and the next submit has stored it again."""
    damaged = _object_of(desk, b"a,b\n")
    good = damaged.read_bytes()
    damaged.chmod(0o600)
    if damage == "missing":
        damaged.unlink()
    else:
        damaged.write_bytes(good.replace(b"1", b"3", 1) if damage == "flip" else good[:-1])
    refused = desk.submit("train.py", "0")
    assert refused.code == 74
    assert b"said once" not in refused.out
    assert "data/rows.csv" in refused.err
    assert "submit again" in refused.err
    assert desk.submit("train.py", "0").code == 0
    assert damaged.read_bytes() == good
    assert desk.holdfast("store", "verify").code == 0


def test_on_another_store_too_the_next_submit_sends_it_again(desk: Desk, tmp_path: Path) -> None:
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text(f"type: local\nroot: {tmp_path / 'elsewhere'}\n")
    desk.trust("local")
    desk.script("print(open('data.txt').read())")
    (desk.project / "data.txt").write_text("precious")
    assert desk.submit("train.py").code == 0
    (damaged,) = [path for path in _objects(tmp_path / "elsewhere") if path.read_bytes() == b"precious"]
    damaged.chmod(0o600)
    damaged.write_bytes(b"precioux")
    assert desk.submit("train.py").code == 74
    assert b"precious" in desk.submit("train.py").out


def test_a_counter_that_would_give_a_number_twice_is_found_and_put_right(desk: Desk, store: Home) -> None:
    project = json.loads((desk.project / ".holdfast-project").read_text())["id"]
    (desk.home / "numbers" / project).write_text("0\n")
    assert desk.holdfast("store", "verify", "--repair").code == 0
    desk.submit("train.py", "0")
    assert desk.record()["run_number"] == 3


def test_a_run_that_is_going_is_no_problem(desk: Desk, store: Home) -> None:
    desk.submit("--no-wait", "long.py")
    assert desk.holdfast("store", "verify").code == 0
    desk.holdfast("cancel")


def test_repair_touches_no_run(desk: Desk, store: Home) -> None:
    log = desk.attempt("1") / "log"
    log.write_bytes(b"said 0nce\n")
    before = {path: path.read_bytes() for path in (desk.home / "runs").rglob("*") if path.is_file()}
    result = desk.holdfast("store", "verify", "--repair")
    assert result.code == 74
    assert result.json[0]["path"] == str(log)
    assert {path: path.read_bytes() for path in (desk.home / "runs").rglob("*") if path.is_file()} == before


def test_prune_keeps_what_a_damaged_folder_may_have_spoken_of(desk: Desk, store: Home) -> None:
    for path in (desk.home / "objects").glob("??/*"):
        os.utime(path, (0, 0))
    before = _objects(desk.home)
    tree = json.loads((desk.attempt("1").parent / "run.json").read_text())["tree"]
    damaged = desk.home / "objects" / tree[:2] / tree[2:]
    damaged.chmod(0o600)
    damaged.write_bytes(damaged.read_bytes().replace(b"dir", b"dxr"))
    freed = desk.holdfast("store", "prune", "-o", "json").json
    assert any(row.get("note", "").startswith("nothing removed") for row in freed)
    assert _objects(desk.home) == before


def _object_of(desk: Desk, beginning: bytes) -> Path:
    (found,) = [path for path in _objects(desk.home) if path.read_bytes().startswith(beginning)]
    return found


def _objects(home: Path) -> list[Path]:
    return [path for path in (home / "objects").glob("??/*") if path.is_file()]


@pytest.mark.parametrize(
    "text", ["[]", '{"keepRuns": [1]}', '{"keepWork": {}}', '{"keepTrash": "soon"}', "{", '{"onEnd": null}']
)
def test_settings_that_are_none_are_found_and_left_for_a_person(desk: Desk, store: Home, text: str) -> None:
    (desk.home / "settings.json").write_text(text)
    for words in (("store", "verify"), ("store", "verify", "--repair")):
        result = desk.holdfast(*words)
        assert result.code == 74, result
        assert "settings.json" in result.text
    (desk.home / "settings.json").write_text('{"keepRuns": "30d", "aNewerSetting": "x"}')
    assert desk.holdfast("store", "verify").code == 0
