"""``history pull`` and ``store verify`` of a folder in which another user has planted something.

A run that is not as ``history push`` writes it costs one line; the other runs arrive, and nothing is written outside
the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.engine.transfer import pull_history, push_history
from holdfast.model import Identity, Project
from holdfast.runner.store import layout, objects
from holdfast.runner.store.jsonl import sealed
from holdfast.store import history_record, runs
from holdfast.store.home import Home
from holdfast.store.shared import shared_verify
from holdfast.store.shared.local_folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.model import Json

PROJECT = Project("", "01234567-89ab-cdef-0123-456789abcdef", "project")
ALICE, BOB, MALLORY = "a" * 32, "b" * 32, "c" * 32
GOOD, BAD = "1" * 32, "2" * 32
LOG = b"trained\n"
NOW = time.time_ns()
ODD: list[object] = [[], [1], [[1]], {"a": [1]}, {"a": {}}, True, 1.5, None]


class Scene:
    """A folder with two runs of alice, of which one is tampered with, and the empty store of bob."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.alice, self.bob = (Home(str(place / name), identity) for name, identity in (("a", ALICE), ("b", BOB)))
        self.secret = place / "secret"
        self.secret.write_text("not for the store")
        self.folder = place / "share"
        self.folder.mkdir()
        for home in (self.alice, self.bob):
            os.makedirs(home.runs)
        for number, uid in enumerate((GOOD, BAD), 1):
            add_run(self.alice, uid, number)
        push_history.push(self.alice, [GOOD, BAD], LocalFolder(str(self.folder)), lambda *_: None)
        self.part = self.folder / ALICE

    @property
    def line(self) -> Path:
        return self.part / "runs" / f"{BAD}.json"

    def shared(self) -> Json:
        value: Json = json.loads(self.line.read_bytes())
        return {name: value[name] for name in value if name not in ("v", "crc")}

    def change(self, **fields: object) -> None:
        """What its line says, with a right checksum."""
        rewrite(self.line, sealed({**self.shared(), **fields}))

    def object_of(self, name: str) -> Path:
        """The object behind a file that only the bad run has."""
        files: Any = self.shared()["files"]
        digest = str(files[name][1])
        return self.part / "objects" / digest[:2] / digest[2:]

    def add_object(self, data: bytes) -> list[object]:
        digest = hashlib.sha256(data).hexdigest()
        path = self.part / "objects" / digest[:2] / digest[2:]
        path.parent.mkdir(exist_ok=True)
        rewrite(path, data)
        return [len(data), digest]

    def with_file(self, name: str, data: bytes) -> None:
        files: Any = self.shared()["files"]
        self.change(files={**files, name: self.add_object(data)})

    def pull(self, author: str = "") -> pull_history.Pulled:
        wanted = pull_history.Wanted("", author)
        return pull_history.pull(self.bob, PROJECT, LocalFolder(str(self.folder)), wanted, lambda *_: None)


def add_run(home: Home, uid: str, number: int, **more: object) -> None:
    root = os.fsencode(home.objects)
    with objects.Batch(root) as batch:
        digest = batch.add_bytes(b"print(%d)" % number)
        entry = objects.Entry(b"train.py", "file", False, 8, digest, b"")
        tree = batch.add_bytes(objects.encode_tree([entry]))
        batch.commit()
    request = {
        "project": PROJECT.name,
        "project_id": PROJECT.id,
        "script": "train.py",
        "arguments": [str(number)],
        "config": "local",
        "tree": tree,
        "created_ns": 1_700_000_000_000_000_000 + number,
        "user": "alice",
        "target": "local",
        "kind": "local",
        "home": home.path,
        "tags": {"number": number},
        **more,
    }
    runs.create(home, Identity(uid, f"project_{1_700_000_000_000 + number}", number), request)
    log = LOG + b"%d" % number
    files = {"log": [len(log), hashlib.sha256(log).hexdigest()]}
    closed = {"seq": 0, "wall_ns": NOW, "type": "closed", "outcome": "completed", "exit_code": 0, "files": files}
    os.makedirs(home.run(uid, "a1"))
    for name, data in (("log", log), ("events.jsonl", sealed(closed)), ("plan.json", b"{}")):
        with open(home.run(uid, "a1", name), "wb") as target:
            target.write(data)


