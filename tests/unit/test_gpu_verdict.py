"""What is told of a run's GPUs: the verdict, the card, the chart; from a target's word, which may be any."""

from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuruns import CARD, FIVE_LINES, USE, WISH, receipt, write_series
from holdfast.cli.gpu_watch import Queue, facts_lines
from holdfast.errors import UsageError
from holdfast.present import gpu_card, gpu_chart, gpu_receipt, gpu_verdict
from holdfast.present.drawing.shapes import Line, Words
from holdfast.present.terminal import Progress
from holdfast.store import history_record
from holdfast.store.runs import Run

if TYPE_CHECKING:
    from pathlib import Path

REQUEST: dict[str, Any] = {"run_id": "digits_1794773027513", "run_number": 12, "target": "lab1", "script": "train.py"}
STARTED = {"type": "started", "wall_ns": 1, "mono_ns": 1, "boot_id": ""}


def made(folder: Path, *events: dict[str, Any], wish: dict[str, Any] | None = WISH) -> Run:
    (folder / "a1").mkdir(exist_ok=True)
    (folder / "a1" / "plan.json").write_text(json.dumps({"gpu": wish}))
    return Run("0" * 32, str(folder), REQUEST, list(events), [])


def told(folder: Path, said: dict[str, Any] | None, wish: dict[str, Any] | None = WISH) -> list[str]:
    events = [STARTED] if said is None else [STARTED, {"type": "gpu_receipt", **said}]
    return gpu_verdict.lines(made(folder, *events, wish=wish))


def test_verdict_line_of_a_used_gpu(tmp_path: Path) -> None:
    line = "GPU used: NVIDIA H200, busy 41.0 s of 52.1 s (79 %), peak 12.3 GB, 9.1 Wh"
    assert told(tmp_path, receipt()) == [line]


def test_several_used_gpus_and_one_that_was_not(tmp_path: Path) -> None:
    cards = [USE, {**USE, "index": 1, "busy_s": 31.0}, {**USE, "index": 2, "used": False}]
    [line] = told(tmp_path, receipt(cards=cards))
    assert line.startswith("GPUs used: 2 x NVIDIA H200, busy 36.0 s of 52.1 s each (69 %), peak 12.3 GB, 18 Wh")
    assert line.endswith("reserved but never used: GPU 2")


def test_trouble_of_a_used_gpu(tmp_path: Path) -> None:
    strangers = [{"pid": 7, "user": "bob", "program": "python3"}]
    [line] = told(tmp_path, receipt(cards=[{**USE, "xids": [31, 43], "strangers": strangers}]))
    assert "Xid 31, 43" in line
    assert "shared with: bob python3 (pid 7)" in line


def test_a_held_gpu_is_told_also_if_none_was_requested(tmp_path: Path) -> None:
    said = receipt("held", "GPU 0: pid 7 was on it for 50.0 s", [{**USE, "used": False, "held": True, "busy_s": 0.01}])
    for wish in (WISH, None):
        [line] = told(tmp_path, said, wish)
        assert line.startswith(
            "GPU held: NVIDIA H200, busy 0.01 s of 52.1 s (0 %), peak 12.3 GB, 9.1 Wh; the script took"
        )
        assert "memory on the GPU and computed nothing there; see holdfast info -r 12" in line


def test_an_idle_gpu_is_told_with_what_to_do(tmp_path: Path) -> None:
    evidence = "no process of the run was seen on GPU 0 in 52.1 s"
    said = receipt("idle", evidence, [{**USE, "used": False}])
    [line] = told(tmp_path, said)
    assert line.startswith(f"GPU idle: NVIDIA H200 was available but not used by the script ({evidence})")
    assert "CPU build" in line
    assert "holdfast info -r 12" in line
    assert "--require-gpu" in line
    assert "--require-gpu" not in told(tmp_path, said, {**WISH, "require": True})[0]
    check = {"type": "gpu_check", "ok": False, "why": "torch is a build without CUDA", "fix": "x"}
    [line] = gpu_verdict.lines(made(tmp_path, check, STARTED, {"type": "gpu_receipt", **said}))
    assert "; torch is a build without CUDA; " in line, "what is known is better than a guess"
    assert "CPU build" not in line


