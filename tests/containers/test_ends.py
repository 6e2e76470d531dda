"""Every way in which a run in a container can end that its script has no part in."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import alive, eventually
from containers.conftest import UP
from enginelab import Docker

if TYPE_CHECKING:
    from containers.conftest import Seat

both = pytest.mark.parametrize("ground", ["docker", "podman"], indirect=True)
with_docker = pytest.mark.parametrize("ground", ["docker"], indirect=True)
with_live_restore = pytest.mark.parametrize("ground", ["live-docker"], indirect=True)

STEADY = f"""
import os, time
{UP}n = 0
while not os.path.exists('go'):
    n += 1
    print('line', n)
    time.sleep(0.005)
print('whole')
"""


def lines(seat: Seat) -> int:
    """How many lines of ``STEADY`` are in the log, after a look that there is no gap and nothing twice."""
    log = seat.desk.holdfast("logs").out
    # Who is killed in the middle of a line has written half of one.
    found = [line for line in log.split(b"\n")[:-1] if line.startswith(b"line ")]
    assert found == [b"line %d" % n for n in range(1, len(found) + 1)]
    return len(found)


def more_lines(seat: Seat) -> None:
    before = seat.attempt.joinpath("log").stat().st_size
    eventually(lambda: seat.attempt.joinpath("log").stat().st_size > before + 100, 120)


@with_live_restore
@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_daemon_goes_and_comes_and_the_run_goes_on(seat: Seat, how: str) -> None:
    assert isinstance(seat.engine, Docker)
    seat.begin(STEADY)
    if how == "restart":
        seat.engine.restart()
    else:
        seat.engine.kill()
        more_lines(seat)
        seat.engine.start()
    more_lines(seat)
    seat.go()
    record = seat.desk.wait_for_end(limit=120)
    assert (record["status"], record["exit_code"]) == ("Completed", 0), record
    assert lines(seat) > 10
    assert seat.desk.holdfast("logs").out.endswith(b"\nwhole\n")


@with_docker
@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_daemon_that_takes_its_containers_along_is_named(seat: Seat, how: str) -> None:
    assert isinstance(seat.engine, Docker)
    seat.begin(STEADY)
    if how == "restart":
        seat.engine.restart()
    else:
        seat.engine.kill()
        seat.engine.start()
    record = seat.desk.wait_for_end(limit=120)
    assert (record["status"], record["exit_code"] != 0) == ("Failed", True), record
    assert "the container was stopped by docker, which was shut down" in record["reason"] or (
        "by docker when it was restarted" in record["reason"]
    ), record
    assert b"up\n" in seat.desk.holdfast("logs").out
    lines(seat)


@both
def test_memory_that_runs_out_is_told_with_the_limit(seat: Seat) -> None:
    seat.target("memory: 64MB")
    result = seat.submit(f"{UP}bytearray(200 << 20)")
    assert (result.code, "out of memory (limit 64 MB)" in result.err) == (137, True), result
    assert seat.desk.holdfast("logs").out == b"up\n"
    caught = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-c', 'bytearray(200 << 20)']) and 3)"
    result = seat.submit(caught)
    assert result.code == 3, result
    assert "out of memory (limit 64 MB); the script then exited with code 3" in result.err


@both
@pytest.mark.parametrize("words", [("kill",), ("rm", "--force")], ids=["kill", "rm"])
def test_container_killed_from_outside_fails_the_run(seat: Seat, words: tuple[str, ...]) -> None:
    seat.begin(STEADY)
    seat.run(*words, seat.container)
    record = seat.desk.wait_for_end(limit=120)
    assert (record["status"], record["exit_code"] in (137, 143)) == ("Failed", True), record  # podman asks first
    asked = "stopped by another program"  # podman sends SIGTERM before it removes a container
    assert any(reason in record["reason"] for reason in ("externally", asked)), record
    lines(seat)


@both
def test_container_stopped_from_outside_fails_the_run(seat: Seat) -> None:
    seat.begin(STEADY)
    seat.run("stop", seat.container)
    record = seat.desk.wait_for_end(limit=120)
    assert record["status"] == "Failed"
    assert "another program" in record["reason"], record
    lines(seat)


@both
@pytest.mark.parametrize("who", ["client", "tender"])
def test_run_goes_on_when_engine_client_or_monitor_is_killed(seat: Seat, who: str) -> None:
    seat.begin(STEADY)
    started = next(event for event in seat.desk.events() if event["type"] == "started")
    victims = [started["pid"]] if who == "tender" else _clients(seat)
    assert victims
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(alive(pid) for pid in victims), 60)
    more_lines(seat)
    seat.go()
    record = seat.desk.wait_for_end(limit=120)
    assert (record["status"], record["exit_code"]) == ("Completed", 0), record
    assert lines(seat) > 10
    assert seat.desk.holdfast("logs").out.endswith(b"\nwhole\n")


def _clients(seat: Seat) -> list[int]:
    """The engine's own programs that wait for the end of the run's container."""
    name, found = seat.container.encode(), []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if name in words and b"run" in words and os.path.basename(words[0]) == seat.name.encode():
            found.append(int(entry.name))
    return found


@both
@pytest.mark.parametrize("who", [("pid",), ("guardian",), ("pid", "guardian")], ids="-".join)
def test_a_runner_that_is_killed_leaves_no_container(seat: Seat, who: tuple[str, ...]) -> None:
    seat.begin(STEADY)
    accepted = next(event for event in seat.desk.events() if event["type"] == "accepted")
    inside = int(seat.run("inspect", "--format", "{{.State.Pid}}", seat.container))
    for name in who:
        os.kill(accepted[name], signal.SIGKILL)
    record = seat.desk.wait_for_end(limit=120)
    assert (record["status"], record["exit_code"]) == ("Lost", 125), record
    assert "killed" in record["reason"] or "ended by signal 9" in record["reason"]
    eventually(lambda: seat.containers() == [], 60)
    assert not alive(inside)
    lines(seat)


@with_docker
@pytest.mark.parametrize("who", ["supervisor", "guardian", "tender"])
def test_cancel_ends_a_run_one_of_whose_watchers_is_stopped(seat: Seat, who: str) -> None:
    seat.begin(STEADY)
    events = {event["type"]: event for event in seat.desk.events()}
    pids = {"supervisor": events["accepted"]["pid"], "guardian": events["accepted"]["guardian"]}
    os.kill({**pids, "tender": events["started"]["pid"]}[who], signal.SIGSTOP)
    assert seat.desk.holdfast("cancel").code == 0
    assert seat.desk.wait_for_end(limit=60)["status"] == "Canceled"
    eventually(lambda: not any(map(alive, pids.values())), 60)


@with_docker
def test_run_in_a_container_whose_watchers_are_both_stopped_is_ended_by_the_next_command(seat: Seat) -> None:
    seat.begin(STEADY)
    accepted = next(event for event in seat.desk.events() if event["type"] == "accepted")
    inside = int(seat.run("inspect", "--format", "{{.State.Pid}}", seat.container))
    for name in ("guardian", "pid"):
        os.kill(accepted[name], signal.SIGSTOP)
    record = seat.desk.wait_for_end(limit=60)
    assert (record["status"], record["exit_code"]) == ("Lost", 125), record
    assert "supervisor and guardian were both stopped" in record["reason"]
    assert not alive(inside)


@both
@pytest.mark.parametrize("who", ["script", "first"])
def test_processes_of_the_container_that_are_killed(seat: Seat, who: str) -> None:
    seat.begin(STEADY)
    first = int(seat.run("inspect", "--format", "{{.State.Pid}}", seat.container))
    (script,) = [int(pid) for pid in Path(f"/proc/{first}/task/{first}/children").read_text().split()]
    os.kill(script if who == "script" else first, signal.SIGKILL)
    record = seat.desk.wait_for_end(limit=120)
    assert (record["status"], record["exit_code"]) == ("Failed", 137), record
    assert ("killed by signal 9" if who == "script" else "killed externally") in record["reason"], record
    lines(seat)


@with_docker
def test_a_runner_that_is_killed_while_it_starts_a_container(seat: Seat, tmp_path: Path) -> None:
    """The engine's client is slow: it asks its daemon only after all monitors are dead."""
    asked, gate = tmp_path / "asked", tmp_path / "gate"
    os.mkfifo(gate)
    shim = tmp_path / "bin" / "docker"
    shim.parent.mkdir()
    real = shutil.which("docker", path=seat.desk.env["PATH"])
    wait = f'case "$*" in run*holdfast.run=holdfast-*) echo $$ > {asked}; read _ < {gate};; esac'
    shim.write_text(f'#!/bin/sh\n{wait}\nexec {real} "$@"\n')
    shim.chmod(0o755)
    seat.desk.env["PATH"] = f"{shim.parent}:{seat.desk.env['PATH']}"
    assert seat.submit(STEADY, "--no-wait").code == 0
    eventually(lambda: asked.exists() and asked.read_text().endswith("\n"), 120)
    accepted = next(event for event in seat.desk.events() if event["type"] == "accepted")
    for name in ("pid", "guardian"):
        os.kill(accepted[name], signal.SIGKILL)
    record = seat.desk.wait_for_end(limit=120)
    assert record["status"] == "Lost", record
    client = int(asked.read_text())
    eventually(lambda: not alive(client), 60)
    assert seat.containers() == []


