"""Data sets on a target: laid out from objects, verified, found again, removed."""

from __future__ import annotations

import os
import resource
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigError
from holdfast.present.run_card import data_words
from holdfast.runner.data import data_notes, data_sets, data_verb
from holdfast.runner.data.run_data import RunData, variable
from holdfast.runner.plan import Data, _Fields
from holdfast.runner.run.workdir import CannotPrepare
from holdfast.runner.store import objects
from holdfast.runner.store.data_state import VerifiedObjects, fingerprint
from holdfast.runner.store.exclusive_lock import InUse
from holdfast.runner.store.uploads import Arrivals
from holdfast.snapshot import data_tree
from holdfast.snapshot.stat_cache import StatCache, digest_in

if TYPE_CHECKING:
    from collections.abc import Callable


class Target:
    """The store of a target, to which a folder is sent object by object."""

    def __init__(self, place: Path) -> None:
        self.home = os.fsencode(place / "target")
        self.client = place / "client"
        os.mkdir(self.home)

    def take(self, folder: Path) -> data_tree.DataTree:
        objects_folder = str(self.client / "objects")
        return data_tree.take(str(folder), objects=objects_folder, cache=str(self.client / "cache" / "stat-data"))

    def send(self, folder: Path, shared: str = "") -> str:
        taken = self.take(folder)
        arrivals = Arrivals(self.home, data_sets.place(self.home, shared)[1])
        for path in data_tree.paths(str(self.client / "objects"), taken.tree).values():
            self._put(arrivals, (folder / os.fsdecode(path)).read_bytes())
        for stored in (self.client / "objects").glob("??/*"):
            self._put(arrivals, stored.read_bytes())
        answer = data_verb.answer(
            self.home, {"act": "make", "tree": taken.tree, "data": shared, "name": "set"}, arrivals
        )
        assert answer["state"] == "here"
        return taken.tree

    def send_trees(self, folder: Path) -> str:
        """All but the files."""
        taken = self.take(folder)
        arrivals = Arrivals(self.home, data_sets.place(self.home, "")[1])
        for stored in (self.client / "objects").glob("??/*"):
            self._put(arrivals, stored.read_bytes())
        self._put(arrivals, (folder / "new.txt").read_bytes())
        arrivals.commit()
        return taken.tree

    def make(self, tree: str) -> dict[str, object]:
        arrivals = Arrivals(self.home, data_sets.place(self.home, "")[1])
        return data_verb.answer(self.home, {"act": "make", "tree": tree, "data": "", "name": "set"}, arrivals)

    def _put(self, arrivals: Arrivals, content: bytes) -> None:
        digest = objects.HashOnly().add_bytes(content)
        arrivals.add(content, {"digest": digest, "at": 0, "size": len(content)})

    def folder(self, tree: str) -> Path:
        found = data_sets.find(self.home, tree)
        assert found is not None
        return Path(os.fsdecode(found))

    def stored(self) -> list[Path]:
        return [path for path in Path(os.fsdecode(self.home), "data", "objects").glob("??/*") if path.is_file()]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "set"
    (path / "deep").mkdir(parents=True)
    (path / "a").write_text("first")
    (path / "deep" / "b").write_text("second")
    (path / "program").write_text("third")
    (path / "program").chmod(0o755)
    return path


def test_client_stores_trees_and_no_file_of_the_data(target: Target, folder: Path) -> None:
    taken = target.take(folder)
    assert (taken.files, taken.bytes) == (3, len("firstsecondthird"))
    contents = [path.read_bytes() for path in (target.client / "objects").glob("??/*")]
    assert len(contents) == 2
    assert all(content.startswith(b'{"entries":') for content in contents)


def test_ignore_rules_of_projects_do_not_apply_to_data(target: Target, folder: Path) -> None:
    for name in (".gitignore", ".env", "docs", "id_rsa", "store.json"):
        (folder / name).write_text("*")
    (folder / "venv").mkdir()
    (folder / "venv" / "pyvenv.cfg").write_text("")
    assert target.take(folder).files == 3 + 6


