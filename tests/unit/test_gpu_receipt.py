"""What a receipt says, from looks alone."""

from __future__ import annotations

from typing import Any

from holdfast.runner.gpu import receipt
from holdfast.runner.gpu.receipt import Card

FACTS = {"state": "measured", "source": "nvml", "driver": "550.54.14", "cuda": "12.4", "trouble": ""}


def card(index: int = 0, *, given: bool = True) -> Card:
    return Card({"uuid": f"GPU-{index}", "index": index, "name": "A100", "memory_total": 80 << 30}, given)


def seen(busy: int | None = 0, memory: int | None = 0, watts: float | None = 60.0) -> dict[str, Any]:
    return {"busy": busy, "memory": memory, "watts": watts}


def test_busy_time_is_the_share_of_each_look() -> None:
    one = card()
    one.ours(1.0, 7, 1 << 20, "python")
    for busy in (0, 50, 100):
        one.look(2.0, seen(busy))
    told = one.told(10.0)
    assert (told["busy_s"], told["mean_percent"], told["peak_percent"], told["used"]) == (3.0, 30.0, 100, True)


def test_energy_by_the_cards_own_counter_else_by_power() -> None:
    counted, integrated, silent = card(), card(), card()
    for joules in (500.0, 900.0):
        counted.count({"joules": joules, "corrected": 1, "uncorrected": None})
    for one, watts in ((counted, 100.0), (integrated, 100.0), (silent, None)):
        one.look(3.0, seen(watts=watts))
    assert [(one.told(3.0)["energy_j"], one.told(3.0)["energy_by"]) for one in (counted, integrated, silent)] == [
        (400.0, "counter"),
        (300.0, "power"),
        (None, None),
    ]
    assert counted.told(3.0)["ecc"] == {"corrected": 0, "uncorrected": None}


def test_memory_that_grows_is_work_too_quick_to_be_counted() -> None:
    opened, worked = card(), card()
    for one, last in ((opened, 2 << 20), (worked, 500 << 20)):
        one.ours(0.1, 7, 2 << 20, "python")
        one.ours(0.2, 7, last, "python")
        one.look(0.1, seen())
    assert (opened.used, worked.used) == (False, True)


def test_what_holds_a_card_back_is_added_up_by_reason() -> None:
    one = card()
    for bits in (0x1, 0x20, 0x40, 0x64):
        one.look_closer(0.5, {"celsius": 80, "throttle": bits})
    assert one.told(2.0)["throttled_s"] == {"heat": 1.5, "power": 0.5}


def test_verdicts() -> None:
    used, idle, opened, lost, spare = card(0), card(1), card(2), card(3), card(4, given=False)
    used.ours(2.0, 7, None, "python")
    used.look(1.0, seen(90))
    opened.ours(2.0, 7, None, "python")
    lost.lost(4.0, "it has fallen off the bus")
    spare.lost(4.0, "never ours")
    judged = {
        name: receipt.judged(cards, FACTS, 10.0)
        for name, cards in (("used", [idle, used]), ("idle", [idle]), ("opened", [opened]), ("lost", [used, lost]))
    }
    assert {name: verdict for name, (verdict, _) in judged.items()} == {
        "used": "used",
        "idle": "idle",
        "opened": "idle",
        "lost": "lost",
    }
    assert "4.0 s after the start: it has fallen off the bus" in judged["lost"][1]
    assert receipt.judged([spare], FACTS, 1.0)[0] == "idle"
    assert receipt.judged([], FACTS, 1.0)[0] == "absent"


def test_who_cannot_look_does_not_say_absent() -> None:
    blind = {**FACTS, "state": "unmeasured", "trouble": "Mac GPUs (Metal) cannot be measured"}
    assert receipt.judged([], blind, 1.0) == ("unmeasured", "Mac GPUs (Metal) cannot be measured")
    none = {**FACTS, "state": "none", "trouble": "this machine has no NVIDIA GPU"}
    assert receipt.judged([], none, 1.0) == ("absent", "this machine has no NVIDIA GPU")
