"""No logged value is lost or duplicated, whichever process is killed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from .points import SCRIPT, VICTIMS, count, play

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk


def test_values_survive_kills(desk: Desk, tmp_path: Path) -> None:
    assert not trouble(desk, tmp_path, kills=6, points=2000, seed=9)


def test_a_mirror_that_loses_or_doubles_is_found_out(desk: Desk, tmp_path: Path) -> None:
    elsewhere = prepare(desk, tmp_path)
    played = play(desk, elsewhere, tmp_path / "run", 500, random.Random(1))
    assert (played.lost, played.twice) == (0, 0)
    file = max(desk.home.glob("runs/*/a1/metrics/*.m"), key=lambda path: path.stat().st_size)
    whole = file.read_bytes()
    file.write_bytes(whole[:64] + whole[64 + 32 :])
    assert count(desk, played.uid, tmp_path / "run").lost == 1
    file.write_bytes(whole + whole[64 : 64 + 32])
    assert count(desk, played.uid, tmp_path / "run").twice == 1


def prepare(desk: Desk, place: Path) -> Path:
    """A target that keeps another store, so that what is looked at has travelled."""
    elsewhere = place / "elsewhere"
    desk.script(f"type: local\nroot: {elsewhere}\n", "aml_config/local.compute")
    desk.trust("local")
    desk.script(SCRIPT)
    return elsewhere


def trouble(desk: Desk, place: Path, kills: int, points: int, seed: int) -> list[object]:
    elsewhere = prepare(desk, place)
    chance = random.Random(seed)
    counted = [play(desk, elsewhere, place / f"run{number}", points, chance) for number in range(kills)]
    struck = {victim: sum(one.victim == victim for one in counted) for victim in VICTIMS}
    print(f"seed {seed}: {sum(one.told for one in counted):,} values told, {struck}")
    return [one for one in counted if one.lost or one.twice]