def test_unchanged_file_is_not_read_again(target: Target, folder: Path) -> None:
    cache = str(target.client / "cache" / "stat-data")
    tree = target.take(folder).tree
    while b"a" not in StatCache.load(cache).files:  # a file younger than a tick of the clock is always read
        assert target.take(folder).tree == tree
    known = StatCache.load(cache)
    state = known.files[b"a"][:32]
    StatCache({**known.files, b"a": state + bytes(32)}, {}).save(cache)
    target.take(folder)
    assert digest_in(StatCache.load(cache).files[b"a"]) == "0" * 64  # taken from the cache


def test_set_is_read_only_and_its_files_have_a_fixed_time(target: Target, folder: Path) -> None:
    made = target.folder(target.send(folder))
    modes = {str(path.relative_to(made)): path.stat().st_mode & 0o777 for path in made.rglob("*")}
    assert modes == {"a": 0o444, "deep": 0o555, "deep/b": 0o444, "program": 0o555}
    assert {path.stat().st_mtime for path in made.rglob("*") if path.is_file()} == {315532800.0}
    assert (made / "deep" / "b").read_text() == "second"


def test_versions_share_their_files_and_removal_of_one_leaves_the_other(target: Target, folder: Path) -> None:
    first = target.send(folder)
    (folder / "a").write_text("changed")
    second = target.send(folder)
    assert (target.folder(first) / "program").samefile(target.folder(second) / "program")
    note = data_notes.read(target.home, first)
    assert note is not None
    data_sets.remove(target.home, note)
    assert data_sets.find(target.home, first) is None
    assert (target.folder(second) / "program").read_text() == "third"
    assert objects.missing(data_sets.place(target.home, "")[1], second) == []
    assert b"first" not in [path.read_bytes() for path in target.stored()]


def test_set_that_was_written_to_is_given_up_with_the_damaged_object(target: Target, folder: Path) -> None:
    tree = target.send(folder)
    path = target.folder(tree) / "a"
    path.chmod(0o600)
    path.write_text("FIRST")
    assert data_sets.find(target.home, tree) is None
    root = data_sets.place(target.home, "")[1]
    assert objects.missing(root, tree) == [objects.HashOnly().add_bytes(b"first")]


def test_set_whose_state_changed_and_content_did_not_is_verified_and_kept(target: Target, folder: Path) -> None:
    tree = target.send(folder)
    made = target.folder(tree)
    os.utime(made / "a")
    assert target.folder(tree) == made
    note = data_notes.read(target.home, tree)
    assert note is not None
    assert note["state"] == fingerprint(os.fsencode(made))


def damage(path: Path) -> None:
    """Change a byte and set the times back, as ``cp -p``, ``rsync -t`` and ``touch -r`` do."""
    before = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"X" + path.read_bytes()[1:])
    path.chmod(0o444)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_damage_with_the_time_set_back_is_found(target: Target, folder: Path) -> None:
    tree = target.send(folder)
    damage(target.folder(tree) / "a")
    assert data_sets.find(target.home, tree) is None
    target.send(folder)
    assert (target.folder(tree) / "a").read_text() == "first"


def test_damaged_object_is_not_used_for_a_set_that_was_removed_or_for_another_version(
    target: Target, folder: Path
) -> None:
    tree = target.send(folder)
    made = target.folder(tree)
    damage(made / "a")
    os.chmod(made, 0o700)
    shutil.rmtree(made)
    answer = target.make(tree)
    assert answer["state"] == "missing"
    assert "its content does not match its name" in str(answer["refused"])
    target.send(folder)
    damage(target.folder(tree) / "a")
    (folder / "new.txt").write_text("new")
    assert target.make(target.send_trees(folder))["state"] == "missing"
    second = target.send(folder)
    assert (target.folder(second) / "a").read_bytes() == (folder / "a").read_bytes()


