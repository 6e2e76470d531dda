"""A receipt from a target, read by the client: fields that make no sense count as unknown."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.present import gpu_receipt

CARD: dict[str, Any] = {
    "index": 3,
    "name": "NVIDIA L4",
    "given": True,
    "used": True,
    "busy_s": 1.5,
    "throttled_s": {"heat": 2.0, "power": 0, "odd": "x"},
    "xids": [79, "x", 31],
    "ecc": {"uncorrected": 2},
    "strangers": [{"pid": 7, "program": "x", "user": "ada"}, 5],
    "processes": [{"pid": "8"}],
}


def test_every_field_of_a_receipt_is_read() -> None:
    said = {
        "verdict": "used",
        "evidence": "e",
        "source": "nvml",
        "driver": "d",
        "cuda": "12.4",
        "seconds": 9,
        "samples": 4.0,
    }
    found = gpu_receipt.read({**said, "lost_after_s": 0, "cpu_percent": 50.5, "gpus": [CARD, None, {}]})
    assert (found.verdict, found.evidence, found.source, found.driver, found.cuda) == ("used", "e", "nvml", "d", "12.4")
    assert (found.seconds, found.samples, found.lost_after_s, found.cpu_percent) == (9, 4, 0, 50.5)
    card, bare = found.cards
    assert (card.index, card.name, card.given, card.used, card.busy_s, card.label) == (
        3,
        "NVIDIA L4",
        True,
        True,
        1.5,
        "NVIDIA L4",
    )
    assert (card.throttled_s, card.xids, card.uncorrected) == ((("heat", 2.0),), (79, 31), 2)
    assert card.strangers == (gpu_receipt.Process(7, "x", "ada"),)
    assert card.processes == (gpu_receipt.Process(0, "", ""),)
    assert (bare.index, bare.label, bare.given, bare.used, bare.busy_s) == (1, "GPU 1", False, False, None)
    assert (bare.throttled_s, bare.xids, bare.uncorrected, bare.strangers) == ((), (), 0, ())


def test_receipt_without_fields_is_unmeasured() -> None:
    found = gpu_receipt.read({"verdict": "other", "seconds": "9", "gpus": {}})
    assert (found.verdict, found.evidence, found.seconds, found.samples, found.cards) == ("unmeasured", "", 0.0, 0, ())
    assert (found.lost_after_s, found.cpu_percent) == (None, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (1.5, 1.5), (9.9e23, 9.9e23), (1e24, None), (-0.1, None), (True, None), ("1", None), (float("nan"), None)],
)
def test_numbers_are_finite_and_not_negative(value: object, expected: float | None) -> None:
    assert gpu_receipt.number(value) == expected


def test_process_is_named_by_what_is_known() -> None:
    assert gpu_receipt.who(gpu_receipt.Process(7, "python", "ada")) == "ada python (pid 7)"
    assert gpu_receipt.who(gpu_receipt.Process(7, "", "")) == "(pid 7)"
