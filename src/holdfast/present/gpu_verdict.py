"""One line about a run's use of its GPUs: the verdict, its evidence, what to do next."""

from __future__ import annotations

import sys

from holdfast.present import gpu_receipt
from holdfast.present.gpu_receipt import CardUse
from holdfast.present.terminal import human_bytes, human_duration, show, use_colour
from holdfast.store import history_record, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model import Json
    from holdfast.present.gpu_receipt import Receipt
    from holdfast.store.runs import Run

_COLOURS = {"used": "32", "lost": "31"}
_OTHER_COLOUR = "33"


def lines(run: Run, advice: Sequence[str] = ()) -> list[str]:
    """Empty for a run that neither requested a GPU nor used one; else the verdict, as the last line.

    Before it who is still on the card, and ``advice``: what was found to be the cause.
    """
    requested = (runs.read_plan(run) or {}).get("gpu")
    recorded = history_record.gpu_receipt(run)
    receipt = gpu_receipt.read(recorded) if recorded is not None else None
    wanted = isinstance(requested, dict) and requested.get("count") != 0
    if not wanted and (receipt is None or receipt.verdict not in ("used", "held", "lost")):
        return []
    head, tail = _verdict_texts(
        run, receipt, requested if isinstance(requested, dict) else {}, is_explained=bool(advice)
    )
    colour = _COLOURS.get(receipt.verdict if receipt else "", _OTHER_COLOUR)
    head = f"\x1b[{colour}m{show(head)}\x1b[0m" if use_colour(sys.stderr) else show(head)
    return [*_held(run), *map(show, advice), f"{head}: {_encodable(show(tail))}"]


def unused_line(run: Run, framework: tuple[str, str]) -> str:
    """That a run which requested no GPU left those of its machine alone; ``framework``: a file, and what it imports."""
    event = next((event for event in reversed(run.events) if event.get("type") == "gpu_unused"), {})
    names = event.get("gpus")
    cards = [
        CardUse(position, gpu_receipt.text(name))
        for position, name in enumerate(names if isinstance(names, list) else ())
    ]
    file, module = framework
    there = f"the machine has {_names(cards[:64]) or 'a GPU'}"
    message = f"GPU not used: {there}, and {file} imports {module}; --gpus 1 requests a GPU"
    return f"\x1b[2m{show(message)}\x1b[0m" if use_colour(sys.stderr) else show(message)


def used_words(cards: list[CardUse], seconds: float) -> str:
    """``NVIDIA H200, busy 41.0 s of 52.1 s (79 %), peak 12.3 GB, 9.10 Wh``; several cards are added up."""
    parts = [_names(cards)]
    busy = [card.busy_s for card in cards if card.busy_s is not None]
    if busy and seconds:
        share = 100 * sum(busy) / (seconds * len(cards))
        each = "" if len(cards) == 1 else " each"
        parts.append(
            f"busy {human_duration(sum(busy) / len(cards))} of {human_duration(seconds)}{each} ({share:.0f} %)"
        )
    peaks = [card.memory_peak for card in cards if card.memory_peak is not None]
    if peaks:
        parts.append(f"peak {human_bytes(max(peaks))}")
    joules = [card.energy_j for card in cards if card.energy_j is not None]
    if joules:
        parts.append(energy(sum(joules)))
    return ", ".join(parts)


def energy(joules: float) -> str:
    hours = joules / 3600
    if hours >= 1000:
        return f"{hours / 1000:.3g} kWh"
    return f"{hours:.0f} Wh" if hours >= 99.5 else f"{hours:.2g} Wh"


