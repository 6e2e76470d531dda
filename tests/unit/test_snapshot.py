"""Snapshots: the project byte by byte, read once, stored once, whatever it holds."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigError
from holdfast.runner.store import object_removal, objects, stable_read
from holdfast.runner.store.checkout import checkout
from holdfast.snapshot import snapshot
from holdfast.snapshot.stat_cache import StatCache

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = [b"new\nline", b"'\"", b"-rf", b"$(x)", "😀".encode(), b"\xff\xfe", b"n" * 255, b"dot.", b" ", b"A", b"a"]
HOSTILE += ["\u00e9".encode(), "e\u0301".encode(), b"\x1b[31m", b"\\"]
NOBODY = 65534


class Desk:
    """A project, a store and a stat cache."""

    def __init__(self, place: Path) -> None:
        self.root = place / "project"
        self.objects = place / "store/objects"
        self.cache = place / "store/cache/stat"
        self.root.mkdir()

    def write(self, name: str, content: bytes = b"") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def scan(self) -> snapshot.Pending:
        return snapshot.scan(str(self.root), cache=str(self.cache))

    def take(self, *skip: str, skip_unreadable: bool = False) -> snapshot.Snapshot:
        return snapshot.take(
            str(self.root),
            objects=str(self.objects),
            cache=str(self.cache),
            skip=skip,
            skip_unreadable=skip_unreadable,
        )

    def settle(self) -> None:
        """Wait until nothing is young enough to be racily clean, and let the cache know it."""
        newest = max(path.lstat().st_ctime_ns for path in [self.root, *self.root.rglob("*")])
        while time.time_ns() < newest + 110_000_000:
            time.sleep(0.01)
        self.take()

    def missing(self, tree: str) -> list[str]:
        return objects.missing(os.fsencode(self.objects), tree)

    def restored(self, tree: str, name: str = "restored") -> Path:
        checkout(os.fsencode(self.objects), tree, os.fsencode(self.root.with_name(name)))
        return self.root.with_name(name)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def left_out(taken: snapshot.Snapshot) -> list[str]:
    return sorted(left.path for left in taken.left_out)


def listing(root: Path) -> dict[bytes, object]:
    found: dict[bytes, object] = {}
    top = os.fsencode(root)
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            kept = os.path.relpath(path, top)
            if os.path.islink(path):
                found[kept] = os.readlink(path)
            elif os.path.isdir(path):
                found[kept] = None
            else:
                found[kept] = (Path(os.fsdecode(path)).read_bytes(), os.stat(path).st_mode & 0o100)
    return found


def test_a_project_comes_back_as_it_was(desk: Desk) -> None:
    desk.write("train.py", b"print()")
    desk.write("run.sh", b"#!/bin/sh").chmod(0o755)
    desk.write("a/b/c/deep.bin", os.urandom(3 * stable_read.CHUNK + 1))
    (desk.root / "empty").mkdir()
    (desk.root / "link").symlink_to("a/b")
    (desk.root / "dangling").symlink_to("nowhere")
    (desk.root / "loop").symlink_to("loop")
    taken = desk.take()
    assert (taken.files, taken.new_files) == (3, 3)
    assert taken.bytes == taken.new_bytes == 7 + 9 + 3 * stable_read.CHUNK + 1
    assert taken.warnings == ()
    assert listing(desk.restored(taken.tree)) == listing(desk.root)


def test_hostile_names_come_back_byte_by_byte(desk: Desk) -> None:
    folder = os.path.join(os.fsencode(desk.root), b"\xfe d\n")
    os.mkdir(folder)
    for name in HOSTILE:
        Path(os.fsdecode(os.path.join(folder, name))).write_bytes(name)
    first = desk.take()
    assert listing(desk.restored(first.tree)) == listing(desk.root)
    assert desk.take().tree == first.tree


def test_the_same_content_has_the_same_tree_whenever_and_wherever(desk: Desk, tmp_path: Path) -> None:
    for number in random.Random(1).sample(range(50), 50):
        desk.write(f"d{number % 5}/f{number}", b"%d" % number)
    first = desk.take()
    copy = desk.restored(first.tree)
    assert snapshot.take(str(copy), objects=None, cache=None).tree == first.tree


def test_an_unchanged_project_is_neither_read_nor_written(desk: Desk) -> None:
    desk.write("a/f", b"1")
    desk.write("g", b"2")
    (desk.root / "l").symlink_to("g")
    desk.write(".env", b"left out every time")
    os.mkfifo(desk.root / "pipe")
    first = desk.take()
    desk.settle()
    before = desk.cache.stat()
    pending = desk.scan()
    assert (pending.files, pending.bytes, pending.new_files, pending.new_bytes) == (2, 2, 0, 0)
    again = pending.store(str(desk.objects))
    assert again == first._replace(new_files=0, new_bytes=0, syncs=0)
    assert desk.cache.stat() == before


@pytest.mark.parametrize(
    "change", ["content", "same size and mtime", "mode", "new", "gone", "renamed", "link", "folder"]
)
def test_every_change_is_seen(desk: Desk, change: str) -> None:
    file = desk.write("a/f", b"one")
    desk.write("a/g", b"other")
    (desk.root / "l").symlink_to("a")
    desk.settle()
    first = desk.take()
    status = file.stat()
    if change == "content":
        file.write_bytes(b"two!")
    elif change == "same size and mtime":
        file.write_bytes(b"two")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "mode":
        file.chmod(0o755)
    elif change == "new":
        desk.write("a/h")
    elif change == "gone":
        file.unlink()
    elif change == "renamed":
        file.rename(file.with_name("z"))
    elif change == "link":
        (desk.root / "l").unlink()
        (desk.root / "l").symlink_to("b")
    else:
        (desk.root / "a/empty").mkdir()
    changed = desk.take()
    assert changed.tree != first.tree
    assert changed.tree == snapshot.take(str(desk.root), objects=None, cache=None).tree
    assert desk.missing(changed.tree) == []


def test_a_file_changed_within_one_tick_of_the_clock_is_seen(desk: Desk) -> None:
    """The same size, times and inode: only because the first look came too soon may it not be believed."""
    for number in range(50):
        path = desk.write("f", b"%03d" % number)
        descriptor = os.open(path, os.O_WRONLY)
        taken = desk.take()
        os.pwrite(descriptor, b"new", 0)
        os.close(descriptor)
        assert desk.take().tree != taken.tree


def test_swapped_rules_with_an_equal_count_are_seen(desk: Desk) -> None:
    desk.write("a", b"1")
    desk.write("b", b"2")
    ignore = desk.write(".gitignore", b"/a\n")
    desk.settle()
    first = desk.take()
    ignore.write_bytes(b"/b\n")
    assert left_out(desk.take()) == ["b"]
    ignore.write_bytes(b"/a\n")
    assert desk.take().tree == first.tree


def test_only_what_is_new_is_written(desk: Desk) -> None:
    desk.write("a", b"1")
    desk.write("b", b"1")
    assert desk.take().new_files == 1
    desk.write("c", b"22")
    taken = desk.take()
    assert (taken.files, taken.new_files, taken.new_bytes) == (3, 1, 2)


def test_hashing_only_writes_nothing(desk: Desk) -> None:
    desk.write("a/f", b"1")
    dry = snapshot.take(str(desk.root), objects=None, cache=str(desk.cache))
    assert not desk.objects.parent.exists()
    assert desk.take().tree == dry.tree
    desk.write("a/f", b"2")
    before = listing(desk.objects.parent)
    dry = snapshot.take(str(desk.root), objects=None, cache=str(desk.cache))
    assert listing(desk.objects.parent) == before
    assert desk.take().tree == dry.tree


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_cache_is_rebuilt(desk: Desk, damage: bytes | None) -> None:
    desk.write("f", b"1")
    desk.settle()
    first = desk.take()
    good = desk.cache.read_bytes()
    desk.cache.write_bytes(good[:-1] + bytes((good[-1] ^ 1,)) if damage is None else damage)
    assert desk.scan().new_files == 1
    assert desk.take().tree == first.tree
    assert desk.scan().new_files == 0


def test_a_lost_store_is_filled_again_in_spite_of_the_cache(desk: Desk) -> None:
    desk.write("a/f", b"1")
    desk.write("g", b"2")
    desk.settle()
    first = desk.take()
    desk.objects.rename(desk.objects.with_name("elsewhere"))
    again = desk.take()
    assert (again.tree, again.new_files) == (first.tree, 2)
    assert desk.missing(again.tree) == []


def test_an_interrupted_snapshot_is_taken_up_where_it_was(desk: Desk) -> None:
    """Halfway through very much data only the files are noted, no folder: they need not be read again."""
    desk.write("a/f", b"1")
    desk.write("g", b"2")
    desk.settle()
    whole = desk.take()
    StatCache(StatCache.load(str(desk.cache)).files, {}).save(str(desk.cache))
    objects.discard(os.fsencode(desk.objects), whole.tree)
    assert desk.scan().new_files == 0
    assert desk.take() == whole._replace(new_files=0, new_bytes=0, syncs=2)
    assert desk.missing(whole.tree) == []


def test_linked_paths_are_left_to_the_links(desk: Desk) -> None:
    desk.write("data/big", b"1")
    desk.write("sub/data/big", b"2")
    desk.write("sub/f", b"3")
    taken = desk.take("data/", "./sub/data")
    assert sorted(os.listdir(desk.restored(taken.tree))) == ["sub"]
    assert taken.files == 1
    assert taken.left_out == ()


def test_what_is_left_out_is_told_with_its_rule(desk: Desk) -> None:
    desk.write(".gitignore", b"*.log\ndata/\n")
    for name in ("x.log", "data/a", "data/b", "outputs/o", "venv/pyvenv.cfg", "train.py"):
        desk.write(name)
    taken = desk.take()
    told = {left.path: str(left.why) for left in taken.left_out}
    assert told["data"] == ".gitignore:2 `data/`"
    assert told["x.log"] == ".gitignore:1 `*.log`"
    assert sorted(told) == ["data", "outputs", "venv", "x.log"]
    assert taken.warnings == ()
    assert taken.files == 2


def test_secrets_stay_out_with_a_warning_until_asked_for(desk: Desk) -> None:
    desk.write(".env", b"TOKEN=1")
    desk.write("gcp.json", b'{"private_key": "-----BEGIN PRIVATE KEY-----"}')
    desk.write("labels.json", b"{}")
    desk.settle()
    taken = desk.take()
    assert left_out(taken) == [".env", "gcp.json"]
    assert [warning.split(":")[0] for warning in taken.warnings] == [".env, gcp.json"]
    asked = desk.write(".amlignore", b"!.env\n!gcp.json\n")
    desk.settle()
    assert left_out(desk.take()) == []
    asked.write_bytes(b"")
    assert left_out(desk.take()) == [".env", "gcp.json"]


def test_folder_of_ssh_keys_is_left_out_in_one_line(desk: Desk) -> None:
    desk.write(".ssh/id", b"-----BEGIN OPENSSH PRIVATE KEY-----")
    desk.write(".ssh/config", b"Host gpu1")
    desk.write("train.py", b"")
    taken = desk.take()
    assert left_out(taken) == [".ssh"]
    assert len(taken.warnings) == 1
    assert taken.warnings[0].startswith(".ssh: excluded: it looks like a folder of SSH keys")
    assert sorted(listing(desk.restored(taken.tree))) == [b"train.py"]


def test_more_secrets_than_fit_a_line_are_counted(desk: Desk) -> None:
    for number in range(8):
        desk.write(f"{number}/.env", b"TOKEN=1")
    (warning,) = desk.take().warnings
    assert "4/.env and 3 more: excluded" in warning


def test_links_are_never_followed_and_those_leading_out_are_told(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    desk.write("a/f", b"1")
    for name, target in {"abs": str(tmp_path / "outside"), "up": "../outside", "a/up": "../../outside"}.items():
        (desk.root / name).symlink_to(target)
    (desk.root / "a/fine").symlink_to("../a/f")
    taken = desk.take()
    assert sorted(warning.split(":")[0] for warning in taken.warnings) == ["a/up", "abs", "up"]
    assert taken.files == 1
    assert listing(desk.restored(taken.tree)) == listing(desk.root)


def test_pipes_sockets_and_devices_are_skipped_with_a_warning(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("f", b"1")
    os.mkfifo(desk.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(desk.root)  # the address of a socket is a short path
        listener.bind("sock")
        taken = desk.take()
    assert left_out(taken) == ["pipe", "sock"]
    assert len(taken.warnings) == 2
    assert taken.files == 1


@pytest.fixture
def without_rights(desk: Desk, tmp_path: Path) -> Iterator[None]:
    """Root reads everything: such a test drops its rights and gives its folders to the user `nobody`."""
    if os.geteuid() != 0:
        yield
        return
    closed = [path for path in tmp_path.parents if path.stat().st_mode & 0o005 != 0o005 and path != Path("/tmp")]
    for path in [tmp_path, *closed]:
        path.chmod(path.stat().st_mode | 0o055)
    for path in [tmp_path, desk.root]:
        os.chown(path, NOBODY, NOBODY)
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)
    os.setegid(0)


@pytest.mark.usefixtures("without_rights")
def test_all_unreadable_files_are_told_at_once(desk: Desk) -> None:
    desk.write("fine", b"1")
    desk.write("a/closed", b"2").chmod(0)
    desk.write("closed2", b"3").chmod(0)
    desk.write("shut/f", b"4")
    (desk.root / "shut").chmod(0)
    try:
        with pytest.raises(ConfigError) as caught:
            desk.scan()
        assert [line.split(":")[0] for line in caught.value.answer.splitlines()] == ["a/closed", "closed2", "shut"]
        assert "skip-unreadable" in caught.value.hint
        taken = desk.take(skip_unreadable=True)
        assert left_out(taken) == ["a/closed", "closed2", "shut"]
        assert len(taken.warnings) == 3
        assert sorted(os.listdir(desk.restored(taken.tree))) == ["a", "fine"]
    finally:
        (desk.root / "shut").chmod(0o700)


def test_a_file_that_never_holds_still_is_named(desk: Desk) -> None:
    path = desk.write("growing.log")
    os.truncate(path, 64 * stable_read.CHUNK)
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab", buffering=0) as stream:
            while not stop.is_set():
                stream.write(b"x")

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        with pytest.raises(ConfigError, match="changed during all 10 attempts") as caught:
            desk.take()
    finally:
        stop.set()
        writer.join()
    assert caught.value.where == "growing.log"
    assert desk.missing(desk.take().tree) == []


FULL_DISK = """
import os, pathlib, sys
from holdfast.snapshot import snapshot
from holdfast.errors import StoreError
from holdfast.runner.store import objects
root, small = map(pathlib.Path, sys.argv[1:])
store = os.fsencode(small / "objects")
try:
    snapshot.take(str(root), objects=os.fsdecode(store), cache=None)
    sys.exit("it fitted")