@pytest.mark.parametrize(
    ("verdict", "evidence", "head"),
    [
        ("absent", "this machine has no NVIDIA GPU", "GPU absent: this machine has no NVIDIA GPU; "),
        ("lost", "GPU 0 was lost 3.0 s after the start: x", "GPU lost: GPU 0 was lost 3.0 s after the start: x; "),
        ("unmeasured", "NVIDIA's library crashed", "GPU unmeasured: NVIDIA's library crashed, "),
    ],
)
def test_other_verdicts(tmp_path: Path, verdict: str, evidence: str, head: str) -> None:
    [line] = told(tmp_path, receipt(verdict, evidence, []))
    assert line.startswith(head)
    assert "holdfast gpu -c lab1" in line


def test_a_run_that_never_came_to_it(tmp_path: Path) -> None:
    waited = gpu_verdict.lines(made(tmp_path, {"type": "accepted"}, {"type": "queued", "position": 1, "reason": "x"}))
    shows = "holdfast gpu -c lab1 shows the GPUs of that machine and their processes"
    assert waited == [f"GPU not used: the run was still waiting for a GPU; {shows}"]
    assert "never started" in gpu_verdict.lines(made(tmp_path, {"type": "accepted"}))[0]
    assert told(tmp_path, None)[0].startswith("GPU unmeasured: the run ended without a receipt")


def test_runs_without_gpus_are_not_bothered(tmp_path: Path) -> None:
    assert told(tmp_path, None, None) == []
    for verdict, lines in (("used", 1), ("lost", 1), ("idle", 0), ("absent", 0), ("unmeasured", 0)):
        assert len(told(tmp_path, receipt(verdict), None)) == lines, verdict


def test_who_stays_on_the_card_is_told_first(tmp_path: Path) -> None:
    held = {"type": "gpu_held", "holders": [{"pid": 9, "user": "ada", "program": "py\x1b[2J"}, "nonsense"]}
    lines = gpu_verdict.lines(made(tmp_path, STARTED, held, {"type": "gpu_receipt", **receipt()}))
    assert lines[0] == "still on the GPU: ada py\\x1b[2J (pid 9)"
    assert lines[-1].startswith("GPU used: ")
    assert len(lines) == 2


def test_advice_stands_before_the_verdict(tmp_path: Path) -> None:
    run = made(tmp_path, STARTED, {"type": "gpu_receipt", **receipt("idle", "nothing was seen")})
    lines = gpu_verdict.lines(run, ["train.py:3: the model stays on the CPU", "    try: model.cuda()\x1b[2J"])
    assert lines[:2] == ["train.py:3: the model stays on the CPU", "    try: model.cuda()\\x1b[2J"]
    assert "; see above; " in lines[-1]


@pytest.mark.parametrize("joules", [0, 36, 3600, 359_000, 7_200_000, 3.6e9])
def test_energy_is_short(joules: float) -> None:
    words = gpu_verdict.energy(joules)
    assert len(words) <= 9
    assert words.endswith("Wh")


HOSTILE: list[dict[str, Any]] = [
    {},
    {"verdict": 5, "gpus": "all"},
    {"verdict": "used", "gpus": [None, 3, {"index": "x", "busy_s": "long", "xids": {}, "throttled_s": [1], "ecc": 1}]},
    {"verdict": "used", "seconds": float("inf"), "gpus": [{**USE, "busy_s": float("nan"), "energy_j": -1}]},
    {"verdict": "used", "gpus": [{**USE, "name": "evil\x1b]0;title\x07", "throttled_s": {"heat": "much"}}]},
    {"verdict": "lost", "evidence": ["x"], "gpus": [{"strangers": [1], "processes": "x", "index": -4}]},
]


