"""The contract of launchers, kept by one from outside the package: jobs are files that a spooler runs later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from axes.toys import SpoolLauncher
from conftest import eventually
from contract.test_launchers import *  # noqa: F403
from contract.test_launchers import make_plan, readable_in

if TYPE_CHECKING:
    from pathlib import Path

    from axes.conftest import Spool
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.ports import Launcher

SECRET = "hunter2-this-is-secret"
TOLD: Json = {"env": {"TOKEN": SECRET}, "on_end": ""}


@pytest.fixture  # type: ignore[no-redef]
def launcher(spool: Spool) -> Launcher:
    return SpoolLauncher()


def test_what_is_secret_is_sealed_while_the_job_waits(
    launcher: Launcher, channel: RunnerChannel, spool: Spool, tmp_path: Path
) -> None:
    spool.hold()
    plan = make_plan(tmp_path, "sh", "-c", f'printf %s "$TOKEN" > {tmp_path}/told')
    ticket = launcher.start(channel, plan.to_json(), TOLD)
    assert launcher.look(channel, [ticket]) == {ticket: "queued"}
    attempt = tmp_path / "target" / "runs" / plan.uid / "a1"
    assert (attempt / "secrets").stat().st_mode & 0o777 == 0o600
    assert readable_in(tmp_path, SECRET) == []
    (job,) = spool.folder.glob("*.job")
    key = job.read_text().split()[3]
    assert len(key) == 64
    assert readable_in(tmp_path / "target", key) == readable_in(tmp_path / "target", bytes.fromhex(key)) == []
    spool.release()
    eventually(lambda: launcher.look(channel, [ticket]) == {ticket: "closed"})
    assert (tmp_path / "told").read_text() == SECRET
    (tmp_path / "told").unlink()
    assert not (attempt / "secrets").exists()
    assert readable_in(tmp_path, SECRET) == []


def test_a_stop_while_the_job_waits_removes_job_and_secrets(
    launcher: Launcher, channel: RunnerChannel, spool: Spool, tmp_path: Path
) -> None:
    spool.hold()
    plan = make_plan(tmp_path, "touch", str(tmp_path / "ran"))
    ticket = launcher.start(channel, plan.to_json(), TOLD)
    assert launcher.stop(channel, ticket, "ada") == "ended"
    assert launcher.look(channel, [ticket]) == {ticket: "closed"}
    assert list(spool.folder.glob("*.job")) == []
    assert not (tmp_path / "target" / "runs" / plan.uid / "a1" / "secrets").exists()


def test_a_job_that_the_queue_has_lost_is_gone_and_can_be_closed(
    launcher: Launcher, channel: RunnerChannel, spool: Spool, tmp_path: Path
) -> None:
    spool.hold()
    plan = make_plan(tmp_path, "touch", str(tmp_path / "ran"))
    ticket = launcher.start(channel, plan.to_json(), TOLD)
    (job,) = spool.folder.glob("*.job")
    job.unlink()
    assert launcher.look(channel, [ticket]) == {ticket: "gone"}
    assert launcher.bury(channel, ticket) == "closed"
    assert launcher.look(channel, [ticket]) == {ticket: "closed"}
    assert not (tmp_path / "target" / "runs" / plan.uid / "a1" / "secrets").exists()


def test_a_ticket_without_its_job_is_completed_on_the_target(
    launcher: Launcher, channel: RunnerChannel, spool: Spool, tmp_path: Path
) -> None:
    """The answer of the start was lost, so that the client has noted nothing."""
    spool.hold()
    plan = make_plan(tmp_path, "true")
    bare = f"{plan.uid}/a1"
    ticket = launcher.start(channel, plan.to_json(), TOLD)
    assert ticket != bare
    assert launcher.look(channel, [bare]) == {bare: "queued"}
    assert launcher.stop(channel, bare, "ada") == "ended"
    assert list(spool.folder.glob("*.job")) == []


def test_of_two_jobs_for_one_attempt_only_one_runs_it(
    launcher: Launcher, channel: RunnerChannel, spool: Spool, tmp_path: Path
) -> None:
    """A start that was cut off before the queue's answer was noted hands the attempt over again."""
    spool.hold()
    plan = make_plan(tmp_path, "sh", "-c", f"echo started >> {tmp_path}/starts")
    launcher.start(channel, plan.to_json(), TOLD)
    (tmp_path / "target" / "runs" / plan.uid / "a1" / "job.json").unlink()
    ticket = launcher.start(channel, plan.to_json(), TOLD)
    assert len(list(spool.folder.glob("*.job"))) == 2
    spool.release()
    eventually(lambda: not list(spool.folder.glob("*.job")) and not list(spool.folder.glob("*.running")))
    assert launcher.look(channel, [ticket]) == {ticket: "closed"}
    assert (tmp_path / "starts").read_text() == "started\n"