except StoreError as error:
    assert "full" in error.what and "du" in error.hint, error
assert list(small.glob("objects/??/*")) == []
assert os.listdir(small / "objects/tmp") == ["lock"]
for number in range(5, 20):
    (root / f"f{number}").unlink()
assert objects.missing(store, snapshot.take(str(root), objects=os.fsdecode(store), cache=None).tree) == []
"""


def test_full_disk_is_reported_and_snapshot_works_again_with_space(desk: Desk, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    for number in range(20):
        desk.write(f"f{number}", os.urandom(100_000))
    # In a mount namespace of its own the small disk is gone with the process, however the test ends.
    alone = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', str(small)]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    subprocess.run([*alone, sys.executable, "-c", FULL_DISK, desk.root, small], check=True)


def test_the_largest_new_files_are_known_before_anything_is_written(desk: Desk) -> None:
    for size in range(15):
        desk.write(f"d/f{size}", bytes(size))
    pending = desk.scan()
    assert pending.largest()[:2] == [("d/f14", 14), ("d/f13", 13)]
    assert len(pending.largest()) == 10
    assert pending.new_bytes == sum(range(15))
    assert not desk.objects.exists()


def test_progress_is_told_when_it_takes_long() -> None:
    told: list[tuple[int, int]] = []
    progress = snapshot._Progress(lambda files, size: told.append((files, size)))
    started = time.monotonic()
    while not told and time.monotonic() < started + 10:
        progress.advance(5)
    assert time.monotonic() >= started + 1
    progress.advance(5)
    assert len(told) == 1


def test_a_file_that_vanishes_between_scan_and_store_is_not_part_of_it(desk: Desk) -> None:
    desk.write("a", b"1")
    gone = desk.write("b", b"22")
    pending = desk.scan()
    gone.unlink()
    desk.write("a", b"333")
    taken = pending.store(str(desk.objects))
    assert (taken.files, taken.bytes) == (1, 3)
    assert os.listdir(desk.restored(taken.tree)) == ["a"]


def test_a_file_that_vanishes_while_its_folder_is_scanned_is_not_part_of_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("a", b"1")
    gone = desk.write("b", b"22")
    access = os.access

    def removed_first(path: bytes, *words: Any, **more: Any) -> bool:
        if path.endswith(b"/b"):
            gone.unlink()
        return access(path, *words, **more)

    monkeypatch.setattr(os, "access", removed_first)
    monkeypatch.setattr(os, "supports_effective_ids", {*os.supports_effective_ids, removed_first})
    assert desk.take().files == 1


def test_an_identity_that_another_submit_is_writing_is_not_part_of_it(desk: Desk) -> None:
    desk.write("a", b"1")
    desk.write(".holdfast-project", b"{}")
    desk.write(".holdfast-project.4711.tmp", b"{}")
    assert sorted(os.listdir(desk.restored(desk.take().tree))) == [".holdfast-project", "a"]


def test_a_killed_snapshot_leaves_nothing_in_the_way(desk: Desk) -> None:
    for number in range(200):
        desk.write(f"d{number % 7}/f{number}", os.urandom(2000))
    program = (
        "import sys; from holdfast import snapshot; snapshot.take(sys.argv[1], objects=sys.argv[2], cache=sys.argv[3])"
    )
    command = [sys.executable, "-c", program, str(desk.root), str(desk.objects), str(desk.cache)]
    for wait in (0.05, 0.08, 0.1, 0.12, 0.15):
        process = subprocess.Popen(command)
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    taken = desk.take()
    assert desk.missing(taken.tree) == []
    object_removal.sweep(os.fsencode(desk.objects))
    assert os.listdir(desk.objects / "tmp") == ["lock"]


def test_a_missing_project_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        snapshot.scan(str(tmp_path / "nowhere"), cache=None)
