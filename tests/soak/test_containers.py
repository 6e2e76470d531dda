"""Containers whose engines, watchers and own processes are killed: nothing is left, and each run ends as it must.

``HOLDFAST_TEST_SEED`` draws the same again, ``HOLDFAST_SOAK_PART=20`` plays a twentieth of it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import holdfast
import seeds
from conftest import alive, eventually
from containers.conftest import target
from enginelab import Docker, Podman
from faults.oracles import judge
from faults.stage import Stage, ids_in, processes_of
from holdfast.runner.machine import processes as hostfacts
from soak.page import write_section
from sshlab import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PART = int(os.environ.get("HOLDFAST_SOAK_PART", "1"))
STRIKES = 200 // PART  # that met something
AT_ONCE = 4
PATIENCE_S = 120
LINES, PAUSE_S = 80, 0.03
LONGEST_WAIT_S = 4.0  # a strike falls between the id and about the script's end
WENT_DOWN = ("shut down", "could not be started", "when it was restarted")


class Engine(NamedTuple):
    """``survives`` is whether containers go on when its daemon does not."""

    name: str
    room: Docker | Podman
    survives: bool

    @property
    def daemon(self) -> Docker | None:
        return self.room if isinstance(self.room, Docker) else None

    def left(self) -> list[str]:
        return self.room.run("ps", "--all", "--quiet", "--filter", "label=holdfast.run").stdout.split()


class Quay(Stage):
    """A stage whose runs are in containers of one engine."""

    def __init__(self, place: Path, engine: Engine, **env: str) -> None:
        self.engine = engine
        self._env = {**engine.room.environment, **env}
        super().__init__(place)
        self.patience = PATIENCE_S
        self.known: list[str] = []  # a finding is told once

    def start(self, *words: str, cwd: Path | None = None, **more: Any) -> Any:
        return super().start(*words, cwd=cwd, env={**self._env, **more.pop("env", {})}, **more)

    def words(self, *options: str, script: str = "train.py", lines: int = LINES, pause: float = PAUSE_S) -> Any:
        if not (self.project / "aml_config").exists():
            target(self, "boat", "engine: docker" if self.engine.daemon else "engine: podman")
        asked = ("-c", "boat", "-e", f"TRUTH={self.truth}", "--link", f"truth={self.truth}", "--secret", "CANARY")
        return ("submit", *asked, "--grace", "5s", *options, script, str(lines), str(pause))


class Run(NamedTuple):
    stage: Quay
    run_id: str
    uid: str
    client: Any

    @property
    def container(self) -> str:
        return f"holdfast-{self.uid}-a1"

    def pid_of(self, event: str, field: str) -> int | None:
        """From the runner's own events, once they are there; None when the run has ended before."""
        found: list[Any] = []

        def is_known() -> bool:
            found[:] = self.stage.events_of(self.uid)
            return any(each["type"] in (event, "closed") for each in found)

        eventually(is_known, PATIENCE_S)
        return next((int(each[field]) for each in found if each["type"] == event), None)

    def script_pids(self) -> list[int]:
        return hostfacts.marked(b"HOLDFAST_METRICS_DIR", os.fsencode(self.stage.attempt_of(self.uid) / "metrics"))

    def started(self) -> bool:
        path = self.stage.truth / "starts"
        return path.exists() and self.uid in path.read_text()


class Fault(NamedTuple):
    """``ends`` are the states that a run may end in, ``reasons`` words of which one is told; both empty: it completes.

    ``early`` is the state that is right where the script had not been started yet.
    """

    strike: Callable[[Run], bool]
    ends: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    early: tuple[str, ...] = ()


def kill_client(run: Run) -> bool:
    return _kill(run.client.pid)


def kill_supervisor(run: Run) -> bool:
    return _kill(run.pid_of("accepted", "pid"))


def kill_guardian(run: Run) -> bool:
    return _kill(run.pid_of("accepted", "guardian"))


def kill_both(run: Run) -> bool:
    return _kill(run.pid_of("accepted", "guardian"), run.pid_of("accepted", "pid"))


def kill_tender(run: Run) -> bool:
    return _kill(run.pid_of("started", "pid"))


def kill_engines_client(run: Run) -> bool:
    tender = run.pid_of("started", "pid")
    return tender is not None and _kill(*hostfacts.descendants(tender))


def kill_script(run: Run) -> bool:
    return _kill(*run.script_pids())


def kill_first_process(run: Run) -> bool:
    parents = hostfacts.parents()
    return _kill(*(parents[pid] for pid in run.script_pids() if pid in parents))


def kill_container(run: Run) -> bool:
    return run.stage.engine.room.run("kill", run.container, check=False).returncode == 0


def remove_container(run: Run) -> bool:
    said = run.stage.engine.room.run("rm", "--force", run.container, check=False)
    return said.returncode == 0 and bool(said.stdout) and "no such" not in said.stderr.lower()


