"""Reads the GPU receipt of a run, which came from a target: fields that make no sense count as unknown."""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json

VERDICTS = ("used", "held", "idle", "absent", "lost", "unmeasured")


class Process(Record):
    """A process on a GPU, of the run or of another program."""

    pid: int
    program: str = ""
    user: str = ""


class CardUse(Record):
    """One GPU over the length of a run; None means unknown."""

    index: int
    name: str = ""
    given: bool = False
    used: bool = False
    held: bool = False
    context_after_s: float | None = None
    lost_after_s: float | None = None
    busy_s: float | None = None
    mean_percent: float | None = None
    peak_percent: float | None = None
    memory_total: float | None = None
    memory_peak: float | None = None
    energy_j: float | None = None
    power_mean_w: float | None = None
    celsius_peak: float | None = None
    throttled_s: tuple[tuple[str, float], ...] = ()
    xids: tuple[int, ...] = ()
    uncorrected: int = 0
    strangers: tuple[Process, ...] = ()
    processes: tuple[Process, ...] = ()

    @property
    def label(self) -> str:
        return self.name or f"GPU {self.index}"


class Receipt(Record):
    verdict: str
    evidence: str
    source: str
    driver: str
    cuda: str
    seconds: float
    samples: int
    lost_after_s: float | None
    cpu_percent: float | None
    cards: tuple[CardUse, ...]


def read(document: Json) -> Receipt:
    verdict = text(document.get("verdict"))
    return Receipt(
        verdict=verdict if verdict in VERDICTS else "unmeasured",
        evidence=text(document.get("evidence")),
        source=text(document.get("source")),
        driver=text(document.get("driver")),
        cuda=text(document.get("cuda")),
        seconds=number(document.get("seconds")) or 0.0,
        samples=int(number(document.get("samples")) or 0),
        lost_after_s=number(document.get("lost_after_s")),
        cpu_percent=number(document.get("cpu_percent")),
        cards=tuple(_card(card, position) for position, card in enumerate(objects(document.get("gpus")))),
    )


def process(document: Json) -> Process:
    return Process(int(number(document.get("pid")) or 0), text(document.get("program")), text(document.get("user")))


def who(holder: Process) -> str:
    return " ".join(filter(None, (holder.user, holder.program, f"(pid {holder.pid})")))


def objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """A finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e24:
        return None
    return value


def _card(document: Json, position: int) -> CardUse:
    index, throttled, ecc, xids = (
        number(document.get("index")),
        document.get("throttled_s"),
        document.get("ecc"),
        document.get("xids"),
    )
    lengths = (
        {str(reason): number(length) for reason, length in throttled.items()} if isinstance(throttled, dict) else {}
    )
    figures = {name: number(document.get(name)) for name in _FIGURES}
    return CardUse(
        index=position if index is None else int(index),
        name=text(document.get("name")),
        given=document.get("given") is True,
        used=document.get("used") is True,
        held=document.get("held") is True,
        throttled_s=tuple((reason, length) for reason, length in lengths.items() if length),
        xids=tuple(xid for xid in xids if isinstance(xid, int)) if isinstance(xids, list) else (),
        uncorrected=int(number(ecc.get("uncorrected")) or 0) if isinstance(ecc, dict) else 0,
        strangers=tuple(map(process, objects(document.get("strangers")))),
        processes=tuple(map(process, objects(document.get("processes")))),
        **figures,
    )


_FIGURES = (
    *("context_after_s", "lost_after_s", "busy_s", "mean_percent", "peak_percent", "memory_total", "memory_peak"),
    *("energy_j", "power_mean_w", "celsius_peak"),
)
