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


def test_samples_of_the_driver_replace_looks_of_the_time_they_cover() -> None:
    covered, in_part, silent = card(), card(), card()
    for one, sampled in ((covered, (9.8, 3.0)), (in_part, (7.9, 3.0)), (silent, None)):
        one.count({"sampled": None})
        one.look(10.0, seen(50))
        one.count({"sampled": sampled})
        one.look(1.0, seen(100))
    assert [one.busy_s for one in (covered, in_part, silent)] == [4.0, 6.0, 6.0]


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


def held_for(seconds: float, busy_s: float) -> Card:
    """A card with memory of the run on it for so long, which computed for so long."""
    one = card()
    one.ours(1.0, 7, 2 << 20, "python")
    one.ours(1.0 + seconds, 7, 500 << 20, "python")
    one.look(busy_s, seen(100))
    one.look(seconds - busy_s, seen(0))
    return one


def test_memory_without_computing_is_held_and_not_used() -> None:
    for seconds, busy_s in ((14.5, 0.01), (2.0, 0.01), (14.5, 0.0), (36_000.0, 2.0)):
        one = held_for(seconds, busy_s)
        assert (one.used, one.held) == (False, True), (seconds, busy_s)
    verdict, evidence = receipt.judged([held_for(14.5, 0.01)], FACTS, 16.0)
    assert verdict == "held"
    assert evidence == "GPU 0: pid 7 was on it for 14.5 s with 0.52 GB of memory; it was busy for 0.01 s"
    assert held_for(14.5, 0.01).told(16.0)["held"] is True
    assert receipt.judged([held_for(14.5, 0.01), held_for(14.5, 5.0)], FACTS, 16.0)[0] == "used"


def test_short_and_real_work_is_used() -> None:
    """Also where the driver's counting has missed all of it, or a small part of the time was worked."""
    for seconds, busy_s in ((0.5, 0.0), (1.9, 0.0), (2.0, 0.03), (5.0, 0.06), (14.5, 0.2), (3600.0, 0.5)):
        one = held_for(seconds, busy_s)
        assert (one.used, one.held) == (True, False), (seconds, busy_s)


def test_without_a_measure_of_load_growing_memory_counts_as_use() -> None:
    one = card()
    one.ours(1.0, 7, 2 << 20, "python")
    one.ours(20.0, 7, 500 << 20, "python")
    one.look(19.0, seen(None))
    assert (one.used, one.held) == (True, False)


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


def test_receipt_has_the_facts_of_the_machine_and_every_card() -> None:
    one, lost, later = card(0), card(1), card(2)
    later.lost(9.87654, "gone")
    lost.lost(4.5, "gone")
    lost.lost(5.5, "again")
    found = receipt.receipt([one, later, lost], FACTS, 12.34567, 25, cores=4)
    assert {name: found[name] for name in ("format", "source", "driver", "cuda", "seconds", "samples", "cores")} == {
        "format": 1,
        "source": "nvml",
        "driver": "550.54.14",
        "cuda": "12.4",
        "seconds": 12.346,
        "samples": 25,
        "cores": 4,
    }
    assert (found["verdict"], found["lost_after_s"]) == ("lost", 4.5)
    assert [row["lost_after_s"] for row in found["gpus"]] == [None, 9.877, 4.5]
    assert lost.why_lost == "gone"
    bare = receipt.receipt([], {}, 1.0, 0)
    assert (bare["source"], bare["driver"], bare["cuda"], bare["lost_after_s"]) == ("", "", "", None)