@pytest.mark.parametrize("said", HOSTILE)
def test_a_receipt_that_makes_no_sense_breaks_nothing(tmp_path: Path, said: dict[str, Any]) -> None:
    run = made(tmp_path, STARTED, {"type": "gpu_receipt", **said})
    shown = "\n".join([*gpu_verdict.lines(run), *gpu_card.section(run, io.StringIO())])
    assert shown.isprintable() or "\x1b" not in shown
    assert gpu_receipt.read(said).verdict in gpu_receipt.VERDICTS


def test_the_receipt_in_the_record(tmp_path: Path) -> None:
    said = receipt()
    envelope = {"seq": 9, "wall_ns": 1, "mono_ns": 1, "boot_id": "b", "type": "gpu_receipt", "crc": "00000000"}
    for event in ({**envelope, **said}, {**envelope, "v": 2, "receipt": said}):
        assert history_record.record(made(tmp_path, event))["gpu"] == said
    assert history_record.record(made(tmp_path))["gpu"] is None


def test_a_metric_named_gpu_is_found_under_metrics(tmp_path: Path) -> None:
    run = made(tmp_path)
    write_series(tmp_path / "a1" / "metrics", {"gpu": [1.0], "loss": [2.0]})
    record = history_record.record(run)
    assert record["metrics"] == {"gpu": 1.0}
    assert record["gpu"] is None
    assert record["loss"] == 2.0


def test_samples_of_gpus_are_no_metrics(tmp_path: Path) -> None:
    run = made(tmp_path, STARTED)
    write_series(tmp_path / "a1" / "gpu", {"gpu0.busy": [50.0, 60.0], "cpu.busy": [1.0, 2.0]})
    assert not [name for name in history_record.record(run) if "busy" in name]


def test_where_a_run_stands(tmp_path: Path) -> None:
    queued = {"type": "queued", "position": 2, "reason": "GPU 0 is reserved by digits_1 of ada", "ahead": []}
    waiting = made(tmp_path, {"type": "accepted"}, queued)
    assert history_record.record(waiting)["status"] == "Queued"
    assert history_record.record(waiting)["reason"] == "position 2, GPU 0 is reserved by digits_1 of ada"
    ahead = [{"run_id": "digits_2", "user": "bob", "count": 1}]
    assert (
        history_record.queue_words({"position": 3, "reason": "", "ahead": ahead})
        == "position 3, behind run digits_2 of bob"
    )
    assert history_record.queue_words({}) == ""