@both
def test_an_engine_that_is_not_there_is_told_before_anything_happens(seat: Seat, tmp_path: Path) -> None:
    seat.desk.env["DOCKER_HOST"] = f"unix://{tmp_path}/nobody.sock"
    if seat.name == "podman":
        seat.desk.env["PATH"] = seat.desk.env["PATH"].partition(":")[2]  # without the one in a sandbox
        empty = tmp_path / "empty"
        empty.mkdir()
        (empty / "podman").write_text("#!/bin/sh\necho 'Error: no such thing as a kernel' >&2\nexit 125\n")
        (empty / "podman").chmod(0o755)
        seat.desk.env["PATH"] = f"{empty}:{seat.desk.env['PATH']}"
    result = seat.submit("print(1)")
    assert result.code != 0
    assert "no usable container engine" in result.err, result
    assert ("sudo systemctl start docker" if seat.name == "docker" else "no such thing as a kernel") in result.err
    assert seat.desk.holdfast("history", "list", "-o", "json").json == []


@with_docker
def test_an_engine_that_stops_between_two_runs_is_told_and_used_again(seat: Seat) -> None:
    assert isinstance(seat.engine, Docker)
    assert seat.submit("print(1)").code == 0
    eventually(lambda: seat.containers() == [], 60)
    seat.engine.stop()
    try:
        result = seat.submit("print(2)")
        assert result.code != 0
        assert "sudo systemctl start docker" in result.err, result
        assert len(seat.desk.holdfast("history", "list", "-o", "json").json) == 1
    finally:
        seat.engine.start()
    assert seat.submit("print(3)").code == 0


