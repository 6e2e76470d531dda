"""Checkout: the same files again, or an error that names the file, and never a byte outside."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.runner.store import objects, stable_read
from holdfast.runner.store.checkout import checkout
from holdfast.runner.store.objects import Batch, Damaged, Entry, encode_tree
from lab.pythons import VERSIONS, python_of

SOURCE = Path(__file__).parents[2] / "src"
HOSTILE = [b"new\nline", b"'\"", b"-rf", b"$(x)", "😀é".encode(), b"\xff\xfe", b"n" * 255, b"dot.", b" ", b"A", b"a"]
HOSTILE += ["\u00e9".encode(), "e\u0301".encode()]


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    return os.fsencode(tmp_path / "objects")


def store(root: bytes, files: dict[bytes, bytes], *others: Entry) -> str:
    with Batch(root) as batch:
        entries = [
            Entry(name, "file", content.startswith(b"#!"), len(content), batch.add_bytes(content), b"")
            for name, content in files.items()
        ]
        tree = batch.add_bytes(encode_tree([*entries, *others]))
        batch.commit()
    return str(tree)


def folder(name: bytes, tree: str) -> Entry:
    return Entry(name, "dir", False, 0, tree, b"")


def link(name: bytes, target: bytes) -> Entry:
    return Entry(name, "link", False, 0, "", target)


def test_files_folders_links_and_modes_come_back(root: bytes, tmp_path: Path) -> None:
    inner = store(root, {b"data": b"x" * (stable_read.CHUNK + 7)})
    tree = store(root, {b"run.sh": b"#!/bin/sh\n", b"empty": b""}, folder(b"d", inner), link(b"l", b"../gone"))
    umask = os.umask(0o027)
    try:
        assert checkout(root, tree, os.fsencode(tmp_path / "w")) == (3, stable_read.CHUNK + 7 + 10)
    finally:
        os.umask(umask)
    assert (tmp_path / "w/d/data").read_bytes() == b"x" * (stable_read.CHUNK + 7)
    assert os.readlink(tmp_path / "w/l") == "../gone"
    assert [(tmp_path / "w" / name).stat().st_mode & 0o777 for name in ("run.sh", "empty", "d")] == [
        0o750,
        0o640,
        0o750,
    ]


def test_a_copy_shares_nothing_with_the_store(root: bytes, tmp_path: Path) -> None:
    tree = store(root, {b"f": b"before"})
    checkout(root, tree, os.fsencode(tmp_path / "w"))
    (tmp_path / "w/f").write_bytes(b"after!")
    assert (tmp_path / "w/f").stat().st_nlink == 1
    checkout(root, tree, os.fsencode(tmp_path / "again"))
    assert (tmp_path / "again/f").read_bytes() == b"before"


def test_hostile_names_come_back_byte_by_byte(root: bytes, tmp_path: Path) -> None:
    tree = store(root, {name: name for name in HOSTILE})
    checkout(root, tree, os.fsencode(tmp_path / "w"))
    assert sorted(os.listdir(os.fsencode(tmp_path / "w"))) == sorted(HOSTILE)


def test_skipped_paths_are_left_for_links(root: bytes, tmp_path: Path) -> None:
    inner = store(root, {b"big": b"1", b"small": b"2"})
    tree = store(root, {b"f": b"3"}, folder(b"d", inner), folder(b"data", inner))
    assert checkout(root, tree, os.fsencode(tmp_path / "w"), (b"d/big", b"data")) == (2, 2)
    assert sorted(os.listdir(tmp_path / "w")) == ["d", "f"]
    assert os.listdir(tmp_path / "w/d") == ["small"]


def test_an_existing_folder_is_never_filled(root: bytes, tmp_path: Path) -> None:
    tree = store(root, {b"f": b"x"})
    (tmp_path / "w").mkdir()
    (tmp_path / "w/mine").write_text("keep")
    with pytest.raises(FileExistsError):
        checkout(root, tree, os.fsencode(tmp_path / "w"))
    assert os.listdir(tmp_path / "w") == ["mine"]


def test_a_tree_cannot_write_through_its_own_link(root: bytes, tmp_path: Path) -> None:
    """Two rows of one name are the only way to plant a link and then write through it."""
    (tmp_path / "outside").mkdir()
    digest = store(root, {b"f": b"x"})
    rows = [
        {"name": "d", "type": "link", "target": str(tmp_path / "outside")},
        {"name": "d", "type": "dir", "digest": digest},
    ]
    with Batch(root) as batch:
        tree = batch.add_bytes(json.dumps({"entries": rows, "v": 1}).encode())
        batch.commit()
    with pytest.raises(Damaged, match="repeated"):
        checkout(root, tree, os.fsencode(tmp_path / "w"))
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize("missing", [b"f", b"d/g", b"d"])
def test_a_missing_object_is_told_by_its_path_and_nothing_is_left(root: bytes, tmp_path: Path, missing: bytes) -> None:
    inner = store(root, {b"g": b"2"})
    tree = store(root, {b"f": b"1"}, folder(b"d", inner))
    digests = {
        b"d": inner,
        b"f": objects.read_tree(root, tree)[1].digest,
        b"d/g": objects.read_tree(root, inner)[0].digest,
    }
    objects.discard(root, digests[missing])
    with pytest.raises(Damaged, match="missing") as caught:
        checkout(root, tree, os.fsencode(tmp_path / "w"))
    assert caught.value.path.rstrip(b"/") == missing
    assert not (tmp_path / "w").exists()


def flip(path: Path, bit: int) -> None:
    path.chmod(0o600)
    with path.open("r+b") as stream:
        stream.seek(bit // 8)
        byte = stream.read(1)[0]
        stream.seek(bit // 8)
        stream.write(bytes((byte ^ 1 << bit % 8,)))


def test_every_flipped_bit_is_found_before_the_script_starts(root: bytes, tmp_path: Path) -> None:
    rng = random.Random(52)
    inner = store(root, {b"data": rng.randbytes(3000)})
    tree = store(root, {b"train.py": b"print()" * 40, b"one": b"1"}, folder(b"d", inner))
    stored = [path for path in Path(os.fsdecode(root)).glob("??/*") if path.is_file()]
    assert len(stored) == 5
    for round_ in range(1000):
        path = rng.choice(stored)
        bit = rng.randrange(path.stat().st_size * 8)
        flip(path, bit)
        with pytest.raises(Damaged):
            checkout(root, tree, os.fsencode(tmp_path / "w"))
        assert not (tmp_path / "w").exists(), f"round {round_}"
        flip(path, bit)
    checkout(root, tree, os.fsencode(tmp_path / "w"))


@pytest.mark.parametrize("change", [-1, 1])
def test_an_object_of_another_length_is_found(root: bytes, tmp_path: Path, change: int) -> None:
    tree = store(root, {b"f": b"x" * 5000})
    path = Path(os.fsdecode(objects.object_path(root, objects.read_tree(root, tree)[0].digest)))
    path.chmod(0o600)
    path.write_bytes(b"x" * (5000 + change))
    with pytest.raises(Damaged, match="size"):
        checkout(root, tree, os.fsencode(tmp_path / "w"))


def test_a_tree_of_endless_depth_is_refused(root: bytes, tmp_path: Path) -> None:
    with Batch(root) as batch:
        tree = batch.add_bytes(encode_tree([]))
        for _ in range(objects.MAX_DEPTH + 1):
            tree = batch.add_bytes(encode_tree([folder(b"d", tree)]))
        batch.commit()
    with pytest.raises(Damaged, match="deeper"):
        checkout(root, tree, os.fsencode(tmp_path / "w"))


ROUND_TRIP = """
import os, sys
from holdfast.runner.store import checkout, object_removal, objects
base = os.fsencode(sys.argv[1])
name = b"\\xc3\\xa9\\xff\\n"
with objects.Batch(base + b"/o") as batch:
    digest = batch.add_bytes(b"x" * 10)
    entries = [objects.Entry(name, "file", True, 10, digest, b""), objects.Entry(b"l", "link", False, 0, "", name)]
    tree = batch.add_bytes(objects.encode_tree(entries))
    batch.commit()
assert objects.missing(base + b"/o", tree) == []
assert checkout.checkout(base + b"/o", tree, base + b"/w") == (1, 10)
assert sorted(os.listdir(base + b"/w")) == sorted([name, b"l"])
assert object_removal.sweep(base + b"/o") == 0
"""


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_every_interpreter_agrees_under_a_bare_locale(version: str, tmp_path: Path) -> None:
    # The package's own __init__ is the client's; a target has only the runner.
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast/__init__.py").touch()
    (tmp_path / "holdfast/runner").symlink_to(SOURCE / "holdfast/runner")
    env = {"PYTHONPATH": str(tmp_path), "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([python_of(version), "-W", "error", "-c", ROUND_TRIP, tmp_path], env=env, check=True)


def test_reflink_is_left_alone_where_there_is_none(root: bytes, tmp_path: Path) -> None:
    """On every file system the result is the same: reflinked or copied, never linked."""
    tree = store(root, {b"%d" % number: os.urandom(5000) for number in range(20)})
    assert checkout(root, tree, os.fsencode(tmp_path / "w")) == (20, 100_000)
    assert sys.platform != "linux" or all(path.stat().st_nlink == 1 for path in (tmp_path / "w").iterdir())
