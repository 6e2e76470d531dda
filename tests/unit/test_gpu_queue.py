"""Which cards a wish fits, and the folder that all users of a machine share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.runner.gpu import gpu_queue
from holdfast.runner.gpu.gpu_queue import Claim
from holdfast.runner.gpu.matching import fitting, impossible, visible
from holdfast.runner.plan import GpuRequest, gpu_request

if TYPE_CHECKING:
    from pathlib import Path

CARDS: list[dict[str, Any]] = [
    {"index": 0, "uuid": "GPU-aa0", "name": "NVIDIA A100-SXM4-80GB", "memory_total": 80 << 30, "memory_free": 80 << 30},
    {"index": 1, "uuid": "GPU-ab1", "name": "Tesla T4", "memory_total": 16 << 30, "memory_free": 15 << 30},
    {"index": 2, "uuid": "GPU-ac2", "name": "Tesla T4", "memory_total": 16 << 30, "mig": True},
    {"index": 3, "uuid": "GPU-ad3", "name": "Tesla T4", "memory_total": 16 << 30, "trouble": "it is lost"},
]
ONE: dict[str, Any] = {"count": 1, "memory": None, "name": None, "shared": False}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_GPU_LOCKS", str(tmp_path / "locks"))
    return tmp_path / "locks"


def asked(**changes: Any) -> GpuRequest:
    return gpu_request({**ONE, **changes})


def claim(number: int, **wish: Any) -> Claim:
    return Claim(f"{number:032x}", {"run_id": f"run_{number}", "user": "ada"}, asked(**wish))


def test_request_selects_gpus_by_name_and_memory() -> None:
    assert [card["index"] for card in fitting(CARDS, asked())] == [0, 1]
    assert [card["index"] for card in fitting(CARDS, asked(name="a100"))] == [0]
    assert [card["index"] for card in fitting(CARDS, asked(memory=24e9))] == [0]
    assert impossible(CARDS, asked(count=2)) == ""
    assert impossible(CARDS, asked(count=2, name="T4", memory=8e9)) == (
        "2 GPUs named T4 with 8 GB requested, but this machine has NVIDIA A100-SXM4-80GB (85.9 GB), "
        "Tesla T4 (17.2 GB), Tesla T4 (17.2 GB, with MIG enabled), Tesla T4 (17.2 GB, it is lost)"
    )
    assert impossible([], asked(count="all")) == "1 GPU requested, but this machine has none"


def test_what_the_machine_leaves_us() -> None:
    assert visible(CARDS, None) == CARDS
    assert visible(CARDS, "") == []
    assert [card["index"] for card in visible(CARDS, "1,0")] == [1, 0]
    assert [card["index"] for card in visible(CARDS, "GPU-ab, 0")] == [1, 0]
    assert [card["index"] for card in visible(CARDS, "0,9,1")] == [0]  # as CUDA itself reads it
    assert visible(CARDS, "GPU-a") == []  # could be any of them
    assert [card["index"] for card in visible(CARDS, "0,0")] == [0]


def test_the_emptiest_card_is_given_first_and_only_as_many_as_asked_for() -> None:
    first, second, third = claim(1), claim(2), claim(3)
    assert [card["index"] for card in first.take(CARDS).cards] == [0]
    assert [card["index"] for card in second.take(CARDS).cards] == [1]
    answer = third.take(CARDS)
    assert answer.cards == []
    assert answer.reason == "GPU 0 is reserved by run_1 of ada; GPU 1 is reserved by run_2 of ada"
    first.leave()
    assert [card["index"] for card in third.take(CARDS).cards] == [0]


def test_who_waits_for_a_card_that_we_could_have_comes_first() -> None:
    both, one, other = claim(1, count=2), claim(2, name="T4"), claim(3, name="A100")
    holder = claim(4, name="A100")
    assert holder.take(CARDS).ahead[0].run_id == "run_1"
    both.leave()
    other.leave()
    assert holder.take(CARDS).cards  # the one ahead waits for another kind
    assert one.take(CARDS).cards


def test_shared_and_alone_exclude_each_other() -> None:
    alone, shared, too = claim(1), claim(2, shared=True, count="all"), claim(3, shared=True, count="all")
    assert alone.take(CARDS).cards
    assert not shared.take(CARDS).cards
    alone.leave()
    assert len(shared.take(CARDS).cards) == len(too.take(CARDS).cards) == 2
    assert not claim(4).take(CARDS).cards


def test_what_others_wrote_is_only_data(folder: Path) -> None:
    mine = claim(1)
    for name, text in (
        ("000000000000-" + "f" * 32 + ".ticket", '{"wish": {"memory": "much", "count": []}, "run_id": 7}\n'),
        ("000000000000-" + "e" * 32 + ".ticket", "[" * 100_000),
        ("999999999999-" + "d" * 32 + ".ticket", "{}\n"),
        ("x.ticket", "{}\n"),
    ):
        (folder / name).write_text(text)
    (folder / ("000000000000-" + "c" * 32 + ".ticket")).symlink_to("/etc/passwd")
    os.mkfifo(folder / ("000000000000-" + "b" * 32 + ".ticket"))
    assert mine.take(CARDS).cards
    held = os.open(folder / ("000000000000-" + "f" * 32 + ".ticket"), os.O_RDONLY)
    import fcntl

    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        assert claim(2).take(CARDS).ahead[0].run_id == "7"
    finally:
        os.close(held)


def test_void_tickets_of_our_own_go(folder: Path) -> None:
    old = claim(1)
    for descriptor in old.descriptors:  # as if its process had been killed
        os.close(descriptor)
    assert len(list(folder.glob("*.ticket"))) == 1
    claim(2)
    assert [path.name[-39:-7] for path in folder.glob("*.ticket")] == [f"{2:032x}"]


def test_queue_folder_is_sticky_and_world_writable(folder: Path) -> None:
    claim(1).take(CARDS)
    assert oct(folder.stat().st_mode)[-4:] == "1777"
    assert {oct(path.stat().st_mode)[-3:] for path in folder.iterdir()} == {"644"}


def test_deleted_ticket_is_drawn_again_with_its_number(folder: Path) -> None:
    holder, first, second = claim(1, count=2), claim(2), claim(3)
    assert holder.take(CARDS).cards
    for path in folder.iterdir():
        path.unlink()
    assert first.take(CARDS).reason.startswith("GPU 0 is reserved by a run without a ticket (@holdfast-gpu-")
    assert second.take(CARDS).ahead[0].run_id == "run_2"
    assert [path.name[:12] for path in sorted(folder.glob("*.ticket"))] == ["000000000002", "000000000003"]
    holder.leave()
    assert second.take(CARDS).ahead
    assert first.take(CARDS).cards


@pytest.mark.parametrize("in_the_way", ["a file", "a link", "a folder of others"])
def test_cards_are_exclusive_without_a_usable_folder(folder: Path, in_the_way: str) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir()
    if in_the_way == "a file":
        folder.write_text("a file")
    elif in_the_way == "a link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        (folder / "order.lock").mkdir()
    first, second = claim(1), claim(2, count=2)
    assert first.take(CARDS).cards
    refused = second.take(CARDS)
    assert refused.cards == []
    assert "the queue order is not kept at present: " in refused.reason
    assert str(folder) in refused.reason
    first.leave()
    assert second.take(CARDS).cards
    assert not list(elsewhere.iterdir())


def test_number_of_a_ticket_has_a_limit(folder: Path) -> None:
    import fcntl

    claim(1).leave()
    last = os.open(folder / ("9" * 12 + "-" + "f" * 32 + ".ticket"), os.O_RDWR | os.O_CREAT)
    os.write(last, b'{"run_id": "liar"}\n')
    fcntl.flock(last, fcntl.LOCK_EX)
    mine, next_one = claim(2), claim(3)
    os.close(last)
    assert mine.number == next_one.number == 999_999_999_999
    assert next_one.take(CARDS).ahead[0].run_id == "run_2"
    assert mine.take(CARDS).cards


def test_runner_of_an_older_version_and_a_new_one_exclude_each_other(folder: Path) -> None:
    """Older runners hold a card by a lock on its file alone."""
    import fcntl

    mine = claim(1)
    assert [card["index"] for card in mine.take(CARDS).cards] == [0]
    theirs = os.open(folder / "gpu-GPU-aa0.lock", os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(theirs, fcntl.LOCK_SH | fcntl.LOCK_NB)
    mine.leave()
    fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
    other, both = claim(2), claim(3, count=2)
    assert [card["index"] for card in other.take(CARDS).cards] == [1]
    assert not both.take(CARDS).cards
    other.leave()
    os.close(theirs)
    assert both.take(CARDS).cards


def test_tidy_deletes_nothing_through_a_link(folder: Path) -> None:
    precious = folder.with_name("precious")
    precious.mkdir()
    (precious / "thesis.tex").write_text("years")
    folder.symlink_to(precious)
    gpu_queue.tidy()
    folder.unlink()
    precious.rename(folder)
    gpu_queue.tidy()
    assert (folder / "thesis.tex").read_text() == "years"
