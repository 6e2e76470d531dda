"""Two users of one machine: what the one who owns the queue's folder can do to the runs of the other."""

from __future__ import annotations

import fcntl
import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from conftest import eventually
from holdfast.runner.gpu.gpu_queue import Claim
from holdfast.runner.plan import GpuRequest, gpu_request

from .campaign import Campaign
from .neighbour import NAME, Neighbour, as_user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Machine

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: two users are needed, and only root can be both")

CARDS: list[dict[str, Any]] = [
    {"index": index, "uuid": f"GPU-a{index}", "name": "H200", "memory_total": 1 << 37, "memory_free": 1 << 37}
    for index in range(2)
]
WORKERS, TAKES = 4, 60


class HeldByFile:
    """Possession as it was once: by a lock on a file in the shared folder."""

    def __init__(self, uid: str, about: dict[str, Any], request: GpuRequest) -> None:
        self._folder = os.environ["HOLDFAST_GPU_LOCKS"]
        self._held: list[int] = []

    def take(self, cards: list[dict[str, Any]]) -> Any:
        for card in cards:
            fd = -1
            try:
                fd = os.open(f"{self._folder}/gpu-{card['uuid']}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._held.append(fd)
                return type("Answer", (), {"cards": [card]})
            except OSError:
                if fd >= 0:
                    os.close(fd)
        return type("Answer", (), {"cards": []})

    def leave(self) -> None:
        for fd in self._held:
            os.close(fd)


def take_and_leave(make: Callable[..., Any], place: Path, seed: int) -> None:
    """Cards taken again and again; a second lock that only scripts take tells when a card has two holders."""
    chance = random.Random(seed)
    for number in range(TAKES):
        count, shared = (chance.choice((1, 1, 2)), chance.random() < 0.3) if make is Claim else (1, False)
        request = gpu_request({"count": count, "memory": None, "name": None, "shared": shared})
        claim = make(f"{seed:016x}{number:016x}", {"run_id": f"run_{seed}_{number}", "user": "ada"}, request)
        while not (taken := claim.take(CARDS).cards):
            time.sleep(chance.uniform(0, 0.005))
        held = []
        for card in taken:
            held.append(os.open(place / card["uuid"], os.O_RDWR | os.O_CREAT))
            try:
                fcntl.flock(held[-1], (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                with open(place / "double", "a") as double:
                    double.write(f"{card['uuid']} {seed} {number}\n")
        time.sleep(chance.uniform(0, 0.004))
        for descriptor in held:
            os.close(descriptor)
        claim.leave()


def contend(make: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which cards had two holders while the neighbour was at work."""
    uuids = [str(card["uuid"]) for card in CARDS]
    probes = place / "probes"
    probes.mkdir()
    with Neighbour(place, uuids, seed=5) as neighbour:
        monkeypatch.setenv("HOLDFAST_GPU_LOCKS", str(neighbour.folder))
        eventually(neighbour.folder.exists)
        workers = []
        for seed in range(WORKERS):
            pid = os.fork()
            if pid == 0:
                try:
                    take_and_leave(make, probes, seed)
                    os._exit(0)
                except BaseException:
                    import traceback

                    traceback.print_exc()
                finally:
                    os._exit(1)
            workers.append(pid)
        ended = [os.waitpid(pid, 0)[1] for pid in workers]
    assert ended == [0] * WORKERS
    double = probes / "double"
    return double.read_text().splitlines() if double.exists() else []


def test_no_card_has_two_holders_whatever_the_owner_of_the_folder_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert contend(Claim, tmp_path, monkeypatch) == []


def test_possession_by_a_file_would_be_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contend(HeldByFile, tmp_path, monkeypatch)


def test_submitted_runs_complete_beside_a_hostile_neighbour(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, submits=10, kills=0, seed=3, hostile=True)
    campaign.run()
    assert campaign.doubles() == []
    assert campaign.outcomes() == {"completed": 10}


def test_run_waits_and_starts_while_another_user_holds_the_order_lock(machine: Machine, tmp_path: Path) -> None:
    machine.locks = tmp_path / "shared" / NAME
    machine.locks.mkdir(parents=True)
    machine.locks.chmod(0o1777)
    machine.desk.env["HOLDFAST_GPU_LOCKS"] = str(machine.locks)
    (machine.locks / "order.lock").touch()
    heard, held = os.pipe()

    def hold() -> None:
        fcntl.flock(os.open("order.lock", os.O_RDONLY), fcntl.LOCK_EX)
        os.write(held, b"!")
        os.close(held)
        time.sleep(600)

    pid = as_user(machine.locks, hold)
    os.close(held)
    try:
        assert os.read(heard, 1) == b"!"
        first, second = machine.begin("--gpus", "2"), machine.begin("--gpus", "1")
        assert first.pid
        reason = str(second.await_event("queued")["reason"])
        assert "is reserved by digits" in reason or f"is reserved by {machine.desk.project.name}" in reason
        assert f"the queue order is not kept at present: {machine.locks}/order.lock is held by process {pid}" in reason
        first.let_go()
        assert second.end()["status"] == "Completed"
    finally:
        os.close(heard)
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_ticket_names_its_owner_and_not_who_it_claims_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "locks"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("HOLDFAST_GPU_LOCKS", str(shared))
    heard, told = os.pipe()

    def wait_in_front() -> None:
        fd = os.open(f"{0:012d}-{'f' * 32}.ticket", os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, b'{"run_id": "first\\u001b[2J\\u202e", "user": "root", "wish": {"count": 1}}\n')
        os.write(told, b"!")
        time.sleep(600)

    pid = as_user(shared, wait_in_front)
    try:
        assert os.read(heard, 1) == b"!"
        mine = Claim("1" * 32, {"run_id": "mine", "user": "ada"}, gpu_request({"count": 1}))
        answer = mine.take(CARDS)
        assert answer.reason == "first?[2J? of nobody is ahead in the queue"
        mine.leave()
    finally:
        os.close(heard)
        os.close(told)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
