"""Which GPUs of a machine can serve a request."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runner.gpu import matching
from holdfast.runner.plan import GpuRequest, gpu_request

GB = 10**9


def request(**more: Any) -> GpuRequest:
    return gpu_request({"count": 1, **more})


def card(index: int, **more: Any) -> dict[str, Any]:
    return {"uuid": f"GPU-{index}a", "index": index, "name": "NVIDIA L4", "memory_total": 24 * GB, **more}


CARDS = [card(0), card(1, memory_total=48 * GB, name="NVIDIA L40"), card(2, mig=True), card(3, trouble="it is lost")]


@pytest.mark.parametrize(
    ("wanted", "fitting"),
    [
        ({}, [0, 1]),
        ({"memory": 24 * GB}, [0, 1]),
        ({"memory": 24 * GB + 1}, [1]),
        ({"name": "l40"}, [1]),
        ({"name": "H200"}, []),
    ],
)
def test_cards_fit_by_name_and_memory(wanted: dict[str, Any], fitting: list[int]) -> None:
    assert [card["index"] for card in matching.fitting(CARDS, request(**wanted))] == fitting


def test_cards_without_uuid_name_or_memory_do_not_fit_a_demand() -> None:
    bare = {"uuid": "", "index": 0}
    assert matching.fitting([bare], request()) == []
    unknown = {"uuid": "GPU-1", "index": 0, "name": None, "memory_total": None}
    assert matching.fitting([unknown], request()) == [unknown]
    assert matching.fitting([unknown], request(memory=1)) == []
    assert matching.fitting([unknown], request(name="L4")) == []


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"count": 1}, ""),
        ({"count": 2}, ""),
        ({"count": "all"}, ""),
        ({"count": 0}, ""),
        ({"count": 3}, "3 GPUs requested"),
        ({"name": "H200"}, "1 GPU named H200 requested"),
        ({"memory": 80 * GB}, "1 GPU with 80 GB requested"),
        ({"count": "all", "name": "H200", "memory": 80 * GB}, "1 GPU named H200 with 80 GB requested"),
    ],
)
def test_request_that_can_never_be_served_is_explained(wanted: dict[str, Any], reason: str) -> None:
    there = "NVIDIA L4 (24 GB), NVIDIA L40 (48 GB), NVIDIA L4 (24 GB, with MIG enabled), NVIDIA L4 (24 GB, it is lost)"
    expected = f"{reason}, but this machine has {there}" if reason else ""
    assert matching.impossible(CARDS, request(**wanted)) == expected


def test_machine_without_usable_cards_is_described() -> None:
    assert matching.impossible([], request()) == "1 GPU requested, but this machine has none"
    nameless = [{"index": 4, "trouble": "no answer"}]
    assert matching.impossible(nameless, request()).endswith("GPU 4 (0 GB, no answer)")


@pytest.mark.parametrize(
    ("said", "indices"),
    [
        *(
            (None, [0, 1, 2, 3]),
            ("", []),
            ("1,0", [1, 0]),
            (" 2 , 1", [2, 1]),
            ("0,0,1", [0]),
            ("9,0", []),
            ("0,9,1", [0]),
        ),
        *(("GPU-1", [1]), ("GPU-", []), ("gpu-1", []), ("-1", []), ("0,-1,1", [0]), ("GPU-2a,GPU-0a", [2, 0])),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(said: str | None, indices: list[int]) -> None:
    assert [card["index"] for card in matching.visible(CARDS, said)] == indices
