"""``history pull`` from a target that lies: runs of other targets stay as they are, and a list has an end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast import target_lookup
from holdfast.amlconfig.types import ComputeTarget
from holdfast.engine.machines import cleanup
from holdfast.engine.runs import run_target
from holdfast.engine.transfer import pull_runs
from holdfast.errors import MalformedAnswerError
from holdfast.model import Identity, Project
from holdfast.runner import wire
from holdfast.store import runs
from holdfast.store.home import Home
from security.hostile import channel, end, piece

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.model import Json
    from holdfast.target_lookup import Target

UID = "a" * 32
PROJECT = Project("", "01234567-89ab-cdef-0123-456789abcdef", "project")
REQUEST: Json = {
    "project": "project",
    "project_id": PROJECT.id,
    "script": "train.py",
    "arguments": [],
    "config": "local",
    "tree": "ab" * 32,
    "created_ns": 1_700_000_000_000_000_000,
}
IDENTITY = Identity(UID, "project_1700000000000", 1)
CLOSED = b'{"seq":0,"wall_ns":1,"type":"closed","outcome":"failed","exit_code":3,"reason":"evil","files":{}}\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(str(tmp_path / "store"), "1" * 32)
    os.makedirs(found.runs)
    return found


@pytest.fixture
def evil(home: Home) -> Target:
    return _target(home, "evil", "ssh-ed25519 AAAAevil")


def test_run_of_another_target_is_left_alone(home: Home, evil: Target) -> None:
    other = _target(home, "good", "ssh-ed25519 AAAAgood")
    moved = _target(home, "evil", "ssh-ed25519 AAAAevil", root="/elsewhere")
    for place in ({"kind": "local", "home": home.path}, run_target.remembered(other), run_target.remembered(moved), {}):
        runs.create(home, IDENTITY, {**REQUEST, **place})
        found = pull_runs.gather(home, evil, channel(_offers), PROJECT, lambda _done, _total: None)
        assert (found.new, found.here, found.left_alone) == ([], 0, 1), place
        assert os.listdir(home.run(UID)) == ["run.json"]
        os.unlink(home.run(UID, "run.json"))
        os.rmdir(home.run(UID))


@pytest.mark.parametrize("change", [{"tree": "cd" * 32}, {"created_ns": 7}, {"project_id": "f" + PROJECT.id[1:]}])
def test_run_with_other_contents_is_left_alone(home: Home, evil: Target, change: Json) -> None:
    runs.create(home, IDENTITY, {**REQUEST, **run_target.remembered(evil), **change})
    assert pull_runs.gather(home, evil, channel(_offers), PROJECT, lambda _done, _total: None).left_alone == 1
    assert os.listdir(home.run(UID)) == ["run.json"]


def test_run_of_this_target_is_brought_up_to_date(home: Home, evil: Target) -> None:
    readdressed = _target(home, "other-name", "ssh-ed25519 AAAAevil", address="192.0.2.7")
    runs.create(home, IDENTITY, {**REQUEST, **run_target.remembered(readdressed)})
    found = pull_runs.gather(home, evil, channel(_offers), PROJECT, lambda _done, _total: None)
    assert (found.new, found.here, found.left_alone) == ([], 1, 0)
    assert runs.read(home, UID).events[-1]["reason"] == "evil"


def test_endless_list_is_refused(home: Home, evil: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_runs, "_MOST_LISTED", 1_000_000)

    def answers(request: Json) -> Iterator[bytes]:
        while True:
            yield wire.pack({"re": request["id"], "run": {"uid": UID, "x": "y" * 10_000}})

    with pytest.raises(MalformedAnswerError):
        pull_runs.gather(home, evil, channel(answers), PROJECT, lambda _done, _total: None)
    with pytest.raises(MalformedAnswerError):
        cleanup.look(home, evil, channel(answers))


def _offers(request: Json) -> Iterator[bytes]:
    """The run as if it were here, with attempts that it never had."""
    if request["verb"] == "list":
        run = {"uid": UID, "request": {**REQUEST, **IDENTITY._asdict()}, "attempts": ["a1", "a2", "a3"]}
        yield wire.pack({"re": request["id"], "run": run})
        yield end(request)
    else:
        yield piece(request, "events.jsonl", CLOSED)
        yield end(request, state="closed")


def _target(home: Home, name: str, host_key: str, address: str = "192.0.2.1", root: str | None = None) -> Target:
    compute = ComputeTarget(
        name=name,
        type="remote",
        address=address,
        username="ada",
        host_key=host_key,
        root=root,
        python_location="python3",
    )
    return target_lookup.resolve(compute, home.path)
