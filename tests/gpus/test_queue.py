"""The GPU queue: order, tickets, locks, foreign processes, and every way to release a GPU."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from conftest import alive, eventually
from fakenvml import GPU

from .conftest import SECOND, Script

if TYPE_CHECKING:
    from .conftest import Machine

FOREIGN = 4_194_999  # above what Linux gives out, so that no process has it


def test_cards_are_given_out_by_uuid_until_there_are_none(machine: Machine) -> None:
    first, second = machine.begin("--gpus", "1"), machine.begin("--gpus", "1")
    given = {(one.attempt / "log").read_text().split()[2] for one in (first, second) if one.pid}
    assert given == {GPU.uuid, SECOND.uuid}
    third = machine.begin("--gpus", "2")
    waiting = third.await_event("queued")
    assert waiting["position"] == 1
    assert str(first.events()[0]["type"]) == "accepted"
    assert f"of {machine.desk.env['USER']}" in str(waiting["reason"])
    assert machine.desk.record(third.number)["status"] == "Queued"
    first.end()
    assert machine.desk.record(third.number)["status"] == "Queued"
    second.end()
    assert third.pid
    assert third.end()["status"] == "Completed"


def test_the_first_in_the_queue_is_the_first_to_run(machine: Machine) -> None:
    holder = machine.begin("--gpus", "2")
    assert holder.pid
    waiting = []
    for number in range(4):
        waiting.append(machine.begin("--gpus", "1" if number % 2 else "2"))
        waiting[-1].await_event("queued")
    assert [one.await_event("queued")["position"] for one in waiting] == [1, 2, 3, 4]
    holder.let_go()
    for one in waiting:
        assert one.pid
        one.let_go()
    taken = [one.await_event("gpu_taken") for one in waiting]
    assert [event["ticket"] for event in taken] == sorted(event["ticket"] for event in taken)
    times = [event["mono_ns"] for event in taken]
    assert times == sorted(times)


def test_gpu_with_a_foreign_process_is_not_free(machine: Machine) -> None:
    machine.gpus.tell(GPU._replace(processes=((FOREIGN, 7, 1),)), SECOND)
    one = machine.begin("--gpus", "1")
    assert (one.attempt / "log").exists()
    assert one.pid
    assert one.await_event("gpu_taken")["uuids"] == [SECOND.uuid]
    other = machine.begin("--gpus", "1")
    assert f"(pid {FOREIGN})" in str(other.await_event("queued")["reason"])
    machine.gpus.tell(GPU, SECOND)
    assert other.pid
    assert other.await_event("gpu_taken")["uuids"] == [GPU.uuid]


def test_who_shares_does_not_mind(machine: Machine) -> None:
    text = "gpus: {count: 2, shared: true}\nFramework: Python\nTarget: local\n"
    machine.desk.script(text, "aml_config/shared.runconfig")
    machine.gpus.tell(GPU._replace(processes=((FOREIGN, 7, 1),)), SECOND)
    one, other = machine.begin("-c", "shared"), machine.begin("-c", "shared")
    assert one.pid
    assert other.pid
    alone = machine.begin("--gpus", "1")
    assert alone.await_event("queued")


def test_no_longer_than_one_is_willing_to_wait(machine: Machine) -> None:
    assert machine.begin("--gpus", "2").pid
    machine.desk.script("print('never')\n")
    done = machine.desk.submit("--gpus", "1", "--wait-for-gpu", "0", "train.py")
    assert done.code == 124, done.err
    assert "no GPU is free now" in done.err
    done = machine.desk.submit("--gpus", "1", "--wait-for-gpu", "1s", "train.py")
    assert done.code == 124, done.err
    assert "no GPU is free within 1s" in machine.desk.record()["reason"]
    assert "never" not in done.text


def test_what_can_never_be_is_said_at_once(machine: Machine) -> None:
    machine.desk.script("print('never')\n")
    done = machine.desk.submit("--gpus", "3", "train.py")
    assert done.code == 65, done.err
    assert "3 GPUs requested, but this machine has NVIDIA A100-SXM4-80GB (85.9 GB), " in done.err
    text = "gpus: {count: 1, memory: 24GB, name: H100}\nFramework: Python\nTarget: local\n"
    machine.desk.script(text, "aml_config/h100.runconfig")
    done = machine.desk.holdfast("submit", "-c", "h100", "train.py")
    assert "1 GPU named H100 with 24 GB requested" in done.err


def test_a_queued_run_can_be_canceled_and_the_next_moves_up(machine: Machine) -> None:
    assert machine.begin("--gpus", "2").pid
    one, other = machine.begin("--gpus", "1"), machine.begin("--gpus", "1")
    assert one.await_event("queued")["position"] == 1
    assert other.await_event("queued")["position"] == 2
    assert machine.desk.holdfast("cancel", "-r", one.number).code == 0
    assert machine.desk.wait_for_end(one.number)["status"] == "Canceled"
    eventually(lambda: other.await_event("queued")["position"] == 1)


def test_killed_holder_releases_the_gpu(machine: Machine) -> None:
    for victims in (("pid",), ("guardian",), ("guardian", "pid")):
        held = machine.begin("--gpus", "2")
        pid = held.pid
        accepted = held.await_event("accepted")
        next_one = machine.begin("--gpus", "2")
        next_one.await_event("queued")
        for victim in victims:
            os.kill(int(str(accepted[victim])), signal.SIGKILL)
        assert next_one.pid
        assert not alive(pid)
        next_one.end()


def test_a_killed_one_in_the_queue_is_forgotten(machine: Machine) -> None:
    held = machine.begin("--gpus", "2")
    assert held.pid
    one, other = machine.begin("--gpus", "2"), machine.begin("--gpus", "2")
    one.await_event("queued")
    assert other.await_event("queued")["position"] == 2
    accepted = one.await_event("accepted")
    for victim in ("guardian", "pid"):
        os.kill(int(str(accepted[victim])), signal.SIGKILL)
    eventually(lambda: other.await_event("queued")["position"] == 1)
    held.let_go()
    assert other.pid


def test_card_stays_taken_when_the_files_of_the_queue_are_deleted(machine: Machine) -> None:
    held = machine.begin("--gpus", "2")
    assert held.pid
    for path in machine.locks.iterdir():
        path.unlink()
    other = machine.begin("--gpus", "1")
    assert "is reserved by a run without a ticket" in str(other.await_event("queued")["reason"])
    accepted = held.await_event("accepted")
    os.kill(int(str(accepted["pid"])), signal.SIGSTOP)  # the supervisor; the guardian still holds the cards
    os.kill(int(str(accepted["pid"])), signal.SIGKILL)
    assert other.pid
    assert not alive(held.pid)


def test_run_starts_without_a_usable_folder(machine: Machine) -> None:
    machine.locks.write_text("a file in its place")
    machine.desk.script("print('started')\n")
    done = machine.desk.submit("--gpus", "1", "train.py")
    assert done.code == 0, done.err
    assert "started\n" in done.text


def test_the_machines_own_limits_count(machine: Machine) -> None:
    machine.desk.env["CUDA_VISIBLE_DEVICES"] = "1"
    one = machine.begin("--gpus", "1")
    assert one.pid
    assert one.await_event("gpu_taken")["uuids"] == [SECOND.uuid]


def test_two_stores_are_two_people(machine: Machine) -> None:
    first = machine.begin("--gpus", "2")
    assert first.pid
    mine = machine.desk.env["HOLDFAST_HOME"]
    home = machine.desk.home
    machine.desk.home = home.with_name("another")
    machine.desk.env["HOLDFAST_HOME"] = str(machine.desk.home)
    second = machine.begin("--gpus", "1")
    assert isinstance(second, Script)
    assert second.await_event("queued")
    machine.desk.home, machine.desk.env["HOLDFAST_HOME"] = home, mine
    first.end()
    assert second.pid
    second.let_go()