def _verdict_texts(run: Run, receipt: Receipt | None, requested: Json, *, is_explained: bool) -> tuple[str, str]:
    from shlex import quote

    number, target = run.request.get("run_number"), run.request.get("target")
    look = f"holdfast gpu -c {quote(str(target))}"
    more = f"holdfast info -r {number}"
    if receipt is None:
        return _without_receipt(run, look)
    evidence = receipt.evidence.rstrip(". ")
    if receipt.verdict == "used":
        return _used(receipt)
    if receipt.verdict == "held":
        cards = [card for card in receipt.cards if card.held]
        what = "the script took memory on the GPU and computed nothing there"
        return "GPU held", f"{used_words(cards, receipt.seconds)}; {what}; see {more}"
    if receipt.verdict == "idle":
        early = "" if requested.get("require") else "; --require-gpu ends such a run early"
        return "GPU idle", f"{_idle(run, receipt, is_explained)}; see {more}{early}"
    if receipt.verdict == "absent":
        return "GPU absent", f"{evidence or 'the run had no GPU'}; {look} shows the GPUs of that machine"
    if receipt.verdict == "lost":
        mend = "the kernel's log there names the Xid; reset the GPU or restart the machine before the next run"
        return "GPU lost", f"{evidence or 'it disappeared during the run'}; {mend}, then check with {look}"
    unsure = "so it is unknown whether a GPU was used"
    return "GPU unmeasured", f"{evidence or 'the GPU could not be measured'}, {unsure}; {look} shows the problem"


def _used(receipt: Receipt) -> tuple[str, str]:
    cards = [card for card in receipt.cards if card.used]
    parts = [used_words(cards, receipt.seconds)]
    spare = [card for card in receipt.cards if card.given and not card.used]
    if spare:
        parts.append(f"reserved but never used: {', '.join(f'GPU {card.index}' for card in spare)}")
    if any(card.xids for card in cards):
        parts.append("with errors (Xid " + ", ".join(str(xid) for card in cards for xid in card.xids[:5]) + ")")
    if any(card.strangers for card in cards):
        parts.append("shared with: " + gpu_receipt.who(next(card for card in cards if card.strangers).strangers[0]))
    return ("GPU used" if len(cards) == 1 else "GPUs used"), " · ".join(parts)


def _idle(run: Run, receipt: Receipt, is_explained: bool) -> str:
    """What the test before the start has found is better than a guess."""
    there = _names(list(receipt.cards)) or "a GPU"
    were = (
        "were available but not used by the script"
        if len(receipt.cards) > 1
        else "was available but not used by the script"
    )
    check = next((event for event in run.events if event.get("type") == "gpu_check"), {})
    cause = gpu_receipt.text(check.get("why")) if check.get("ok") is False else ""
    why = cause.rstrip(".") or "check for a CPU build of the framework, or a model that is not moved to the GPU"
    why = "see above" if is_explained else why
    return f"{there} {were} ({receipt.evidence.rstrip('. ')}); {why}"


def _without_receipt(run: Run, look: str) -> tuple[str, str]:
    kinds = [event.get("type") for event in run.events]
    if "started" not in kinds:
        waited = "the run was still waiting for a GPU" if "queued" in kinds else "the script was never started"
        return "GPU not used", f"{waited}; {look} shows the GPUs of that machine and their processes"
    return "GPU unmeasured", f"the run ended without a receipt, so it is unknown whether a GPU was used; {look}"


def _held(run: Run) -> list[str]:
    event = next((event for event in reversed(run.events) if event.get("type") == "gpu_held"), None)
    holders = [gpu_receipt.process(holder) for holder in gpu_receipt.objects((event or {}).get("holders"))]
    return [f"still on the GPU: {show(gpu_receipt.who(holder))}" for holder in holders[:20]]


def _names(cards: list[CardUse]) -> str:
    """``NVIDIA H200``, ``2 x NVIDIA H200``, ``NVIDIA H200 and NVIDIA L4``."""
    counted: dict[str, int] = {}
    for card in cards:
        counted[card.label] = counted.get(card.label, 0) + 1
    return " and ".join(f"{count} x {name}" if count > 1 else name for name, count in counted.items())


def _encodable(text: str) -> str:
    return text if "·".encode(sys.stderr.encoding or "ascii", "ignore") else text.replace(" · ", " | ")
