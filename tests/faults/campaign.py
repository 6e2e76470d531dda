"""Kills of client commands: a campaign plays one command on a stage, kills it, asks the oracles, again and again."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from faults import kills
from faults.oracles import judge
from faults.stage import Freezer, Stage, age

if TYPE_CHECKING:
    from pathlib import Path

_KILLS_PER_STAGE = 25
_INDEX_POINTS = 40


class Kill(NamedTuple):
    """One kill: the step it fell into, where exactly, and what the oracles found."""

    step: str
    where: str
    wrong: list[str]


class Size(NamedTuple):
    """How much of a campaign is played: how many of the exact points (None for all), and how many moments."""

    points: int | None
    moments: int


def table(done: list[Kill]) -> str:
    steps = Counter(kill.step for kill in done)
    bad = Counter(kill.step for kill in done if kill.wrong)
    rows = [f"| {step} | {count} | {bad[step]} |" for step, count in sorted(steps.items())]
    total = f"| all | {len(done)} | {sum(bad.values())} |"
    return "\n".join(("| step | kills | with findings |", "| --- | ---: | ---: |", *rows, total))


def check(done: list[Kill], seeded: int) -> None:
    """Fail with everything needed to play it again."""
    print(f"HOLDFAST_TEST_SEED={seeded}\n{table(done)}")
    wrong = [f"{kill.step}, {kill.where}: {finding}" for kill in done for finding in kill.wrong]
    assert not wrong, f"HOLDFAST_TEST_SEED={seeded}\n" + "\n".join(wrong)


def submits(place: Path, rng: random.Random, size: Size, *, attached: bool, far: bool) -> list[Kill]:
    """A submit, at every boundary and at any moment, from nothing on disk to a script that prints."""
    stages = Stages(place, far=far)
    stage = stages.fresh()
    lines = 3 if attached else 20
    words = stage.words(*(() if attached else ("--no-wait",)), lines=lines)
    stage.change_project(rng)
    drawn: list[kills.Point | None] = [*draw(rng, kills.watched(stage, words), size), *[None] * size.moments]
    done = []
    for point in drawn:
        stage = stages.next()
        words = stage.words(*(() if attached else ("--no-wait",)), lines=lines if point else 40)
        stage.change_project(rng)
        before = set(stage.requests())
        death = kills.kill_at(stage, words, point) if point else kills.kill_in_time(stage, words, rng)
        step = _submit_step(stage, before, death)
        if death.killed:
            done.append(Kill(f"{step}{', to another store' if far else ''}", death.where, judge(stage)))
    return [*done, *stages.last_words()]


def first_submits(place: Path, rng: random.Random, size: Size) -> list[Kill]:
    """The submit that makes the store and unpacks the runner."""
    stage = Stage(place / "stage")
    words = stage.words("--no-wait")
    stage.forget()
    done = []
    for point in draw(rng, kills.watched(stage, words), size):
        stage.wait_until_all_ended()
        stage.forget()
        death = kills.kill_at(stage, words, point)
        if death.killed:
            done.append(Kill("submit: the first one of a store", death.where, judge(stage, thorough=True)))
    return done


def _submit_step(stage: Stage, before: set[str], death: kills.Death) -> str:
    """By what is on disk when it has died."""
    new = set(stage.requests()) - before
    if not new:
        writing = "/objects" in death.where or any((stage.home / "objects" / "tmp").glob("*-*"))
        return "submit: storing objects" if writing else "submit: before the run is written"
    folder = stage.home / "runs" / new.pop()
    notes = folder / "client.jsonl"
    if notes.exists() and b'"ticket"' in notes.read_bytes():
        return "submit: started, streaming"
    if stage.attempt_of(folder.name).exists():
        return "submit: start sent, answer lost"
    return "submit: run written, not started"


def followers(place: Path, rng: random.Random, size: Size, *, far: bool) -> list[Kill]:
    """``logs -f``, killed while it streams; the next one shows every byte once."""
    stages = Stages(place, far=far)
    done: list[Kill] = []
    for _ in range(10 * size.moments):  # on a busy machine the run may be over before its follower can be killed
        if len(done) == size.moments:
            break
        stage = stages.next()
        run_id = stage.start_run(60, 0.005)
        death = kills.kill_in_time(stage, ("logs", "-f", "-r", run_id), rng)
        if death.killed:
            again = stage.say("logs", "-f", "-r", run_id)
            wrong = judge(stage)
            truth = (stage.truth / f"{stage.uid_of(run_id)}.log").read_bytes()
            if again.out != truth:
                wrong.append("O4: following again did not show what the script wrote")
            done.append(Kill(f"logs -f{', from another store' if far else ''}", death.where, wrong))
    return [*done, *stages.last_words()]


def cancels(place: Path, rng: random.Random, size: Size) -> list[Kill]:
    """A cancel that was recorded happens, whichever process is killed; one that was not, does not."""
    stages = Stages(place)
    stage = stages.fresh()
    points = draw(rng, kills.watched(stage, ("cancel", "-r", _endless(stage))), size)
    done = []
    for point in [*points, *[None] * size.moments]:
        stage = stages.next()
        words = ("cancel", "-r", run_id := _endless(stage))
        death = kills.kill_at(stage, words, point) if point else kills.kill_in_time(stage, words, rng)
        uid = stage.uid_of(run_id)
        folder = stage.home / "runs" / uid
        records = [path for path in (folder / "client.jsonl", folder / "a1" / "control.jsonl") if path.exists()]
        asked = any(b'"cancel"' in path.read_bytes() for path in records)  # the target is asked first
        wrong = []
        if not asked:
            running = next(record for record in stage.records() if record["uid"] == uid)
            if running["status"] != "Running":
                wrong.append(f"O3: {running['status']} and nobody asked for it")
            stage.say(*words)
        wrong += judge(stage)
        ended = next(record for record in stage.records() if record["uid"] == uid)
        if ended["status"] != "Canceled":
            wrong.append(f"O3: a cancel was asked for and the run is {ended['status']}")
        if death.killed:
            done.append(Kill("cancel: asked" if asked else "cancel: not yet asked", death.where, wrong))
    return [*done, *stages.last_words()]


def _endless(stage: Stage) -> str:
    run_id = stage.start_run(100_000, 0.01)
    uid = stage.uid_of(run_id)
    stage.await_event(uid, "started")
    stage.meddled.add(uid)
    return run_id


def housekeeping(place: Path, rng: random.Random, size: Size, what: str) -> list[Kill]:
    """prune, reindex, delete and list: killed anywhere, they leave a whole store, and the next one finishes."""
    stage = Stage(place / "stage")
    kept = _furnish(stage, rng)
    frozen = Freezer(stage)
    words, doomed = {
        "store prune": (("store", "prune", "--keep-days", "5"), "old"),
        "store reindex": (("store", "reindex"), ""),
        "history delete": (("history", "delete", "--yes", "-r", "2"), "2"),
        "history list": (("history", "list"), ""),
    }[what]
    points = draw(rng, kills.watched(stage, words), size)
    done = []
    for point in [*points, *[None] * size.moments]:
        frozen.put_back()
        stage.deleted = {run_id for name, run_id in kept.items() if name == doomed}
        death = kills.kill_at(stage, words, point) if point else kills.kill_in_time(stage, words, rng)
        before = {record["run_id"] for record in stage.records()}
        wrong = judge(stage, thorough=True)
        if stage.say(*words).code != 0 and not (stage.deleted - before):
            wrong.append("O9: the same command does not finish what the killed one began")
        wrong += judge(stage)
        if death.killed:
            done.append(Kill(what, death.where, wrong))
    return done


def _furnish(stage: Stage, rng: random.Random) -> dict[str, str]:
    """A store with something in it for every broom; returns the runs by what becomes of them."""
    kept = {"1": stage.ready}
    for name in ("2", "old", "deleted", "4"):
        stage.change_project(rng)
        kept[name] = stage.start_run(2, 0)
        stage.wait_until_all_ended()
    uid = stage.uid_of(kept["deleted"])
    assert stage.say("history", "delete", "--yes", "-r", kept["deleted"]).code == 0
    stage.ids.discard(kept["deleted"])
    shutil.copytree(stage.home / "runs" / stage.uid_of(kept["4"]), stage.home / "runs" / f"{uid}.deleted")
    (stage.home / "runs" / f"{'0' * 32}.tmp").mkdir()
    (stage.home / "objects" / "tmp" / "left-1").write_bytes(b"half an object")
    age(stage.home / "objects", hours=2)
    age(stage.home / "runs" / f"{'0' * 32}.tmp", hours=2)
    age(stage.home / "runs" / stage.uid_of(kept["old"]), hours=240)
    age(stage.home / "store.json", hours=1000)
    _leave_a_dead_submit(stage, kept)
    return kept


def _leave_a_dead_submit(stage: Stage, kept: dict[str, str]) -> None:
    """A run whose submitter was killed before the start: the next command that looks has something to close."""
    words = stage.words("--no-wait")
    kills.watched(stage, words)  # stores what is new, so that the next one makes the same calls as the last
    points = kills.watched(stage, words)
    start = next(point for point in points if point.call == "mkdir" and point.path.endswith("/shims/run"))
    stage.wait_until_all_ended()
    assert kills.kill_at(stage, words, start).killed
    kept["5"] = max(stage.ids)


def restores(place: Path, rng: random.Random, size: Size) -> list[Kill]:
    """Killed midway, what was there is saved, and a second restore completes it."""
    stage = Stage(place / "stage")
    then = _contents(stage.project)
    stage.change_project(rng)
    (stage.project / "package" / "part0.py").unlink()
    (stage.project / "package" / "part1.py").write_text("VALUE = 'changed'\n")
    (stage.project / "notes.txt").write_text("new since then\n")
    before = _contents(stage.project)
    frozen = Freezer(stage)
    words = ("restore", "-r", stage.ready)
    points = draw(rng, kills.watched(stage, words), size)
    done = []
    for point in [*points, *[None] * size.moments]:
        frozen.put_back()
        death = kills.kill_at(stage, words, point) if point else kills.kill_in_time(stage, words, rng)
        wrong = _completes(stage, words, then, before) + judge(stage, thorough=True)
        if death.killed:
            done.append(Kill("restore", death.where, wrong))
    return done


def _completes(stage: Stage, words: tuple[str, ...], then: dict[str, bytes], before: dict[str, bytes]) -> list[str]:
    wrong = []
    touched = _contents(stage.project) != before
    saved = sorted((stage.home / "saved").glob("[0-9a-f]" * 64), key=lambda path: path.read_text())
    if touched and not saved:
        wrong.append("O1: the project was changed and its state is not saved")
    if stage.say(*words).code != 0 or _contents(stage.project) != then:
        wrong.append("O9: a second restore does not complete the first")
    saved = sorted((stage.home / "saved").glob("[0-9a-f]" * 64), key=lambda path: path.read_text())
    if saved:
        back = stage.say("restore", "--saved", saved[0].name)
        if back.code != 0 or _contents(stage.project) != before:
            wrong.append(f"O1: the saved state is not what was there: {back.err}")
    return wrong


def _contents(project: Path) -> dict[str, bytes]:
    return {str(path.relative_to(project)): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def draw(rng: random.Random, points: list[kills.Point], size: Size) -> list[kills.Point]:
    """All points, or some by chance. Of the many writes of the index, which is derived, a few stand for all."""
    index = [point for point in points if "index.sqlite" in point.path]
    points = [*(set(points) - set(index)), *rng.sample(index, min(len(index), _INDEX_POINTS))]
    return sorted(points if size.points is None else rng.sample(sorted(points), min(len(points), size.points)))


class Stages:
    """A new stage after so many kills; each is judged to the last before it goes."""

    def __init__(self, place: Path, *, far: bool = False) -> None:
        self._place = place
        self._far = far
        self._made = 0
        self._kills = 0
        self._findings: list[str] = []
        self._stage: Stage | None = None

    def fresh(self) -> Stage:
        self._retire()
        self._made += 1
        self._kills = 0
        self._stage = Stage(self._place / str(self._made), far=self._far)
        return self._stage

    def next(self) -> Stage:
        self._kills += 1
        if self._stage is None or self._kills > _KILLS_PER_STAGE:
            return self.fresh()
        return self._stage

    def last_words(self) -> list[Kill]:
        self._retire()
        return [Kill("at the end of a stage", "", self._findings)] if self._findings else []

    def _retire(self) -> None:
        if self._stage is not None:
            self._findings += judge(self._stage, thorough=True)
            shutil.rmtree(self._stage.place)
            self._stage = None