def rewrite(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_folder_as_it_was_pushed_arrives_whole(scene: Scene) -> None:
    assert len(scene.pull().new) == 2
    record = history_record.record(runs.read(scene.bob, BAD))
    assert (record["status"], record["tags"], record["user"]) == ("Completed", {"number": 2}, "alice")


def link_of_object(scene: Scene) -> None:
    path = scene.object_of("a1/log")
    path.unlink()
    path.symlink_to(scene.secret)


def fifo_of_object(scene: Scene) -> None:
    path = scene.object_of("a1/log")
    path.unlink()
    os.mkfifo(path)


def folder_of_object(scene: Scene) -> None:
    path = scene.object_of("a1/log")
    path.unlink()
    path.mkdir()


def other_content(scene: Scene) -> None:
    path = scene.object_of("a1/log")
    rewrite(path, b"X" * path.stat().st_size)


def grown_object(scene: Scene) -> None:
    path = scene.object_of("a1/log")
    path.unlink()
    with path.open("wb") as target:
        target.truncate(1 << 40)


def missing_object(scene: Scene) -> None:
    scene.object_of("a1/log").unlink()


def fifo_of_line(scene: Scene) -> None:
    scene.line.unlink()
    os.mkfifo(scene.line)


def link_of_line(scene: Scene) -> None:
    copy = scene.place / "copy"
    scene.line.rename(copy)
    scene.line.symlink_to(copy)


def damaged_line(scene: Scene) -> None:
    rewrite(scene.line, scene.line.read_bytes().replace(b'"tree"', b'"tres"'))


def deep_line(scene: Scene) -> None:
    rewrite(scene.line, b"[" * 100_000 + b"]" * 100_000)


def huge_line(scene: Scene) -> None:
    scene.line.unlink()
    with scene.line.open("wb") as target:
        target.truncate(1 << 40)


def line_of_another_run(scene: Scene) -> None:
    scene.change(uid=GOOD)


def promised_more_than_fits(scene: Scene) -> None:
    files: Any = scene.shared()["files"]
    scene.change(files={**files, "a1/outputs/model.bin": [2**62, "0" * 64]})


def too_large_events(scene: Scene) -> None:
    files: Any = scene.shared()["files"]
    scene.change(files={**files, "a1/control.jsonl": [10**9, "0" * 64]})


def unlisted_output(scene: Scene) -> None:
    scene.with_file("a1/outputs/evil.sh", b"#!/bin/sh\n")


def open_run(scene: Scene) -> None:
    scene.with_file("a1/events.jsonl", sealed({"seq": 0, "wall_ns": 1, "type": "accepted"}))


def log_of_another_hash(scene: Scene) -> None:
    scene.with_file("a1/log", b"forged")


def request_of_another_run(scene: Scene) -> None:
    with open(scene.alice.run(GOOD, "run.json"), "rb") as source:
        scene.with_file("run.json", source.read())


def tree_that_leads_out(scene: Scene) -> None:
    row = {"name": "../evil", "type": "file", "digest": "0" * 64, "size": 1, "executable": False}
    tree = scene.add_object(json.dumps({"entries": [row], "v": 1}, sort_keys=True, separators=(",", ":")).encode())
    scene.change(tree=tree[1])


def tree_of_another_run(scene: Scene) -> None:
    scene.change(tree=json.loads((scene.part / "runs" / f"{GOOD}.json").read_bytes())["tree"])


def code_that_is_missing(scene: Scene) -> None:
    digest = hashlib.sha256(b"print(2)").hexdigest()
    (scene.part / "objects" / digest[:2] / digest[2:]).unlink()


ATTACKS: list[Callable[[Scene], None]] = [
    *(link_of_object, fifo_of_object, folder_of_object, other_content, grown_object, missing_object),
    *(fifo_of_line, link_of_line, damaged_line, deep_line, huge_line, line_of_another_run),
    *(promised_more_than_fits, too_large_events, unlisted_output, open_run, log_of_another_hash),
    *(request_of_another_run, tree_that_leads_out, tree_of_another_run, code_that_is_missing),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_tampered_run_costs_one_line_and_no_other_run(scene: Scene, attack: Callable[[Scene], None]) -> None:
    attack(scene)
    before = sorted(path for path in scene.place.rglob("*") if (scene.place / "b") not in path.parents)
    result = scene.pull()
    assert result.new == ["project_1700000000001"]
    assert len(result.left_out) == 1, result.left_out
    assert list(runs.uids(scene.bob)) == [GOOD]
    assert sorted(path for path in scene.place.rglob("*") if (scene.place / "b") not in path.parents) == before
    assert not [name for name in os.listdir(scene.bob.path) if name.startswith("import-")]


@pytest.mark.parametrize(
    "name",
    [
        *("../../evil", "/etc/evil", "a1/outputs/../../../evil", "a1/../run.json", "a1/outputs/a\0b", ""),
        *(
            "secrets",
            "a1/secrets",
            "a1/work/x",
            "a1/workspace/x",
            "a1/alive",
            "objects/aa/x",
            "a1/metrics/a/b",
            "a01/log",
            "b1/log",
        ),
        "a1/outputs/" + "x" * 300,
    ],
)
def test_name_that_is_not_a_file_of_a_run_is_refused(scene: Scene, name: str) -> None:
    scene.with_file(name, b"evil")
    assert scene.pull().new == ["project_1700000000001"]
    assert not list(scene.place.rglob("*evil*"))


@pytest.mark.parametrize("kind", ["objects", "runs", "labels"])
def test_folders_that_are_links_are_not_followed(scene: Scene, kind: str) -> None:
    (scene.part / kind).rename(scene.place / kind)
    (scene.part / kind).symlink_to(scene.place / kind)
    result = scene.pull()
    assert len(result.new) == (2 if kind == "labels" else 0)
    assert result.labels == 0


def test_names_that_are_not_stores_are_passed_over(scene: Scene) -> None:
    (scene.folder / MALLORY).symlink_to(scene.part)
    (scene.folder / ("d" * 32)).write_text("a file")
    (scene.folder / "..evil").mkdir()
    os.mkfifo(scene.folder / ("e" * 32))
    assert [author.id for author in LocalFolder(str(scene.folder)).authors()] == [ALICE]


def second_store(scene: Scene, **changes: object) -> None:
    """Mallory offers the run of alice too."""
    mallory = Home(str(scene.place / "m"), MALLORY)
    os.makedirs(mallory.runs)
    add_run(mallory, BAD, 2, **changes)
    push_history.push(mallory, [BAD], LocalFolder(str(scene.folder)), lambda *_: None)


@pytest.mark.parametrize("changes", [{"arguments": ["--forged"]}, {"user": "mallory"}], ids=["arguments", "user"])
def test_run_offered_with_two_contents_is_left_out_until_one_is_chosen(scene: Scene, changes: Json) -> None:
    second_store(scene, **changes)
    first = scene.pull()
    assert first.new == ["project_1700000000001"]
    assert len(first.left_out) == 1
    assert "different contents" in first.left_out[0]
    assert scene.pull(ALICE).new == ["project_1700000000002"]
    assert runs.read(scene.bob, BAD).request["arguments"] == ["2"]


def test_same_run_of_two_stores_arrives_once(scene: Scene) -> None:
    second_store(scene)
    result = scene.pull()
    assert (len(result.new), result.left_out) == (2, [])


def test_planted_line_does_not_keep_the_owner_from_pushing(scene: Scene) -> None:
    uid = "3" * 32
    planted = scene.folder / MALLORY / "runs" / f"{uid}.json"
    planted.parent.mkdir(parents=True)
    planted.write_text("{}")
    add_run(scene.alice, uid, 3)
    result = push_history.push(scene.alice, [uid], LocalFolder(str(scene.folder)), lambda *_: None)
    assert result.new == ["project_1700000000003"]
    assert scene.pull().new[-1] == "project_1700000000003"


LATER = NOW + 10**6
LABELS: list[Json] = [
    {"type": "tags", "tags": {"x": {"nested": 1}}},
    {"type": "tags", "tags": ["x"]},
    {"type": "tags", "tags": {"new\nline": 1}},
    {"type": "note", "text": 5},
    {"type": "note", "text": "x" * 100_001},
    {"type": "name", "name": "last"},
    {"type": "hidden", "hidden": "yes"},
    {"type": "cancel", "by": "mallory"},
    {"type": "tags", "tags": {"x": 1}, "wall_ns": NOW + 10**18},
    {"type": "tags", "tags": {"x": 1}, "wall_ns": "soon"},
    {"type": "tags", "tags": {"x": 1}, "uid": "../../evil"},
    {"type": "tags", "tags": {"x": 1}, "uid": ["a"]},
    *({"type": "note", "text": "evil", field: value} for field in ("type", "text", "wall_ns", "uid") for value in ODD),
    *({"type": kind, field: value} for kind, field in (("name", "name"), ("tags", "tags")) for value in ODD if value),
]


def test_invalid_labels_change_nothing(scene: Scene) -> None:
    lines = [json.dumps({"uid": GOOD, "wall_ns": LATER, **label}) for label in LABELS]
    lines += [
        "[1]",
        '"x"',
        "null",
        "{",
        json.dumps({"uid": GOOD, "wall_ns": LATER, "type": "tags", "tags": {"fine": 1}}),
    ]
    data = "\n".join(lines).encode() + b"\n"
    (scene.folder / MALLORY / "labels").mkdir(parents=True)
    (scene.folder / MALLORY / "labels" / f"{hashlib.sha256(data).hexdigest()}.jsonl").write_bytes(data)
    os.mkfifo(scene.folder / MALLORY / "labels" / f"{'0' * 64}.jsonl")
    result = scene.pull()
    assert len(result.left_out) == 1
    record = history_record.record(runs.read(scene.bob, GOOD))
    assert record["tags"] == {"number": 1, "fine": 1}
    assert (record["description"], record["name"], record["hidden"], record["status"]) == (
        None,
        None,
        False,
        "Completed",
    )
    assert not list(scene.place.rglob("*evil*"))


@pytest.mark.parametrize("kind", ODD)
def test_line_of_any_type_in_a_run_of_ones_own_keeps_no_label_from_being_pushed(scene: Scene, kind: object) -> None:
    line = {"wall_ns": LATER, "type": kind, "from": kind}
    note = {"wall_ns": LATER, "type": "note", "text": "fine", "from": kind}
    with open(layout.client(scene.alice.run(GOOD)), "ab") as client:
        client.write(sealed(line) + sealed(note))
    push_history.push(scene.alice, [GOOD], LocalFolder(str(scene.folder)), lambda *_: None)
    scene.pull()
    assert history_record.record(runs.read(scene.bob, GOOD))["description"] == "fine"


def test_verify_names_the_line_that_is_not_a_label(scene: Scene) -> None:
    data = sealed({"uid": GOOD, "wall_ns": LATER, "type": [1]})
    path = scene.folder / MALLORY / "labels" / f"{hashlib.sha256(data).hexdigest()}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    found = shared_verify.audit(scene.bob, LocalFolder(str(scene.folder)), lambda *_: None)
    assert [(problem.path, problem.what) for problem in found] == [(str(path), "line 1 is not a label")]


def test_verify_names_every_kind_of_damage_and_hangs_on_nothing(scene: Scene) -> None:
    def problems() -> dict[str, str]:
        found = shared_verify.audit(scene.bob, LocalFolder(str(scene.folder)), lambda *_: None)
        return {os.path.relpath(problem.path, scene.part): problem.what for problem in found}

    assert problems() == {}
    log = scene.object_of("a1/log")
    fifo_of_object(scene)
    damaged = problems()
    assert set(damaged) == {str(log.relative_to(scene.part)), f"runs/{BAD}.json"}
    log.unlink()
    assert "a1/log is missing or damaged" in problems()[f"runs/{BAD}.json"]
    code_that_is_missing(scene)
    scene.with_file("a1/log", b"x")
    assert "train.py" in problems()[f"runs/{BAD}.json"]
    fifo_of_line(scene)
    assert set(problems()) == {f"runs/{BAD}.json"}