def test_versions_that_share_files_do_not_make_each_other_unverified(target: Target, folder: Path) -> None:
    first = target.send(folder)
    running = RunData(target.home, [Data(_Fields({"name": "set", "tree": first}, "data"))])
    (folder / "new.txt").write_text("new")
    second = target.send(folder)
    assert running.changed() == []
    root = data_sets.place(target.home, "")[1]
    files = {
        entry.digest for tree in (first, second) for entry in objects.read_tree(root, tree) if entry.kind == "file"
    }
    assert set(VerifiedObjects(root).right(files)) == files  # so that none is read again
    note = data_notes.read(target.home, second)
    assert note is not None
    data_sets.remove(target.home, note)
    kept = {entry.digest for entry in objects.read_tree(root, first) if entry.kind == "file"}
    assert set(VerifiedObjects(root).right(kept)) == kept
    assert data_sets.find(target.home, first) is not None


def test_flipped_bit_is_found_by_a_full_verification_only_and_sent_again(target: Target, folder: Path) -> None:
    tree = target.send(folder)
    made = target.folder(tree)
    root, path = data_sets.place(target.home, "")[1], made / "a"
    digest = objects.HashOnly().add_bytes(path.read_bytes())
    damage(path)
    verified = VerifiedObjects(root)  # as if the disk had changed it: no time tells
    verified.add(digest)
    verified.save()
    note = data_notes.read(target.home, tree)
    assert note is not None
    data_notes.write(target.home, dict(note, state=fingerprint(os.fsencode(made))))
    assert data_sets.find(target.home, tree) is not None
    arrivals = Arrivals(target.home, root)
    asked: dict[str, object] = {"act": "verify", "tree": tree}
    assert data_verb.answer(target.home, asked, arrivals) == {"state": "damaged", "damaged": 1}
    assert data_sets.find(target.home, tree) is None
    assert not objects.has(root, digest)
    assert len(target.stored()) > 1  # what is right is not sent again
    target.send(folder)
    assert data_verb.answer(target.home, asked, arrivals) == {"state": "intact", "damaged": 0}
    stray = Path(os.fsdecode(objects.object_path(root, "a" * 64)))
    stray.parent.mkdir(exist_ok=True)
    stray.write_text("of an upload that was cut off")
    answer = data_verb.answer(target.home, {"act": "verify"}, arrivals)
    assert answer == {"state": "damaged", "files": 1, "damaged": 1}
    assert not stray.exists()


def test_list_of_verified_objects_does_not_grow_without_end(target: Target, folder: Path) -> None:
    tree = target.send(folder)
    root = data_sets.place(target.home, "")[1]
    listed = Path(os.fsdecode(root), "verified")
    for _ in range(1200):
        verified = VerifiedObjects(root)
        verified.add(*(entry.digest for entry in objects.read_tree(root, tree) if entry.kind == "file"))
        verified.save()
    assert len(listed.read_bytes().splitlines()) < 1200
    with listed.open("ab") as target_file:
        target_file.write(b"torn")
    assert data_sets.find(target.home, tree) is not None


def test_set_in_use_cannot_be_removed(target: Target, folder: Path) -> None:
    tree = target.send(folder)
    held = data_sets.hold(os.fsencode(target.folder(tree)))
    header: dict[str, object] = {"act": "remove", "tree": tree}
    arrivals = Arrivals(target.home)
    assert data_verb.answer(target.home, header, arrivals) == {"state": "in-use"}
    note = data_notes.read(target.home, tree)
    assert note is not None
    with pytest.raises(InUse):
        data_sets.remove(target.home, note)
    os.close(held)
    assert data_verb.answer(target.home, header, arrivals) == {"state": "done"}
    assert data_verb.answer(target.home, header, arrivals) == {"state": "absent"}
    assert target.stored() == []