def test_a_place_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    queue = Queue(Progress(io.StringIO()))
    for position, why in ((2, "x"), (2, "x"), (2, "y"), (1, "y"), (1, "y")):
        queue.see({"type": "queued", "position": position, "reason": why}, is_last=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["queued: position 2, x", "queued: position 2, y", "queued: position 1, y"]


def test_the_cards_in_the_words_of_the_guide() -> None:
    facts: dict[str, Any] = {"state": "measured", "trouble": "", "gpus": [CARD, {**CARD, "index": 1}]}
    assert "\n".join(facts_lines(facts)) + "\n" == FIVE_LINES * 2
    assert facts_lines({"trouble": "this machine has no NVIDIA GPU", "gpus": []}) == [
        "GPU: this machine has no NVIDIA GPU"
    ]
    odd = {"name": 7, "memory_clock_mhz": "fast", "memory_total": None, "trouble": "lost"}
    assert facts_lines({"gpus": [odd, "x"]})[0::5] == ["name: unknown", "problem: lost"]


def test_the_card_of_a_run_that_ended(tmp_path: Path) -> None:
    run = made(tmp_path, STARTED, {"type": "gpu_receipt", **receipt(cards=[{**USE, "xids": [79]}])})
    write_series(tmp_path / "a1" / "gpu", {"gpu0.busy": [0.0] * 40 + [100.0] * 40})
    text = "\n".join(gpu_card.section(run, io.TextIOWrapper(io.BytesIO(), "utf-8")))
    assert "used: GPU 0: pid 4711 opened it after 1.5 s" in text
    assert "driver 550.54.14, CUDA 12.4, 521 samples in 52.1 s" in text
    row = next(line for line in text.splitlines() if "NVIDIA H200" in line)
    for cell in (
        "41.0 s",
        "79 %",
        "100 %",
        "12.3 GB of 151 GB",
        "9.1 Wh",
        "power 3.20 s",
        "79",
        "▁▁▁▁▁▁▁▁▁▁▁▁████████████",
    ):
        assert cell in row


def test_the_card_of_a_run_that_goes_on(tmp_path: Path) -> None:
    run = made(tmp_path, {"type": "gpu_facts", "gpus": [CARD]}, STARTED)
    write_series(tmp_path / "a1" / "gpu", {"gpu0.busy": [0.0, 50.0, 100.0], "gpu0.memory": [1e9, 5e9, 2e9]})
    text = "\n".join(gpu_card.section(run, io.StringIO()))
    assert "2.00 s so far" in text
    row = next(line for line in text.splitlines() if "NVIDIA H200" in line)
    assert "75 %" in row, "the mean over time: each sample is worth the time before it"
    assert "5.0 GB of 151 GB" in row


def test_most_runs_have_nothing_to_show(tmp_path: Path) -> None:
    assert gpu_card.section(made(tmp_path, STARTED), io.StringIO()) == []


def test_the_chart_has_a_panel_for_each_card(tmp_path: Path) -> None:
    run = made(tmp_path, STARTED, {"type": "gpu_facts", "gpus": [CARD]}, {"type": "gpu_receipt", **receipt()})
    busy, memory, power = [0.0, 100.0] * 5000, [75.377e9] * 10000, [700.0] * 10000
    names = [f"gpu{index}.{what}" for index in (0, 1) for what in ("busy", "memory", "power")]
    write_series(tmp_path / "a1" / "gpu", dict(zip(names, (busy, memory, power) * 2, strict=True)))
    picture = gpu_chart.picture(run, gpu_card.read_series(run))
    words = [shape.text for shape in picture.shapes if isinstance(shape, Words)]
    assert [word for word in words if word.startswith("GPU ")] == ["GPU used", "GPU 0  NVIDIA H200", "GPU 1"]
    assert {"100 %", "150 GB", "0 GB", "600 W", "2 h", "1 h", "0 s", "busy", "memory", "power"} <= set(words)
    curves = [shape for shape in picture.shapes if isinstance(shape, Line) and shape.width > 1]
    assert len(curves) == 6
    assert all(len(curve.points) <= 4 * 841 for curve in curves)
    ys = [y for _, y in curves[0].points]
    assert max(ys) - min(ys) == 96, "no peak is lost"
    [level] = {round(y) for _, y in curves[1].points}
    ends = sorted({y for line in picture.shapes if isinstance(line, Line) for _, y in line.points})
    assert level in range(round(ends[0]), round(ends[-1]))


def test_a_chart_needs_samples_and_a_form(tmp_path: Path) -> None:
    run = made(tmp_path, STARTED)
    with pytest.raises(UsageError, match="no GPU samples"):
        gpu_chart.draw(run, str(tmp_path / "x.svg"))
    write_series(tmp_path / "a1" / "gpu", {"gpu0.busy": [1.0]})
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        gpu_chart.draw(run, str(tmp_path / "x.gif"))
    with pytest.raises(UsageError, match="cannot be written"):
        gpu_chart.draw(run, str(tmp_path / "none" / "x.svg"))
    gpu_chart.draw(run, str(tmp_path / "x.PNG"))
    assert (tmp_path / "x.PNG").read_bytes().startswith(b"\x89PNG")
    assert [name for name in os.listdir(tmp_path) if "tmp" in name] == []
