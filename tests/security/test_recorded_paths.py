"""``reproduce`` of a run whose record someone else wrote: it chooses no folder and no program of this machine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.engine.submit import reproduce
from holdfast.errors import UsageError
from holdfast.model import Link
from holdfast.store.runs import Run

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

PLACE = "/a/folder/of/the/client"
PLAN: dict[str, Any] = {
    "uid": "a" * 32,
    "run_id": "project_1",
    "tree": "b" * 64,
    "script": "train.py",
    "argv": [PLACE, "train.py"],
    "python": PLACE,
    "target": "box",
    "links": [{"name": "d", "target": PLACE}],
    "data": [{"name": "d", "path": PLACE, "link": "data/d"}],
    "share": PLACE,
    "shims": PLACE,
    "environment": {"key": "k", "prefix": PLACE},
    "interpreter": {"origin": "active", "why": "w"},
    "idle": {"command": PLACE, "minutes": 1},
    "container": {"engine": "podman", "program": PLACE, "image_id": "i", "python": PLACE, "arguments": [PLACE]},
    "spark": {"submit": PLACE},
    "keep_work": True,
}
OWN = {"run_id": "project_1", "target": "box", "kind": "local"}
IMPORTED = {**OWN, "imported": True}
PULLED = {**OWN, "kind": "remote", "target": "evil", "origin_number": 3}


def again(request: dict[str, Any], plan: dict[str, Any], links: tuple[Link, ...] = ()) -> Any:
    run = Run("a" * 32, "/nowhere", request, [], [])
    return reproduce.job_again(run, plan, config="box", target="box", env={}, links=links)


@pytest.mark.parametrize("request_of_run", [IMPORTED, PULLED], ids=["imported", "pulled"])
@pytest.mark.parametrize("key", PLAN)
def test_no_path_of_a_foreign_plan_becomes_part_of_the_new_job(request_of_run: dict[str, Any], key: str) -> None:
    needed = {name: PLAN[name] for name in ("uid", "run_id", "tree", "script")}
    plan = {**needed, "argv": ["python", "train.py"], "target": "box", key: PLAN[key]}
    plan |= {"interpreter": PLAN["interpreter"]} if key in ("argv", "python") else {}
    if key == "links":
        with pytest.raises(UsageError) as caught:
            again(request_of_run, plan)
        assert caught.value.hint == f"--link d={PLACE}"
        return
    job = again(request_of_run, plan)
    assert PLACE not in repr(job)
    assert not job.keep_work


def test_links_of_an_own_plan_and_links_given_again_are_used() -> None:
    assert again(OWN, PLAN).links == (Link("d", PLACE),)
    assert again(OWN, PLAN).python == PLACE
    given = (Link("d", "/another"),)
    assert again(IMPORTED, PLAN, given).links == given


@pytest.mark.parametrize("key", PLAN)
@pytest.mark.parametrize("value", [1, "a", [1, "a"], {"a": 1}, [[]], True, 10**30, "\ud800", [None], {"": None}])
def test_malformed_plan_is_refused_or_read_but_never_a_crash(key: str, value: object) -> None:
    with contextlib.suppress(UsageError):
        assert all(isinstance(link, Link) for link in again(OWN, {**PLAN, key: value}).links)


def test_reproduce_of_an_imported_run_needs_its_link_again(desk: Desk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("4711")
    desk.script("import holdfast; holdfast.log('x', 1); print('read', open('d/key').read())")
    assert desk.submit("--link", f"d={secret}", "train.py").code == 0
    archive = str(tmp_path / "runs.zip")
    assert desk.holdfast("export", "-r", "1", "--to", archive).code == 0
    desk.env["HOLDFAST_HOME"] = str(tmp_path / "other-store")
    assert desk.holdfast("import", archive).code == 0
    words = ("reproduce", "-r", "1", "-c", "local")
    refused = desk.holdfast(*words)
    assert (refused.code, f"--link d={secret}" in refused.err) == (2, True), refused
    assert "4711" not in refused.err
    given = desk.holdfast(*words, "--link", f"d={secret}")
    assert (given.code, "read 4711" in given.err) == (0, True), given
