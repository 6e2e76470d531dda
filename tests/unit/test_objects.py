"""Objects: complete or absent, whatever happens while they are written."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.runner.store import object_removal, objects, stable_read
from holdfast.runner.store.objects import Batch, Damaged, Entry, decode_tree, encode_tree
from holdfast.runner.store.stable_read import Changed, Unreadable

SOURCE = Path(__file__).parents[2] / "src"
NOT_A_DIGEST = ["", "ab", "g" * 64, "A" * 64, "../" + "a" * 61, "a" * 63 + "\n"]


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    return os.fsencode(tmp_path / "objects")


def store(root: bytes, *contents: bytes) -> list[str]:
    with Batch(root) as batch:
        digests = [batch.add_bytes(content) for content in contents]
        batch.commit()
    return digests


def entry_of(digest: str, content: bytes, name: bytes = b"f") -> Entry:
    return Entry(name, "file", False, len(content), digest, b"")


def names_below(root: bytes) -> list[bytes]:
    return sorted(name for _, _, names in os.walk(root) for name in names if name != b"lock")


def assert_only_whole_objects(root: bytes) -> None:
    for folder, _, names in os.walk(root):
        if os.path.basename(folder) != b"tmp":
            for name in names:
                objects.read(root, os.fsdecode(os.path.basename(folder) + name))


def test_an_object_is_named_by_its_content_and_cannot_be_written(root: bytes) -> None:
    (digest,) = store(root, b"hello")
    assert digest == hashlib.sha256(b"hello").hexdigest()
    assert objects.object_path(root, digest) == root + b"/2c/" + digest[2:].encode()
    assert objects.read(root, digest) == b"hello"
    assert os.stat(objects.object_path(root, digest)).st_mode & 0o777 == 0o400
    assert os.stat(root).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("digest", NOT_A_DIGEST)
def test_only_digests_become_paths(root: bytes, digest: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal digits"):
        objects.object_path(root, digest)


@pytest.mark.parametrize("size", [0, 1, stable_read.CHUNK, stable_read.CHUNK + 1, 3 * stable_read.CHUNK])
def test_files_of_every_size_are_stored_whole(root: bytes, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "f").write_bytes(content)
    pieces: list[int] = []
    with Batch(root) as batch:
        digest, status = batch.add_file(os.fsencode(tmp_path / "f"), pieces.append)
        batch.commit()
    assert objects.read(root, digest) == content
    assert (status.st_size, sum(pieces)) == (size, size)


def test_nothing_is_visible_before_commit_and_nothing_is_left_without_it(root: bytes, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(2 * stable_read.CHUNK))
    with Batch(root) as batch:
        batch.add_bytes(b"x")
        batch.add_file(os.fsencode(tmp_path / "big"))
        assert len(names_below(root)) == 2
        assert not objects.has(root, hashlib.sha256(b"x").hexdigest())
    assert names_below(root) == []


def test_what_is_there_is_not_written_again(root: bytes, tmp_path: Path) -> None:
    big = bytes(stable_read.CHUNK + 1)
    (tmp_path / "big").write_bytes(big)
    digests = store(root, b"x", big)
    inodes = [os.stat(objects.object_path(root, digest)).st_ino for digest in digests]
    with Batch(root) as batch:
        assert batch.add_bytes(b"x") == digests[0]
        assert batch.add_file(os.fsencode(tmp_path / "big"))[0] == digests[1]
        batch.commit()
        assert (batch.new_objects, batch.new_bytes, batch.syncs) == (0, 0, 0)
    assert [os.stat(objects.object_path(root, digest)).st_ino for digest in digests] == inodes
    assert names_below(root) == sorted(digest[2:].encode() for digest in digests)


def test_the_same_content_twice_in_a_batch_is_one_object(root: bytes) -> None:
    with Batch(root) as batch:
        assert batch.add_bytes(b"x") == batch.add_bytes(b"x")
        batch.commit()
        assert batch.new_objects == 1


def test_a_truncated_object_is_replaced_by_good_content(root: bytes) -> None:
    (digest,) = store(root, b"hello")
    os.chmod(objects.object_path(root, digest), 0o600)
    os.truncate(objects.object_path(root, digest), 2)
    store(root, b"hello")
    assert objects.read(root, digest) == b"hello"


def test_damage_is_told_with_the_name(root: bytes) -> None:
    (digest,) = store(root, b"hello")
    os.chmod(objects.object_path(root, digest), 0o600)
    Path(os.fsdecode(objects.object_path(root, digest))).write_bytes(b"hellO")
    with pytest.raises(Damaged, match="does not match") as caught:
        objects.read(root, digest)
    assert caught.value.digest == digest
    objects.discard(root, digest)
    objects.discard(root, digest)
    with pytest.raises(Damaged, match="missing"):
        objects.read(root, digest)


def test_a_big_batch_needs_few_syncs(root: bytes) -> None:
    with Batch(root) as batch:
        for number in range(300):
            batch.add_bytes(b"%d" % number)
        batch.commit()
        few = batch.syncs
    with Batch(root) as batch:
        batch.add_bytes(b"one")
        batch.commit()
        assert 1 < batch.syncs <= 3
    assert few <= (5 if sys.platform.startswith("linux") else 600)


def test_a_file_that_grows_while_it_is_read_is_noticed(root: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(3 * stable_read.CHUNK))

    def grow(_: int) -> None:
        with path.open("ab") as stream:
            stream.write(b"more")

    with Batch(root) as batch:
        with pytest.raises(Changed):
            batch.add_file(os.fsencode(path), grow)
        assert names_below(root) == []


def test_only_regular_files_are_read(root: bytes, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with Batch(root) as batch, pytest.raises(Unreadable):
        batch.add_file(descriptor)
    os.close(descriptor)


def test_a_tree_has_one_form_and_keeps_every_name() -> None:
    digest = "a" * 64
    entries = [
        Entry(b"z\n'\"", "file", True, 7, digest, b""),
        Entry(b"\xff\xfe", "file", False, 0, digest, b""),
        Entry("né".encode(), "link", False, 0, "", b"../\xff"),
        Entry(b"-rf", "dir", False, 0, digest, b""),
    ]
    data = encode_tree(entries)
    assert data == encode_tree(entries[::-1])
    assert data.isascii()
    assert decode_tree(data) == sorted(entries, key=lambda entry: entry.name)


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/b", "a\0b", "/etc/passwd", None, 3])
def test_a_tree_with_a_hostile_name_is_refused(name: object) -> None:
    row = {"name": name, "type": "link", "target": "x"}
    with pytest.raises(ValueError, match="name"):
        decode_tree(json.dumps({"v": 1, "entries": [row]}).encode())


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff",
        b"[]",
        b"3",
        b'{"v": 1}',
        b'{"v": 2, "entries": []}',
        b'{"v": 1, "entries": [3]}',
        b'{"v": 1, "entries": [{"name": "a", "type": "pipe", "digest": "%s"}]}' % (b"a" * 64),
        b'{"v": 1, "entries": [{"name": "a", "type": "dir", "digest": "../x"}]}',
        b'{"v": 1, "entries": [{"name": "a", "type": "link", "target": ""}]}',
        b'{"v": 1, "entries": [{"name": "a", "type": "file", "digest": "%s", "size": -1, "executable": true}]}'
        % (b"a" * 64),
        b'{"v": 1, "entries": [%s, %s]}' % ((b'{"name": "a", "type": "link", "target": "x"}',) * 2),
        b"[" * 100_000,
    ],
)
def test_what_is_not_a_tree_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_tree(document)


def test_missing_names_every_absent_object_once(root: bytes) -> None:
    content, absent = store(root, b"there", b"gone")
    below = encode_tree([entry_of(content, b"there", b"a"), entry_of(absent, b"gone", b"b")])
    lost = "f" * 64
    (inner,) = store(root, below)
    outer = [Entry(b"d1", "dir", False, 0, inner, b""), Entry(b"d2", "dir", False, 0, inner, b"")]
    (tree,) = store(root, encode_tree([*outer, Entry(b"d3", "dir", False, 0, lost, b"")]))
    assert objects.missing(root, tree) == [lost]
    objects.discard(root, absent)
    assert sorted(objects.missing(root, tree)) == sorted([lost, absent])
    assert objects.missing(root, "e" * 64) == ["e" * 64]


@pytest.mark.parametrize(
    ("asked", "others"), [(100, 0), (3000, 0), (1024, 6000)], ids=["few", "many", "few of a full store"]
)
def test_what_is_lacking_is_told_in_the_order_asked(root: bytes, asked: int, others: int) -> None:
    digests = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(asked + others)]
    wanted, absent = digests[:asked], set(digests[0:asked:3])
    assert objects.lacking(root, wanted) == wanted
    for digest in digests:
        if digest not in absent:
            path = objects.object_path(root, digest)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT))
    assert objects.lacking(root, wanted) == [digest for digest in wanted if digest in absent]


def test_two_batches_may_store_the_same_at_once(root: bytes) -> None:
    with Batch(root) as one, Batch(root) as other:
        digest = one.add_bytes(b"same")
        assert other.add_bytes(b"same") == digest
        one.commit()
        other.commit()
        assert one.holds(digest, 4)
    assert objects.read(root, digest) == b"same"
    assert len(names_below(root)) == 1


def test_sweep_waits_for_batches_at_work(root: bytes) -> None:
    assert object_removal.sweep(root) == 0
    with Batch(root) as batch:
        batch.add_bytes(b"x")
        assert object_removal.sweep(root) == 0
        batch.commit()
    Path(os.fsdecode(root), "tmp", "left-by-a-killed-one").write_bytes(b"half")
    assert object_removal.sweep(root) == 1
    assert names_below(root) == [hashlib.sha256(b"x").hexdigest()[2:].encode()]


DIES = """
import os, signal, sys
event, when = sys.argv[2], int(sys.argv[3])
from holdfast.runner.store.objects import Batch, Entry, encode_tree
import ctypes
seen = 0
def hook(name, args):
    global seen
    seen += name == event
    if name == event and seen == when:
        os.kill(os.getpid(), signal.SIGKILL)
