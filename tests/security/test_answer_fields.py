"""Every field of every answer of a target, with every JSON type and with values that look like paths.

Whatever it is, no command fails with a traceback or exit code 70, hangs, writes outside the store, or starts a run a
second time, and runs of other targets are still shown.

``put`` and ``input`` have no answer of their own: they are sent with the number 0, and whatever names that number is
skipped as "frame repeated" is. What a target says about them is in the answers to ``lacks``, ``start``, ``load`` and
``exec`` (how much it has taken, and how much more it can take). A kernel's streams are ``exec``, too.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import seeds
from security.answer_stage import Stage
from security.replay import HELLO, MISSING, Change

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of about 75,000; all of them where the number is 0. ``make soak`` sets it.
CASES = int(os.environ.get("HOLDFAST_FUZZ_ANSWERS", "900"))
# What a client asks a target for in these flows; a verb that is gone from here is not tested any more.
VERBS = {
    *("hello", "start", "pull", "look", "stop", "lacks", "fetch", "probe", "image", "facts", "list", "clean", "exec"),
    *("images", "gpus", "survey", "touch", "purge", "data", "save", "load", "bury", "discard", "prepare"),
    *("solve", "register", "authorize", "queue", "command", "history"),
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """In memory where there is such a place: every case begins with a fresh store."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    top = Path(tempfile.mkdtemp(dir=memory))
    try:
        yield Stage(top / "stage", top / "kept")
    finally:
        shutil.rmtree(top, ignore_errors=True)


def test_recorded_flows_cover_the_verbs(stage: Stage) -> None:
    recorded = {verb for flow in stage.flows.values() for verb in flow.recording.answers}
    assert recorded >= VERBS
    with stage.replaying():
        for name in stage.flows:
            assert stage.case(name, None) == []


@pytest.mark.timeout(20_000)
def test_no_field_of_an_answer_breaks_a_command(stage: Stage) -> None:
    seed = seeds.seed()
    cases = [(name, change) for name, flow in stage.flows.items() for change in flow.recording.changes()]
    chosen = random.Random(seed).sample(cases, min(CASES or len(cases), len(cases)))
    print(f"{len(chosen)} of {len(cases)}")
    wrong: list[str] = []
    with stage.replaying():
        for name, change in chosen:
            wrong += stage.case(name, change)
    assert wrong == [], "\n".join([f"{seeds.VARIABLE}={seed}", *wrong[:20]])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("list", Change("look", 0, ("states",), "empty list")),
        ("info", Change("look", 0, ("states",), MISSING)),
        ("logs", Change("look", 0, ("states",), "odd object")),
    ],
    ids=str,
)
def test_oracle_finds_a_launcher_that_believes_the_target(stage: Stage, name: str, change: Change) -> None:
    with stage.replaying():
        assert stage.case(name, change) == []
    with stage.replaying("security.planted_launcher:CredulousLauncher"):
        assert "Holdfast failed on its answer" in stage.case(name, change)[0]


def test_oracle_finds_a_launcher_that_leaves_a_file_open(stage: Stage) -> None:
    with stage.replaying("security.planted_launcher:LeakingLauncher"):
        assert stage.case("info", None) == ["info None: 1 files or pipes left open"]


def test_target_that_claims_another_store_writes_nothing_outside(stage: Stage) -> None:
    with stage.replaying():
        for name in stage.flows:
            for way in ("secret", "absolute path", "climbing path"):
                assert stage.case(name, Change(HELLO, 0, ("hello", "store"), way)) == []


def test_data_set_last_used_at_an_impossible_time_is_listed(stage: Stage) -> None:
    change = Change("data", 0, ("sets", 0, "used_ns"), "huge negative")
    assert change in set(stage.flows["data list"].recording.changes())
    with stage.replaying():
        assert stage.case("data list", change) == []


@pytest.mark.parametrize(
    ("name", "verb", "path"),
    [("solve", "solve", ("answer",)), ("attach", "survey", ("facts", "engines", "docker"))],
    ids=["solve", "attach"],
)
def test_answer_with_a_field_of_the_wrong_type_is_called_malformed(
    stage: Stage, name: str, verb: str, path: tuple[str, ...]
) -> None:
    """A lock of a target that builds, and the engines that a machine has when it is attached."""
    ways = ("long text", "list of null", "huge", "null")
    changes = [change for change in stage.flows[name].recording.changes() if (change.verb, change.path) == (verb, path)]
    wrong = [change for change in changes if change.way in ways]
    assert len(wrong) == len(ways)
    with stage.replaying():
        for change in wrong:
            assert stage.case(name, change) == []
