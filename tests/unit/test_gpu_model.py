"""A card in the five lines that the original's guide shows, and in one line of ``holdfast gpu``."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.commands.gpu import Screen, row
from holdfast.engine.machines.gpus import Card, Holder, Machine, Ticket
from holdfast.present import terminal_plot
from holdfast.runner.gpu import gpu_model, gpu_queue

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gpu.md"
CHART = re.compile("[▁▂▃▄▅▆▇█_.:=#^-]+")
GUIDE = """\
name: Tesla K80
major: 3 minor: 7 memoryClockRate (GHz) 0.8235
pciBusID 06c3:00:00.0
Total memory: 11.17GiB
Free memory: 11.11GiB
"""
CARD = Card(
    0, name="NVIDIA A100", memory_used=3 * 10**9, memory_total=80 * 10**9, busy_percent=97, processes=list[Holder]()
)
OURS = Holder(41, 1, "ada", "python", "ab" * 16, "digits_1", 7)
OTHERS = OURS._replace(run_id=None, run_number=None)
STRANGER = Holder(42, 1, "eve", "java", None, None)
UNSEEN = Holder(43, None, None, None, None, None)


def test_the_very_lines_of_the_guide() -> None:
    card = gpu_model.card(
        index=0,
        name="Tesla K80",
        major=3,
        minor=7,
        memory_clock_mhz=823.5,
        pci=gpu_model.pci(0x06C3, 0, 0),
        memory_total=11_995_578_368,
        memory_free=11_930_000_000,
    )
    assert "".join(f"{line}\n" for line in gpu_model.five_lines(card)) == GUIDE


def test_what_is_not_known_is_not_made_up() -> None:
    assert gpu_model.five_lines(gpu_model.card(index=0)) == [
        "name: unknown",
        "major: unknown minor: unknown memoryClockRate (GHz) unknown",
        "pciBusID unknown",
        "Total memory: unknown",
        "Free memory: unknown",
    ]


def test_a_bus_of_a_hypervisor_that_counts_high_keeps_its_digits() -> None:
    assert gpu_model.pci(0x1F3A7, 0x81, 0x1F) == "1f3a7:81:1f.0"


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, {"memory": "3.0 GB of 80.0 GB", "busy": "97 %", "held by": "none"}),
        ({"processes": None, "busy_percent": None, "memory_used": None}, {"memory": "", "busy": "", "held by": ""}),
        ({"trouble": "the GPU is lost"}, {"held by": "the GPU is lost"}),
        ({"processes": [OURS, STRANGER]}, {"held by": "run 7 (digits_1), eve java (pid 42)"}),
        ({"processes": [OTHERS]}, {"held by": f"a run of another client ({'ab' * 16})"}),
        ({"processes": [UNSEEN]}, {"held by": "(pid 43)"}),
    ],
)
def test_a_card_in_one_line(changes: dict[str, Any], shown: dict[str, str]) -> None:
    told = row(CARD._replace(**changes))
    assert {key: told[key] for key in shown} == shown


def test_a_chart_grows_from_the_right_on_a_scale_from_0_to_100() -> None:
    screen = Screen()
    for busy in (0, 50, None, 100):
        card = CARD._replace(busy_percent=busy)
        lines = screen.lines(Machine("measured", "nvml", "550.54.14", "12.4", [card], "", []), 120)
    title, _, line, driver = lines
    chart = terminal_plot.sparkline([0, 50, math.nan, 100], 4, fancy=screen._fancy, between=(0, 100))
    assert chart in line
    assert line.index(chart) + len(chart) == title.index("held by") - 2
    assert driver == "driver 550.54.14, CUDA 12.4 and older"
    queue = [Ticket("digits_1", "ada", 2, None), Ticket("digits_2", "ben", 1, ["GPU-1"])]
    narrow = screen.lines(Machine("measured", "nvml", "", "", [CARD], "", queue), 60)
    assert max(map(len, narrow)) <= 60
    assert chart[1:] in narrow[2], "the newest is what is wanted most"
    assert narrow[-1] == "waiting 1: digits_1 of ada for 2 GPUs"


def test_page_about_gpus_shows_the_table_that_the_program_draws() -> None:
    """Only the chart is drawn by hand there."""
    block = re.findall(r"^```\n(gpu .*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[0]
    run = Holder(41, 1, "ada", "python", "ab" * 16, "digits_1794773027513", 12)
    card = Card(0, "NVIDIA A100-SXM4-80GB", memory_total=85_900_000_000, processes=[])
    busy = card._replace(memory_used=61_200_000_000, busy_percent=97, processes=[run])
    free = card._replace(index=1, memory_used=0, busy_percent=0)
    drawn = Screen().lines(Machine("measured", "nvml", "550.54.14", "12.4", [busy, free], "", []), 120)
    assert _without_charts(block.splitlines()) == _without_charts(drawn)


def _without_charts(lines: list[str]) -> list[list[str]]:
    return [[cell for cell in re.split(r" {2,}", line.strip()) if not CHART.fullmatch(cell)] for line in lines]


def test_page_about_gpus_names_holders_in_the_words_of_the_program() -> None:
    source = Path(gpu_queue.__file__).read_text(encoding="utf-8")
    shown = re.findall(r"is (?:reserved|held) by .*", PAGE.read_text(encoding="utf-8"))
    assert len(shown) > 1
    sentences = [re.escape(text).replace("%s", r"\S+") for text in re.findall(r'"(is reserved by .*?)"', source)]
    assert [line for line in shown if not any(re.match(sentence, line) for sentence in sentences)] == []


def test_a_scale_may_be_given() -> None:
    assert terminal_plot.sparkline([0, 50, 100], 9, between=(0, 100)) == "▁▅█"
    assert terminal_plot.sparkline([50, 50], 9, between=(0, 100)) == "▅▅"
    assert terminal_plot.sparkline([97, 100], 9, between=(0, 100)) == "██"
