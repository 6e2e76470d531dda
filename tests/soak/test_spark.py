"""A hundred Spark runs whose client, driver, executors or master is killed: each ends as it must, nothing is left.

``HOLDFAST_TEST_SEED`` draws the same again, ``HOLDFAST_SOAK_PART=5`` plays a fifth of it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import holdfast
import libraries
import seeds
from conftest import alive, eventually
from faults import oracles
from faults.stage import Stage, ids_in, processes_of
from holdfast.runner.machine import processes as hostfacts
from soak.page import write_section
from spark.killable import Killable, commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
PART = int(os.environ.get("HOLDFAST_SOAK_PART", "1"))
SUBMITS = 100 // PART
JVM = "org.apache.spark.deploy.SparkSubmit"
PATIENCE_S = 400  # for a run on a busy machine
# One line of truth before each step. The name of the application is the run's uid, so that its master can be asked.
SCRIPT = r"""
import os, sys, time
uid, truth = os.environ["HOLDFAST_RUN_UID"], os.environ["TRUTH"]
def tell(name, text):
    fd = os.open(os.path.join(truth, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, text.encode())
    os.close(fd)
tell("starts", "%s %d\n" % (uid, os.getpid()))
from pyspark.sql import SparkSession
def work():
    session = SparkSession.builder.appName(uid).getOrCreate()
    context = session.sparkContext
    tell("applications", "%s %s\n" % (uid, context.applicationId))
    for _ in range(3):
        pairs = context.parallelize(range(40), 4).map(lambda n: time.sleep(0.05) or (n % 7, n))
        assert dict(pairs.groupByKey(2).mapValues(len).collect())[0] == 6
    return session
session = work()
if sys.argv[1:] == ["twice"]:
    session.stop()
    work()
tell(uid + ".end", "0\n")
"""
SETTINGS = "configuration:\n  spark.executor.memory: 512m\n  spark.driver.memory: 512m\n"


class SparkStage(Stage):
    """A stage whose runs are Spark applications on a cluster (``sp1``) or on this machine (``local``)."""

    def __init__(self, place: Path, cluster: Killable, python: Path, **env: str) -> None:
        self._env = env
        super().__init__(place)
        self.cluster, self.interpreter = cluster, python
        self.temporary = place / "temporary"
        self.temporary.mkdir()
        self.env["TMPDIR"] = str(self.temporary)
        self.patience = 60
        config = self.project / "aml_config"
        config.mkdir()
        (config / "sp1.compute").write_text(f"type: cluster\naddress: {cluster.url}\n")
        (config / "local.runconfig").write_text("Target: local\n")
        (config / "spark_dependencies.yml").write_text(SETTINGS)
        self.script(SCRIPT, "etl.py")
        self.trust("sp1")
        self.seen = Counter[str]()  # applications by name, as masters that are gone told them

    def start(self, *words: str, cwd: Path | None = None, **more: Any) -> Any:
        return super().start(*words, cwd=cwd, env={**self._env, **more.pop("env", {})}, **more)

    def submit_spark(self, config: str, *arguments: str) -> Run:
        words = ("-c", config, "--python", str(self.interpreter), "-e", f"TRUTH={self.truth}", "--grace", "5s")
        client = self.start("submit", *words, "etl.py", *arguments, bufsize=0)
        said = b""
        while not ids_in(said):
            block = client.stdout.read(65536)
            assert block, client.stderr.read()
            said += block
        run_id = ids_in(said)[0]
        self.ids.add(run_id)
        return Run(self, run_id, self.uid_of(run_id), config, client)

    def kill_master(self) -> None:
        with suppress(OSError):
            self.remember_applications()
        self.cluster.kill_master()

    def remember_applications(self) -> None:
        state = self.cluster.state()
        for name, count in Counter(row["name"] for row in state["activeapps"] + state["completedapps"]).items():
            self.seen[name] = max(self.seen[name], count)


class Run(NamedTuple):
    stage: SparkStage
    run_id: str
    uid: str
    config: str
    client: subprocess.Popen[bytes]

    @property
    def application(self) -> str | None:
        return next((row[1] for row in _rows(self.stage, "applications") if row[0] == self.uid), None)

    @property
    def has_started(self) -> bool:
        return any(row[0] == self.uid for row in _rows(self.stage, "starts"))

    def has_ended(self) -> bool:
        return any(event["type"] in ("exited", "closed") for event in self.stage.events_of(self.uid))

    def drivers(self) -> list[int]:
        return [int(row[1]) for row in _rows(self.stage, "starts") if row[0] == self.uid]

    def jvms(self) -> list[int]:
        children = [pid for driver in self.drivers() for pid in hostfacts.descendants(driver)]
        running = commands()
        return [pid for pid in children if JVM in running.get(pid, ()) and running[pid][0].endswith("java")]

    def executors(self) -> list[int]:
        application = self.application
        return self.stage.cluster.executors(application) if application else []


class Fault(NamedTuple):
    """``ends`` are right beside Completed, with a reason that begins with one of ``reasons``.

    ``victims`` finds what is killed as soon as it is there; without it ``strike`` is called at any moment.
    """

    victims: Callable[[Run], list[int]] | None = None
    strike: Callable[[Run], object] = lambda _: True
    ends: str = ""
    reasons: tuple[str, ...] = ()


# The second one where the JVM that was killed puts the command line together, for a shell.
JVM_KILLED = ("Spark's driver JVM was killed by signal 9", "Spark's JVM ended with code 1 before it could be used")
FORGOTTEN = ("the Spark master spark://", "Spark")
FAULTS = {
    "nothing": Fault(),
    "client": Fault(lambda run: [run.client.pid]),
    "driver JVM": Fault(Run.jvms, ends="Failed", reasons=JVM_KILLED),
    "driver Python": Fault(Run.drivers, ends="Failed", reasons=("killed by signal 9",)),
    "executor": Fault(lambda run: run.executors()[:1]),
    "all executors": Fault(Run.executors),
    "master": Fault(strike=lambda run: run.stage.kill_master(), ends="Failed", reasons=FORGOTTEN),
    "cancel": Fault(
        strike=lambda run: run.stage.say("cancel", "-r", run.run_id), ends="Canceled", reasons=("canceled",)
    ),
}
LOCAL = ("nothing", "client", "driver JVM", "driver Python", "cancel")


class Strike(NamedTuple):
    what: str
    config: str
    met: bool
    status: str
    wrong: list[str]


@pytest.fixture(scope="module")
def python() -> Path:
    if shutil.which("java") is None:
        pytest.skip("NOT TESTED: Java is not installed")
    return libraries.interpreter(ROOT, libraries.SPARK)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("spark")
    yield made
    for pid in processes_of(made):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(python: Path, place: Path) -> Iterator[Killable]:
    for name in ("standalone", "local"):
        (place / name).mkdir()
    made = Killable(python, place / "standalone", place / "local")
    yield made
    made.stop()


@pytest.mark.timeout(1200)
def test_the_oracle_finds_planted_bugs(cluster: Killable, place: Path, python: Path) -> None:
    """A runner that calls killed scripts completed and keeps their scratch folders; a run of two applications."""
    planted = place / "planted"
    shutil.copytree(Path(holdfast.__file__).parent, planted / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    _plant(
        planted / "holdfast/runner/run/outcome.py",
        "    if code < 0:\n",
        "    if code < 0:\n        return 'completed', 0, ''\n",
    )
    _plant(planted / "holdfast/runner/machine/spark_record.py", "    remove_tree(layout.spark_scratch(attempt))\n", "")
    stage = SparkStage(place / "stage-planted", cluster, python, PYTHONPATH=str(planted))
    strike = strike_one(stage, "driver Python", "local", 0.0)
    assert strike.met
    assert any("is Completed" in finding for finding in strike.wrong), strike
    assert any("scratch" in finding for finding in strike.wrong), strike
    run = stage.submit_spark("sp1", "twice")
    run.client.communicate(timeout=PATIENCE_S)
    assert any("2 applications" in finding for finding in leftovers(run)), leftovers(run)


def _plant(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


@pytest.mark.timeout(4 * 3600)
def test_a_hundred_submits(cluster: Killable, place: Path, python: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        number = seeds.seed()
    rng = random.Random(number)
    stage, started = SparkStage(place / "stage", cluster, python), time.monotonic()
    done = []
    for index in range(SUBMITS):
        name = list(FAULTS)[index] if index < len(FAULTS) else rng.choice(list(FAULTS)[1:])  # each once, then by chance
        config = rng.choice(("sp1", "local")) if name in LOCAL else "sp1"
        done.append(strike_one(stage, name, config, rng.choice((0.0, rng.uniform(0, 2), rng.uniform(0, 8)))))
        with capsys.disabled():
            print(f"{index + 1}: {done[-1]}", flush=True)
    wrong = [f"{each.config}, {each.what}: {finding}" for each in done for finding in each.wrong]
    wrong += judge(stage)
    minutes = (time.monotonic() - started) / 60
    with capsys.disabled():
        print("\n".join(("", table(done), *wrong)), flush=True)
    text = PAGE.format(submits=SUBMITS, seed=number, minutes=minutes, table=table(done))
    write_section("Spark", text + ("\n".join(f"- {each}" for each in wrong) or CLEAN))
    assert wrong == []
    assert sum(each.met for each in done) >= SUBMITS / 2


@pytest.mark.timeout(1200)
def test_master_that_is_gone_before_the_application_is_registered_is_the_reason(
    cluster: Killable, place: Path, python: Path
) -> None:
    """Spark tries for a minute."""
    cluster.make_whole()
    stage = SparkStage(place / "stage-gone", cluster, python)
    stage.script(f"import os\nos.kill({cluster.master.pid}, 9)\n{SCRIPT}", "etl.py")
    run = stage.submit_spark("sp1")
    stage.meddled.add(run.uid)
    run.client.communicate(timeout=PATIENCE_S)
    record = stage.record(run.run_id)
    assert (record["status"], record["exit_code"]) == ("Failed", 1)
    assert record["reason"].startswith(f"the Spark master {cluster.url} does not answer")
    cluster.master.wait()
    cluster.make_whole()
    assert leftovers(run) == []


def strike_one(stage: SparkStage, name: str, config: str, wait: float) -> Strike:
    """Submit, strike, wait for the end, and say what is wrong with it."""
    stage.cluster.make_whole()
    folders = stage.cluster.local_folders()
    fault, run = FAULTS[name], stage.submit_spark(config)
    if fault.ends:
        stage.meddled.add(run.uid)
    if fault.victims is not None:
        eventually(lambda: bool(fault.victims and fault.victims(run)) or run.has_ended(), PATIENCE_S)
    time.sleep(wait)
    had_started = run.has_started
    victims = fault.victims(run) if fault.victims is not None else []
    met = not run.has_ended() and (fault.victims is None or any(map(_kill, victims)))
    fault.strike(run)
    if name == "master":
        stage.cluster.make_whole()
    status, wrong = ending(run, fault, had_started)
    wrong += leftovers(run)
    if name != "master":  # workers were killed with it
        with suppress(AssertionError):
            eventually(lambda: stage.cluster.local_folders() <= folders, stage.patience)
        wrong += [f"{path} is left on a worker" for path in stage.cluster.local_folders() - folders]
    return Strike(name, config, met and name != "nothing", status, wrong)


def ending(run: Run, fault: Fault, had_started: bool) -> tuple[str, list[str]]:
    """The state of the run, and what is wrong with it."""
    try:
        _, err = run.client.communicate(timeout=PATIENCE_S)
        record = run.stage.wait_for_end(run.run_id, PATIENCE_S)
    except (subprocess.TimeoutExpired, AssertionError):
        run.client.kill()
        run.stage.say("cancel", "-r", run.run_id)
        return "open", [f"{run.run_id} does not end: {run.stage.events_of(run.uid)}"]
    status, reason = str(record["status"]), str(record["reason"] or "")
    has_end = (run.stage.truth / f"{run.uid}.end").exists()
    is_right = has_end if status == "Completed" else status == fault.ends and reason.startswith(fault.reasons)
    if fault.victims is not None and not fault.ends and not had_started and status in ("Failed", "Lost"):
        is_right = not run.has_started  # its client was killed before the runner had it
    if is_right:
        return status, []
    return status, [f"{run.run_id} is {status}: {reason!r}, end reached: {has_end}; client: {err[-300:]!r}"]


def leftovers(run: Run) -> list[str]:
    """Processes, folders and applications that are there although the run has ended."""
    stage, wrong = run.stage, []
    with suppress(AssertionError):
        eventually(lambda: not processes_of(stage.place), stage.patience)
    wrong += [f"still running: {text[:300]}" for text in processes_of(stage.place).values()]
    wrong += [f"{path} is left" for path in stage.attempt_of(run.uid).glob("scratch")]
    wrong += [f"{path} is left" for path in stage.temporary.iterdir() if not path.name.startswith("hsperfdata")]
    if run.application is not None and run.config != "local":
        with suppress(AssertionError):
            stage.cluster.await_nothing_left(run.application)
        wrong += [f"left on the cluster: {text}" for text in stage.cluster.left(run.application)]
    stage.remember_applications()
    noted = [row[1] for row in _rows(stage, "applications") if row[0] == run.uid]
    if max(len(noted), stage.seen[run.uid]) > 1:
        wrong.append(f"{run.uid} has {max(len(noted), stage.seen[run.uid])} applications: {noted}")
    return wrong


def judge(stage: SparkStage) -> list[str]:
    """The oracles of the other campaigns that concern a script of which the JVM writes to the log."""
    records = stage.wait_until_all_ended()
    asked = ("O1", "O2", "O3", "O6", "O7", "O9")
    return [f"{name}: {wrong}" for name in asked for wrong in oracles.ORACLES[name](stage, records)]


def table(done: list[Strike]) -> str:
    rows = []
    for name in FAULTS:
        ours = [each for each in done if each.what == name]
        ends = ", ".join(f"{count} {status}" for status, count in sorted(Counter(each.status for each in ours).items()))
        met, bad = sum(each.met for each in ours), sum(bool(each.wrong) for each in ours)
        rows.append(f"| {name} | {len(ours)} | {met} | {ends} | {bad} |")
    head = "| killed | runs | was still there | ends | with findings |\n| --- | ---: | ---: | --- | ---: |"
    return "\n".join((head, *rows))


def _rows(stage: SparkStage, name: str) -> list[list[str]]:
    path = stage.truth / name
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def _kill(pid: int) -> bool:
    """Whether it was still there."""
    try:
        is_there = alive(pid)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return is_there


CLEAN = "No result is wrong, no process, folder or application is left, no run has two applications."
PAGE = """\
{submits} submits of a shuffling script, to a standalone master with two workers or to `local[*]`, one after the other.
One kill each, as soon as the process exists or up to 8 s later: `kill -9` for the client, the driver's JVM or Python
process, executors, or the master, which is then started again without its state; or a cancel.
`HOLDFAST_TEST_SEED={seed}` draws the same again; {minutes:.0f} minutes. A run may be Completed only if its script
ended by itself; otherwise it must have the state and the reason that fit the kill.

{table}

"""
