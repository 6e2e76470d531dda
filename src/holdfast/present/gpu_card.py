"""The GPU part of a run's card: the verdict, its evidence, and the load of each GPU over time."""

from __future__ import annotations

import math
from itertools import pairwise

from holdfast.metrics import reader
from holdfast.present import gpu_receipt, terminal, terminal_plot
from holdfast.present.gpu_receipt import CardUse, number, objects, text, who
from holdfast.present.gpu_verdict import energy
from holdfast.present.output import as_table
from holdfast.runner.store import layout
from holdfast.store import history_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.metrics.values import Series
    from holdfast.store.runs import Run

_COLUMNS = ("gpu", "name", "busy", "mean", "peak", "memory", "energy", "throttled", "xid", "busy over time")
_OPTIONAL = ("busy", "energy", "throttled", "xid", "busy over time")
_SPARK = 24


def section(run: Run, stream: TextIO) -> list[str]:
    """Nothing of a run that has neither a receipt nor samples."""
    recorded = history_record.gpu_receipt(run)
    series = read_series(run)
    if recorded is None and not series:
        return []
    if recorded is not None:
        receipt = gpu_receipt.read(recorded)
        cards, seconds = list(receipt.cards), receipt.seconds
        lines = ["", _row("gpu", f"{receipt.verdict}: {receipt.evidence}" if receipt.evidence else receipt.verdict)]
        lines += _by(receipt)
    else:
        cards, seconds = so_far(run, series)
        lines = ["", _row("gpu", f"{terminal.human_duration(seconds)} so far; the verdict follows at the end")]
    if cards:
        rows = [_cells(card, series, stream) for card in cards]
        columns = [name for name in _COLUMNS if name not in _OPTIONAL or any(row[name] for row in rows)]
        width = terminal.width(stream) if terminal.is_tty(stream) else None
        lines += ["", *as_table(rows, columns, width).splitlines()]
    return lines + _company(cards) + _held(run)


def read_series(run: Run) -> dict[str, Series]:
    """What was measured while it ran, by name: ``gpu0.busy``, ``gpu0.memory``, ..., ``cpu.busy``."""
    return reader.read_dir(layout.gpu(run.attempt)).by_name


def so_far(run: Run, series: dict[str, Series]) -> tuple[list[CardUse], float]:
    """What the samples say of a run that has no receipt yet, and over how many seconds."""
    names = names_by_index(run)
    cards = []
    for index in indexes(series):
        busy, memory = (reader.digest(samples) if (samples := series.get(f"gpu{index}.{what}")) else None
                        for what in ("busy", "memory"))  # fmt: skip
        cards.append(
            CardUse(
                index=index,
                name=names.get(index, ("", None))[0],
                mean_percent=_mean(series[f"gpu{index}.busy"]) if busy else None,
                peak_percent=busy.greatest if busy else None,
                memory_total=names.get(index, ("", None))[1],
                memory_peak=memory.greatest if memory else None,
            )
        )
    times = [moment for samples in series.values() for moment in (samples.times[0], samples.times[-1])]
    return cards, (max(times) - min(times)) / 1e9 if times else 0.0


def indexes(series: dict[str, Series]) -> list[int]:
    """Numbers of the cards that there are samples of."""
    heads = {name.partition(".")[0].removeprefix("gpu") for name in series if name.startswith("gpu")}
    return sorted(int(head) for head in heads if head.isascii() and head.isdigit() and len(head) < 6)


def names_by_index(run: Run) -> dict[int, tuple[str, float | None]]:
    """Name and memory of the GPUs, from any source that has them."""
    names: dict[int, tuple[str, float | None]] = {}
    recorded = [event.get("gpus") for event in run.events if event.get("type") == "gpu_facts"]
    for card in (
        row for rows in (*recorded, (history_record.gpu_receipt(run) or {}).get("gpus")) for row in objects(rows)
    ):
        index = number(card.get("index"))
        if index is not None:
            names[int(index)] = (text(card.get("name")), number(card.get("memory_total")))
    return names


def _mean(series: Series) -> float | None:
    """Over time: samples are taken at longer intervals as a run goes on."""
    points = _points(series)
    length = points[-1][0] - points[0][0] if points else 0
    if length <= 0:
        return points[0][1] if points else None
    return sum((later[0] - before[0]) * later[1] for before, later in pairwise(points)) / length


def _stretches(series: Series) -> list[float]:
    """The mean of each of a few stretches of equal length: what a busy card did, not its every breath."""
    points = _points(series)
    if len(points) <= _SPARK:
        return [value for _, value in points]
    start, length = points[0][0], points[-1][0] - points[0][0] + 1
    stretches: list[list[float]] = [[] for _ in range(_SPARK)]
    for at, value in points:
        stretches[max(0, min((at - start) * _SPARK // length, _SPARK - 1))].append(value)
    return [sum(stretch) / len(stretch) if stretch else math.nan for stretch in stretches]


def _points(series: Series) -> list[tuple[int, float]]:
    pairs = zip(series.times, series.values, strict=True)
    return [(at, float(value)) for at, value in pairs if isinstance(value, (int, float)) and math.isfinite(value)]


def _row(label: str, value: str) -> str:
    return f"{label:<11}{terminal.show(value)}"


def _by(receipt: gpu_receipt.Receipt) -> list[str]:
    parts = [f"driver {receipt.driver}" if receipt.driver else "", f"CUDA {receipt.cuda}" if receipt.cuda else ""]
    if receipt.samples:
        parts.append(f"{receipt.samples} samples in {terminal.human_duration(receipt.seconds)}")
    if receipt.cpu_percent is not None:
        parts.append(f"CPU utilization {receipt.cpu_percent:.0f} %")
    summary = ", ".join(filter(None, parts))
    return [_row("", summary)] if summary else []


def _cells(card: CardUse, series: dict[str, Series], stream: TextIO) -> dict[str, object]:
    busy = series.get(f"gpu{card.index}.busy")
    points = [min(max(value, 0.0), 100.0) for value in _stretches(busy)] if busy is not None else []
    memory = "" if card.memory_peak is None else terminal.human_bytes(card.memory_peak)
    if memory and card.memory_total:
        memory += f" of {terminal.human_bytes(card.memory_total)}"
    return {
        "gpu": card.index,
        "name": card.name,
        "busy": "" if card.busy_s is None else f"{terminal.human_duration(card.busy_s)}",
        "mean": _percent(card.mean_percent),
        "peak": _percent(card.peak_percent),
        "memory": memory,
        "energy": "" if card.energy_j is None else energy(card.energy_j),
        "throttled": ", ".join(f"{reason} {terminal.human_duration(length)}" for reason, length in card.throttled_s),
        "xid": ", ".join(map(str, card.xids[:8])),
        "busy over time": terminal_plot.sparkline(
            points, _SPARK, fancy=terminal_plot.can_draw(stream), between=(0.0, 100.0)
        ),
    }


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} %"


def _company(cards: list[CardUse]) -> list[str]:
    """Other users of its GPUs, and memory that failed."""
    lines = [_row("others", f"{who(process)} on GPU {card.index}") for card in cards for process in card.strangers[:8]]
    broken = [card for card in cards if card.uncorrected]
    message = "{} errors in the memory of GPU {} that could not be corrected"
    return lines + [_row("memory", message.format(card.uncorrected, card.index)) for card in broken]


def _held(run: Run) -> list[str]:
    event = next((event for event in reversed(run.events) if event.get("type") == "gpu_held"), {})
    return [_row("still on", f"{who(gpu_receipt.process(holder))}") for holder in objects(event.get("holders"))[:8]]