def test_evidence_names_cards_and_processes() -> None:
    used, other, opened, idle = card(0), card(3), card(1), card(2)
    for one, pid in ((used, 9), (used, 7), (other, 8)):
        one.ours(2.04, pid, 5, "python")
        one.look(1.5, seen(50))
    opened.ours(2.0, 7, None, "python")
    assert receipt.judged([used, other], FACTS, 9.0)[1] == (
        "GPU 0: pid 7 opened it after 2.0 s; it was busy for 1.5 s; "
        "GPU 3: pid 8 opened it after 2.0 s; it was busy for 0.8 s"
    )
    assert receipt.judged([idle, opened], FACTS, 9.0)[1] == (
        "a process of the run opened GPU 1 but no activity was measured"
    )
    many = [card(number) for number in range(9)]
    assert receipt.judged(many, FACTS, 9.05)[1].endswith(
        "seen on GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7 in 9.1 s"
    )
    assert receipt.judged([], {"state": "unmeasured"}, 1.0) == ("unmeasured", "the GPU could not be measured")
    assert receipt.judged([], {"state": "unmeasured", "trouble": "no library"}, 1.0)[1] == "no library"
    assert receipt.judged([idle], {"state": "unmeasured"}, 1.0)[0] == "idle"
    assert receipt.judged([], {}, 1.0)[1] == "no GPU was assigned to the run"


def test_card_reports_means_peaks_and_processes() -> None:
    one = card()
    assert one.ours(1.0, 7, None, "python")
    assert not one.ours(2.0, 8, 300, "worker")
    one.ours(2.5, 8, 200, "worker")
    one.ours(3.0, 7, 100, "python")
    for busy, memory, watts in ((10, 5, 50.0), (None, 9, None), (30, None, 70.0)):
        one.look(2.0, seen(busy, memory, watts))
    one.look_closer(1.0, {"celsius": 70, "throttle": 0})
    one.look_closer(1.0, {"celsius": None, "throttle": 0})
    told = one.told(8.0)
    assert (told["uuid"], told["index"], told["name"], told["memory_total"]) == ("GPU-0", 0, "A100", 80 << 30)
    assert (told["busy_s"], told["mean_percent"], told["peak_percent"]) == (0.8, 10.0, 30)
    assert (told["memory_peak"], told["power_mean_w"], told["celsius_peak"]) == (9, 60.0, 70)
    assert told["context_after_s"] == 1.0
    assert told["processes"] == [
        {"from_s": 2.0, "to_s": 2.5, "pid": 8, "program": "worker", "memory_peak": 300},
        {"from_s": 1.0, "to_s": 3.0, "pid": 7, "program": "python", "memory_peak": 100},
    ]


def test_card_that_was_never_measured_has_no_means() -> None:
    one = card()
    one.look(2.0, seen(None, None, None))
    told = one.told(8.0)
    assert (told["busy_s"], told["mean_percent"], told["peak_percent"], told["power_mean_w"]) == (None,) * 4
    measured = card()
    measured.look(2.0, seen(0))
    assert (measured.told(8.0)["busy_s"], measured.told(8.0)["peak_percent"]) == (0.0, 0)
    assert measured.told(0.0)["mean_percent"] is None
    measured.look(2.0, seen(100))
    assert measured.told(1.0)["mean_percent"] == 100.0


def test_strangers_are_noted_once_and_not_without_end() -> None:
    one = card()
    assert one.stranger(1.23456, {"pid": 1, "user": "ada", "program": "x", "other": "y"})
    assert not one.stranger(2.0, {"pid": 1})
    assert one.told(1.0)["strangers"] == [{"pid": 1, "user": "ada", "program": "x", "run_id": None, "after_s": 1.235}]
    for pid in range(2, 100):
        assert one.stranger(3.0, {"pid": pid})
    one.xids += range(100)
    for pid in range(100):
        one.ours(1.0, pid, None, None)
    told = one.told(1.0)
    assert len(told["strangers"]) == len(told["xids"]) == len(told["processes"]) == receipt._MOST


def test_every_known_xid_has_its_meaning() -> None:
    meanings = {number: receipt.xid_meaning(number) for number in range(200)}
    unknown = receipt.xid_meaning(1000)
    known = [number for number, meaning in meanings.items() if meaning != unknown]
    assert known == [13, 31, 43, 45, 48, 61, 62, 63, 64, 69, 74, 79, 92, 94, 95, 119, 120, 154]
    assert meanings[48] == "uncorrectable error in GPU memory"
    assert meanings[79] == "the GPU has fallen off the bus"


def test_samples_before_the_first_look_count_in_full() -> None:
    one = card()
    one.count({"sampled": (9.8, 3.0)})
    assert one.busy_s == 3.0
