"""A store with one of everything in it, and bits flipped in all of its files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import seeds
from holdfast.store import audit
from holdfast.store.home import Home

if TYPE_CHECKING:
    from conftest import Desk

SCRIPT = """
import holdfast, os, sys
for step in range(50): holdfast.log('loss', 1 / (step + 1), step=step)
holdfast.log('words', 'three plain words')
print('said once')
os.makedirs('outputs/deep')
open('outputs/deep/model.bin', 'wb').write(os.urandom(5000))
os.symlink('deep/model.bin', 'outputs/latest')
sys.exit(int(sys.argv[1]))
"""
KINDS = {"events.jsonl", "log", "runner.log", "plan.json", "outputs.jsonl", "control.jsonl", "metrics", "deep"}


def sound_store(desk: Desk) -> Home:
    """Two runs, one of them canceled, a saved state and caches, all of it undamaged."""
    desk.script(SCRIPT)
    desk.script("import time; print('up', flush=True); time.sleep(600)", "long.py")
    (desk.project / "data").mkdir()
    (desk.project / "data" / "rows.csv").write_text("a,b\n1,2\n" * 100)
    assert desk.submit("train.py", "0").code == 0
    desk.submit("--no-wait", "long.py")
    assert desk.holdfast("cancel").code == 0
    desk.wait_for_end()
    desk.script("changed = 1", "data/more.py")
    assert desk.holdfast("restore", "-r", "1").code == 0
    assert desk.holdfast("history", "list").code == 0
    clean = desk.holdfast("store", "verify")
    assert (clean.code, clean.out) == (0, b""), clean
    return Home(str(desk.home), json.loads((desk.home / "store.json").read_text())["id"])


def flip_bits(store: Home, count: int) -> None:
    """Flip one bit at a time, each file in its turn; the audit must name the file, and be content once it is mended."""
    files = _protected(Path(store.path))
    assert {path.name if path.parent.name == "a1" else path.parent.name for path in files} >= KINDS
    chance = random.Random(seeds.seed())
    for number in range(count):
        path = files[number % len(files)]
        mode = path.stat().st_mode
        path.chmod(0o600)
        whole = path.read_bytes()
        at, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        found = audit.audit(store, _no_progress)
        assert any(problem.path in (str(path), *map(str, path.parents)) for problem in found), (path, at, bit, found)
        path.write_bytes(whole)
        path.chmod(mode)
    assert audit.audit(store, _no_progress) == []


def _protected(home: Path) -> list[Path]:
    """Every file that verify answers for. The rest is locks, shims, compiled modules, and notes that only save time."""
    kept = [path for place in ("objects", "runs", "runner") for path in (home / place).rglob("*")]
    kept += [home / "index.sqlite", *home.glob("cache/stat2-*")]
    files = [path for path in kept if path.is_file() and not path.is_symlink() and path.stat().st_size]
    return [
        path
        for path in files
        if not {"__pycache__", "code", "work", "workspace", "tmp"} & set(path.relative_to(home).parts)
    ]


def _no_progress(_files: int, _bytes: int) -> None:
    """No listener."""