def cancel(run: Run) -> bool:
    return run.stage.say("cancel", "-r", run.run_id).code == 0


NOTHING = "nothing"
KILLED = ("killed or removed externally", "killed externally")
FAULTS = {
    NOTHING: Fault(lambda _: True),
    "client": Fault(kill_client, early=("Failed",)),
    "supervisor": Fault(kill_supervisor, ("Lost",), ("supervisor ended by signal 9",)),
    "guardian": Fault(kill_guardian, ("Lost",), ("guardian was killed",)),
    "supervisor and guardian": Fault(
        kill_both, ("Lost",), ("both killed", "before the script", "guardian", "signal 9")
    ),
    "the container monitor": Fault(kill_tender, early=("Lost", "Failed")),
    "the engine's client": Fault(kill_engines_client, early=("Failed",)),
    "script": Fault(kill_script, ("Failed",), ("killed by signal 9", *KILLED)),
    "first process of the container": Fault(kill_first_process, ("Failed",), KILLED),
    "container: kill": Fault(kill_container, ("Failed",), KILLED),
    "container: rm --force": Fault(remove_container, ("Failed",), (*KILLED, "stopped by another program")),
    "cancel": Fault(cancel, ("Canceled",), ("canceled",)),
}


class Strike(NamedTuple):
    """What was done to a run of an engine, whether anything was there to do it to, and what is wrong since."""

    what: str
    engine: str
    met: bool
    wrong: list[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("containers")
    yield made
    for pid in processes_of(made):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def engines(place: Path) -> Iterator[list[Engine]]:
    try:
        with ExitStack() as open_rooms:
            enter = open_rooms.enter_context
            yield [
                Engine("docker, live-restore", enter(Docker(place / "surviving", live_restore=True)), True),
                Engine("docker", enter(Docker(place / "plain")), False),
                Engine("podman", enter(Podman(place / "podman")), True),
            ]
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.mark.timeout(600)
def test_the_oracle_sees_what_a_planted_bug_does(engines: list[Engine], place: Path) -> None:
    """A runner that says of every container that it is gone."""
    planted = place / "planted" / "src"
    shutil.copytree(Path(holdfast.__file__).parent, planted / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    path = planted / "holdfast/runner/container/monitor.py"
    text, before = path.read_text(), '            engines.ask(program, "rm", '
    assert text.count(before) == 1
    path.write_text(text.replace(before, f"            return True\n{before}"))
    stage = Quay(place / "planted" / "stage", engines[1], PYTHONPATH=str(planted))
    assert any("containers are left" in finding for finding in settle(stage))


@pytest.mark.timeout(7200)
def test_two_hundred_strikes(engines: list[Engine], place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        number = seeds.seed()
    started = time.monotonic()
    with ThreadPoolExecutor(len(engines)) as pool:
        parts = [
            pool.submit(endure, Quay(place / f"stage{index}", engine), random.Random(f"{number}/{engine.name}"))
            for index, engine in enumerate(engines)
        ]
        done = [strike for part in parts for strike in part.result()]
    minutes = (time.monotonic() - started) / 60
    wrong = [f"{each.engine}, {each.what}: {finding}" for each in done for finding in each.wrong]
    with capsys.disabled():
        print("\n".join(("", table(done), *wrong)), flush=True)
    text = PAGE.format(seed=number, at_once=AT_ONCE, minutes=minutes, table=table(done))
    write_section(
        "Containers", text + ("\n".join(f"- {each}" for each in wrong) or "Nothing is left, no result is wrong.")
    )
    assert wrong == []
    assert sum(each.met and each.what != NOTHING for each in done) >= STRIKES


def endure(stage: Quay, rng: random.Random) -> list[Strike]:
    """Rounds of a few runs at once, each of them struck by something else; or all of them by what the daemon does."""
    done: list[Strike] = []
    while sum(strike.met and strike.what != NOTHING for strike in done) < STRIKES / 3:
        is_daemons = stage.engine.daemon is not None and rng.random() < 0.25
        done += strike_daemon(stage, rng) if is_daemons else strike_runs(stage, rng)
        done += [Strike("after a round", stage.engine.name, False, wrong) for wrong in [settle(stage)] if wrong]
    return done


def strike_runs(stage: Quay, rng: random.Random) -> list[Strike]:
    names = rng.sample(list(FAULTS), AT_ONCE)
    moments = [moment(rng) for _ in names]

    def strike(name: str, wait: float) -> Strike:
        run = submit(stage)
        fault = FAULTS[name]
        if fault.ends:
            stage.meddled.add(run.uid)
        time.sleep(wait)
        before = run.started()
        met = fault.strike(run)
        wrong = check(run, fault, before or run.started())
        return Strike(name, stage.engine.name, met, wrong)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(strike, names, moments))


def strike_daemon(stage: Quay, rng: random.Random) -> list[Strike]:
    """All runs are struck by one restart; those that had ended before have ended well."""
    daemon, survives = stage.engine.daemon, stage.engine.survives
    assert daemon is not None
    how = rng.choice(("restart", "kill"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(submit, [stage] * AT_ONCE))
    if not survives:
        stage.meddled |= {run.uid for run in runs}
    time.sleep(moment(rng))
    before = [run.started() for run in runs]
    (daemon.stop if how == "restart" else daemon.kill)()
    time.sleep(rng.uniform(0, 2))
    daemon.start()
    fault = Fault(lambda _: True, () if survives else ("Failed",), WENT_DOWN, early=("Failed",))
    wrong = [finding for run, early in zip(runs, before, strict=True) for finding in check(run, fault, early)]
    return [Strike(f"daemon: {how}", stage.engine.name, True, wrong)]


def moment(rng: random.Random) -> float:
    """Every other one falls into the container's start."""
    return rng.uniform(0, rng.choice((1.0, LONGEST_WAIT_S)))


def submit(stage: Quay) -> Run:
    client = stage.start(*stage.words(), bufsize=0)
    said = b""
    while not ids_in(said):
        block = client.stdout.read(65536)
        assert block, client.stderr.read()
        said += block
    run_id = ids_in(said)[0]
    stage.ids.add(run_id)
    return Run(stage, run_id, stage.uid_of(run_id), client)


def check(run: Run, fault: Fault, had_started: bool) -> list[str]:
    """What the run is told as when it has ended, by the table."""
    try:
        _, err = run.client.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return [still_going(run)]
    found = run.stage.wait_for_end(run.run_id, PATIENCE_S)
    status, reason = str(found["status"]), str(found["reason"] or "")
    if status == "Completed" and (run.stage.truth / f"{run.uid}.end").exists():
        return []
    if not had_started and status in fault.early:
        return []
    if status in fault.ends and any(words in reason for words in fault.reasons):
        return []
    return [f"{run.run_id} is {status}: {reason!r}, script started before: {had_started}; client: {err[-300:]!r}"]


def still_going(run: Run) -> str:
    """All that is known of a run that does not come to its end; what is left of it is ended."""
    events = [event["type"] for event in run.stage.events_of(run.uid)]
    processes = processes_of(run.stage.place)
    containers = run.stage.engine.room.run("ps", "--all", "--format", "{{.Names}} {{.Status}}").stdout
    run.stage.say("cancel", "-r", run.run_id)
    run.client.kill()
    run.client.communicate()
    return f"{run.run_id} ({run.uid}) does not end: {events}, {processes}, {containers}"


def settle(stage: Quay) -> list[str]:
    """What is wrong when every run has ended: all oracles, and no container."""
    wrong = [finding for finding in judge(stage) if finding not in stage.known]
    stage.known += wrong
    try:
        eventually(lambda: stage.engine.left() == [], 10)
    except AssertionError:
        states = stage.engine.room.run("ps", "--all", "--format", "{{.Names}} {{.Status}}").stdout
        wrong.append(f"containers are left: {states}")
        stage.engine.room.run("rm", "--force", *stage.engine.left(), check=False)
    return wrong


def table(done: list[Strike]) -> str:
    names = list(dict.fromkeys(each.engine for each in done))
    counts = Counter((each.what, each.engine) for each in done)
    met = Counter(each.what for each in done if each.met)
    bad = Counter(each.what for each in done if each.wrong)
    rows = [
        f"| {what} | {' | '.join(str(counts[what, name]) for name in names)} | {met[what]} | {bad[what]} |"
        for what in sorted({each.what for each in done})
    ]
    head = f"| killed | {' | '.join(names)} | was still there | with findings |"
    sums = (sum(each.engine == name for each in done) for name in names)
    total = f"| all | {' | '.join(map(str, sums))} | {sum(met.values())} | {sum(bad.values())} |"
    return "\n".join((head, "| --- |" + " ---: |" * (len(names) + 2), *rows, total))


def _kill(*pids: int | None) -> bool:
    """Whether any of them was still there."""
    met = False
    for pid in pids:
        if pid is not None and alive(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                met = True
    return met


PAGE = """\
Runs in containers, {at_once} at once on each of three engines, each with another kill at a random moment between its
id and about its script's end. Sometimes the daemon is restarted or killed under all of them instead.
`HOLDFAST_TEST_SEED={seed}` draws the same again; {minutes:.0f} minutes. Afterwards the oracles of this page must
hold, no container and no process may be left, and each run must have the result that fits its kill. Kills of clients,
of the container monitor and of daemons with live-restore change no result, but a run whose script had not started yet
may be failed or lost. All other runs are failed, canceled or lost, with the reason. "Nothing" is a run without a
kill.

{table}

"""