root = os.fsencode(sys.argv[1])
sys.addaudithook(hook)
with Batch(root) as batch:
    entries = []
    for number in range(10):
        content = b"%d" % number * 5000
        entries.append(Entry(b"%d" % number, "file", False, len(content), batch.add_bytes(content), b""))
    print(batch.add_bytes(encode_tree(entries)))
    batch.commit()
"""


@pytest.mark.parametrize(("event", "stride"), [("os.rename", 1), ("open", 4)])
def test_killed_at_any_step_only_whole_objects_remain(tmp_path: Path, event: str, stride: int) -> None:
    died = 0
    for when in range(1, 100, stride):
        root = os.fsencode(tmp_path / f"{event}{when}")
        command = [sys.executable, "-c", DIES, os.fsdecode(root), event, str(when)]
        done = subprocess.run(command, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        assert_only_whole_objects(root)
        object_removal.sweep(root)
        assert os.listdir(os.path.join(root, b"tmp")) in ([], [b"lock"])
        if done.returncode == 0:
            assert objects.missing(root, done.stdout.decode().strip()) == []
            break
        died += 1
    else:
        pytest.fail("never got through")
    assert died >= 4


def test_the_check_for_whole_objects_can_fail(root: bytes) -> None:
    (digest,) = store(root, b"hello")
    os.chmod(objects.object_path(root, digest), 0o600)
    os.truncate(objects.object_path(root, digest), 4)
    with pytest.raises(Damaged):
        assert_only_whole_objects(root)