def test_shared_folder_gets_the_set_and_another_store_of_the_user_finds_it(
    target: Target, folder: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    tree = target.send(folder, str(shared))
    assert target.folder(tree) == shared / tree
    (shared / f"objects-{os.getuid()}").stat()
    other = os.fsencode(tmp_path / "other")
    os.mkdir(other)
    assert data_sets.find(other, tree, str(shared)) == os.fsencode(shared / tree)


def test_set_with_one_file_too_many_is_not_the_set(target: Target, folder: Path) -> None:
    tree = target.send(folder)
    made = target.folder(tree)
    root = data_sets.place(target.home, "")[1]
    assert data_sets.verify(root, tree, os.fsencode(made)) == []
    made.chmod(0o700)
    (made / "more").write_text("")
    assert data_sets.verify(root, tree, os.fsencode(made)) == [""]


def test_pinned_set_is_listed_as_such_until_it_is_unpinned(target: Target, folder: Path) -> None:
    tree, arrivals = target.send(folder), Arrivals(target.home)
    for act, expected in (("pin", True), ("unpin", False)):
        assert data_verb.answer(target.home, {"act": act, "tree": tree}, arrivals) == {"state": "done"}
        rows = data_verb.answer(target.home, {"act": "list"}, arrivals)["sets"]
        assert [(row["name"], row["pinned"]) for row in rows] == [("set", expected)]  # type: ignore[attr-defined]


def test_changes_of_a_note_at_the_same_time_are_all_kept(target: Target, folder: Path) -> None:
    """A set is pinned while a run verifies it."""
    tree = target.send(folder)
    pids = [_in_child(partial(_change_often, target.home, tree, f"by-{number}")) for number in range(4)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
    note = data_notes.read(target.home, tree)
    assert note is not None
    assert [note.get(f"by-{number}") for number in range(4)] == [99] * 4


def test_pin_of_a_set_that_is_removed_at_the_same_time_does_not_bring_it_back(target: Target, folder: Path) -> None:
    tree = target.send(folder)
    pid = _in_child(lambda: _change_often(target.home, tree, "pinned", until_gone=True))
    note = data_notes.read(target.home, tree)
    assert note is not None
    data_sets.remove(target.home, note)
    assert os.waitpid(pid, 0)[1] == 0
    assert list(data_notes.notes(target.home)) == []
    answer = data_verb.answer(target.home, {"act": "pin", "tree": tree}, Arrivals(target.home))
    assert answer == {"state": "absent"}


def _change_often(home: bytes, tree: str, name: str, *, until_gone: bool = False) -> None:
    for count in range(5000 if until_gone else 100):
        if not data_notes.change(home, tree, **{name: count}):
            return
    assert not until_gone


def _in_child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def test_device_in_data_is_refused_with_its_path(target: Target) -> None:
    with pytest.raises(ConfigError) as caught:
        target.take(Path("/dev/null"))
    assert "not a regular file" in str(caught.value.answer)


def test_name_of_data_becomes_a_variable() -> None:
    assert variable("mnist-2.0") == b"HOLDFAST_DATA_MNIST_2_0"


def test_card_of_a_run_names_its_data() -> None:
    rows = [
        {"name": "mnist", "tree": "a" * 64, "files": 1, "bytes": 5_000, "source": "/sets/mnist", "changed": True},
        {"name": "big", "path_on_target": "/data/big"},
    ]
    assert data_words(rows) == [
        "mnist: aaaaaaaaaaaa, 1 file, 5.0 kB, from /sets/mnist; WRITTEN TO while the script ran",
        "big: /data/big of the target",
    ]


@pytest.mark.parametrize("spare", [0, 64])
def test_more_sets_than_open_files_are_refused_with_the_limit(target: Target, folder: Path, spare: int) -> None:
    """Before the first is held, or, with files of its own open, when the system refuses; no file stays open."""
    tree = target.send(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(map(int, os.listdir("/proc/self/fd"))) + 100
    own = [os.open(os.devnull, os.O_RDONLY) for _ in range(spare + 6)] if spare else []
    used = os.listdir("/proc/self/fd")
    sets = [Data(_Fields({"name": f"s{number}", "tree": tree}, "data")) for number in range(limit - spare)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        with pytest.raises(CannotPrepare, match=f"limit on open files: {limit}, see ulimit -n"):
            RunData(target.home, sets)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert os.listdir("/proc/self/fd") == used
        for fd in own:
            os.close(fd)
