"""What every launcher must do: start once, tell the truth about it, stop it, all from a string."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from holdfast.engine.connection.channel import RunnerChannel
from holdfast.hosts.local import LocalHost
from holdfast.launchers.process import ProcessLauncher
from holdfast.model import Plan
from holdfast.runner.store import jsonl
from holdfast.runner.store.objects import Batch, encode_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json
    from holdfast.ports import Launcher

LAUNCHERS = [ProcessLauncher]
NOTHING_SECRET: Json = {"env": {}, "on_end": ""}


@pytest.fixture(params=LAUNCHERS, ids=lambda made: made.__name__)
def launcher(request: pytest.FixtureRequest) -> Launcher:
    made: Launcher = request.param()
    return made


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[RunnerChannel]:
    opened = _connect(tmp_path)
    yield opened
    opened.close()


def test_a_run_goes_from_absent_to_alive_to_closed(launcher: Launcher, channel: RunnerChannel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    plan = make_plan(tmp_path, "cat", str(gate))
    assert launcher.look(channel, [f"{plan.uid}/a1"]) == {f"{plan.uid}/a1": "absent"}
    ticket = launcher.start(channel, plan.to_json(), NOTHING_SECRET)
    eventually(lambda: launcher.look(channel, [ticket]) == {ticket: "alive"})
    gate.write_text("go")
    eventually(lambda: launcher.look(channel, [ticket]) == {ticket: "closed"})


def test_a_start_whose_answer_was_lost_can_be_repeated(
    launcher: Launcher, channel: RunnerChannel, tmp_path: Path
) -> None:
    plan = make_plan(tmp_path, "sh", "-c", f"echo started >> {tmp_path}/starts")
    ticket = launcher.start(channel, plan.to_json(), NOTHING_SECRET)
    assert launcher.start(channel, plan.to_json(), NOTHING_SECRET) == ticket
    eventually(lambda: launcher.look(channel, [ticket]) == {ticket: "closed"})
    assert launcher.start(channel, plan.to_json(), NOTHING_SECRET) == ticket
    assert (tmp_path / "starts").read_text() == "started\n"


def test_another_client_re_joins_from_the_ticket_alone(
    launcher: Launcher, channel: RunnerChannel, tmp_path: Path
) -> None:
    ticket = launcher.start(channel, make_plan(tmp_path, "sleep", "600").to_json(), NOTHING_SECRET)
    other = _connect(tmp_path)
    try:
        eventually(lambda: type(launcher)().look(other, [ticket]) == {ticket: "alive"})
        assert type(launcher)().stop(other, ticket, "ada") == "asked"
        eventually(lambda: launcher.look(other, [ticket]) == {ticket: "closed"})
        assert launcher.stop(other, ticket, "ada") == "closed"
    finally:
        other.close()


def test_many_are_looked_at_in_one_question(launcher: Launcher, channel: RunnerChannel, tmp_path: Path) -> None:
    tickets = [launcher.start(channel, make_plan(tmp_path, "true").to_json(), NOTHING_SECRET) for _ in range(3)]
    never = f"{'0' * 32}/a1"
    eventually(lambda: set(launcher.look(channel, tickets).values()) == {"closed"})
    assert launcher.look(channel, [*tickets, never]) == {**dict.fromkeys(tickets, "closed"), never: "absent"}


def test_a_stop_that_comes_before_the_start_prevents_it(
    launcher: Launcher, channel: RunnerChannel, tmp_path: Path
) -> None:
    plan = make_plan(tmp_path, "touch", str(tmp_path / "ran"))
    assert launcher.stop(channel, f"{plan.uid}/a1", "ada") == "ended"
    ticket = launcher.start(channel, plan.to_json(), NOTHING_SECRET)
    assert launcher.look(channel, [ticket]) == {ticket: "closed"}
    assert not (tmp_path / "ran").exists()


def test_a_ticket_begins_with_uid_and_attempt(launcher: Launcher, channel: RunnerChannel, tmp_path: Path) -> None:
    """By that a stored ticket is known to be that of its run."""
    plan = make_plan(tmp_path, "true")
    ticket = launcher.start(channel, plan.to_json(), NOTHING_SECRET)
    assert f"{ticket}/".startswith(f"{plan.uid}/a1/")
    eventually(lambda: launcher.look(channel, [ticket]) == {ticket: "closed"})


def test_secrets_reach_the_script_and_no_file(launcher: Launcher, channel: RunnerChannel, tmp_path: Path) -> None:
    secret = os.urandom(8).hex()
    plan = make_plan(tmp_path, "sh", "-c", f'printf %s "$TOKEN" | tr 0-9a-f a-p > {tmp_path}/told')
    ticket = launcher.start(channel, plan.to_json(), {"env": {"TOKEN": secret}, "on_end": ""})
    eventually(lambda: launcher.look(channel, [ticket]) == {ticket: "closed"})
    assert (tmp_path / "told").read_text() == "".join("abcdefghijklmnop"[int(digit, 16)] for digit in secret)
    assert readable_in(tmp_path, secret) == []


def test_a_run_whose_watchers_were_killed_is_gone_and_is_closed_as_lost(
    launcher: Launcher, channel: RunnerChannel, tmp_path: Path
) -> None:
    plan = make_plan(tmp_path, "sleep", "600")
    ticket = launcher.start(channel, plan.to_json(), NOTHING_SECRET)
    events = tmp_path / "target" / "runs" / plan.uid / "a1" / "events.jsonl"
    eventually(lambda: events.exists() and b'"started"' in events.read_bytes())
    accepted = jsonl.read_lines(os.fsencode(events))[0]
    for name in ("pid", "guardian"):
        os.kill(int(str(accepted[name])), signal.SIGSTOP)
    for name in ("pid", "guardian"):
        os.kill(int(str(accepted[name])), signal.SIGKILL)
    eventually(lambda: launcher.look(channel, [ticket])[ticket] in ("gone", "closed"))
    assert launcher.bury(channel, ticket) == "closed"
    assert jsonl.read_lines(os.fsencode(events))[-1]["outcome"] == "lost"


def test_a_run_that_is_discarded_is_closed_with_the_reason(
    launcher: Launcher, channel: RunnerChannel, tmp_path: Path
) -> None:
    plan = make_plan(tmp_path, "touch", str(tmp_path / "ran"))
    assert launcher.discard(channel, f"{plan.uid}/a1", "never started", "failed") == "closed"
    ticket = launcher.start(channel, plan.to_json(), NOTHING_SECRET)
    assert launcher.look(channel, [ticket]) == {ticket: "closed"}
    events = jsonl.read_lines(os.fsencode(tmp_path / "target" / "runs" / plan.uid / "a1" / "events.jsonl"))
    assert events[-1]["reason"] == "never started"
    assert not (tmp_path / "ran").exists()


def readable_in(folder: Path, secret: str | bytes) -> list[str]:
    """Files below a folder that hold the secret."""
    data = secret.encode() if isinstance(secret, str) else secret
    # Walked by os.walk, which passes over folders that the runner removes meanwhile.
    files = [Path(above, name) for above, _, names in os.walk(folder) for name in names]
    return [str(path) for path in files if path.is_file() and data in path.read_bytes()]


def _connect(place: Path) -> RunnerChannel:
    return RunnerChannel(LocalHost(), sys.executable, str(place / "target"), "target")


def make_plan(place: Path, *argv: str) -> Plan:
    with Batch(os.fsencode(place / "target" / "objects")) as batch:
        tree = batch.add_bytes(encode_tree([]))
        batch.commit()
    return Plan(
        uid=os.urandom(16).hex(),
        run_id="project_1",
        run_number=1,
        attempt="a1",
        project="project",
        project_id="0" * 32,
        target="target",
        script="train.py",
        argv=argv,
        tree=tree,
        env=(),
        links=(),
        share=None,
        timeout=None,
        timeout_text="",
        grace=20.0,
        max_log=1000**2,
        keep_work=False,
        shims=None,
    )