@both
def test_image_that_cannot_be_pulled_is_reported(seat: Seat) -> None:
    seat.target("baseDockerImage: registry.lab/nothing:1")
    result = seat.submit("print(1)")
    assert result.code != 0
    assert "the image registry.lab/nothing:1 could not be pulled" in result.err, result
    assert "holdfast image import" in result.err, result
    assert seat.desk.holdfast("history", "list", "-o", "json").json == []


@with_docker
def test_cards_that_are_not_there_are_refused(seat: Seat) -> None:
    seat.target("nvidiaDocker: true")
    result = seat.submit("print(1)")
    assert result.code != 0
    assert "NVIDIA" in result.err


RESUMING = f"""
import os, time
path = os.path.join(os.environ['HOLDFAST_CHECKPOINTS'], 'last')
if os.path.exists(path):
    print('resumed with', open(path).read())
    raise SystemExit
with open(path, 'w') as target:
    target.write('7')
{UP}time.sleep(600)
"""


@pytest.mark.parametrize("shared", ["true", "false"])
@pytest.mark.parametrize("ground", ["docker"], indirect=True)
def test_second_attempt_in_a_container_finds_the_checkpoints(seat: Seat, shared: str) -> None:
    seat.target(f"sharedVolumes: {shared}")
    seat.begin(RESUMING)
    accepted = seat.desk.events()[0]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for name in ("guardian", "pid"):
            os.kill(accepted[name], number)
    eventually(lambda: seat.desk.record()["status"] == "Lost", 60)
    assert seat.desk.holdfast("retry", "-r", "1").code == 0
    record = seat.desk.wait_for_end(limit=120)
    assert (record["status"], record["attempts"][1]["resumed_from"]) == ("Completed", 1), record
    assert seat.desk.holdfast("logs").text == "resumed with 7\n"
    assert seat.desk.holdfast("info", "-a", "outputs/checkpoints/last").out == b"7"
    assert record["packages"] is not None, "the list of the image is kept from the first attempt"


@pytest.mark.parametrize("shared", ["true", "false"])
@pytest.mark.parametrize("ground", ["docker"], indirect=True)
def test_script_that_is_killed_in_a_container_is_started_again_from_its_checkpoint(seat: Seat, shared: str) -> None:
    seat.target(f"sharedVolumes: {shared}")
    killed = f"import signal\n{RESUMING}".replace("time.sleep(600)", "os.kill(os.getpid(), signal.SIGKILL)")
    result = seat.submit(killed, "--retries", "1")
    assert (result.code, "resumed with 7\n" in result.text) == (0, True), result
    rows = seat.desk.record()["attempts"]
    assert [(row["status"], row["resumed_from"]) for row in rows] == [("Failed", None), ("Completed", 1)]
    assert "killed by signal 9" in rows[0]["reason"]
