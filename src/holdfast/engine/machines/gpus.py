"""The GPUs of a target as its runner sees them, and which of our runs hold them."""

from __future__ import annotations

import os

from holdfast.record import Record
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home


class Holder(Record):
    """A process on a GPU. ``run`` is the uid of a run of ours; it has a ``run_number`` if that run is known here."""

    pid: int
    memory: int | None
    user: str | None
    program: str | None
    run: str | None
    run_id: str | None
    run_number: int | None = None


class Ticket(Record):
    """A run of any user that holds GPUs (``taken``: their UUIDs) or waits for some (None)."""

    run_id: str
    user: str
    count: int | str | None
    taken: list[str] | None
    run_number: int | None = None


class Card(Record):
    """One GPU; None means unknown. ``processes`` is None where the driver does not list them."""

    index: int
    name: str | None = None
    uuid: str | None = None
    pci: str | None = None
    major: int | None = None
    minor: int | None = None
    memory_clock_mhz: float | None = None
    core_clock_mhz: float | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    memory_used: int | None = None
    busy_percent: float | None = None
    power_watts: float | None = None
    celsius: float | None = None
    ecc: bool | None = None
    mig: bool | None = None
    processes: list[Holder] | None = None
    trouble: str = ""


class Machine(Record):
    """``state``: measured, none (no NVIDIA GPU there) or unmeasured (could not be read); ``trouble`` says why.

    ``is_pending``: the driver may still answer when it is asked again over the same connection.
    """

    state: str
    source: str
    driver: str
    cuda: str
    cards: list[Card]
    trouble: str
    queue: list[Ticket]
    is_pending: bool = False

    def as_json(self) -> Json:
        cards = [card._asdict() for card in self.cards]
        for card in cards:
            holders = card["processes"]
            card["processes"] = [holder._asdict() for holder in holders] if isinstance(holders, list) else None
        plain = {name: value for name, value in self._asdict().items() if name not in ("cards", "queue", "is_pending")}
        return {**plain, "gpus": cards, "queue": [ticket._asdict() for ticket in self.queue]}


class Looker:
    """Looks again and again; a run's number is looked up once."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._numbers: dict[str, int | None] = {}

    def look(self, channel: RunnerChannel) -> Machine:
        answer = channel.ask("gpus")
        reported = answer.get("facts")
        facts = reported if isinstance(reported, dict) else {}
        return Machine(
            state=_text(facts.get("state")) or "unmeasured",
            source=_text(facts.get("source")) or "",
            driver=_text(facts.get("driver")) or "",
            cuda=_text(facts.get("cuda")) or "",
            cards=[self._card(card, position) for position, card in enumerate(_objects(facts.get("gpus")))],
            trouble=_text(facts.get("trouble")) or "",
            queue=[self._ticket(entry) for entry in _objects(answer.get("queue"))],
            is_pending=facts.get("is_pending") is True,
        )

    def _ticket(self, entry: Json) -> Ticket:
        run_id, user, uid = (_text(entry.get(name)) or "" for name in ("run_id", "user", "uid"))
        count, taken = entry.get("count"), entry.get("taken")
        uuids = [str(uuid) for uuid in taken] if isinstance(taken, list) else None
        return Ticket(run_id, user, _whole(count) if count != "all" else "all", uuids, self._number(uid))

    def _card(self, entry: Json, position: int) -> Card:
        index, processes = _whole(entry.get("index")), entry.get("processes")
        return Card(
            index=position if index is None else index,
            name=_text(entry.get("name")),
            uuid=_text(entry.get("uuid")),
            pci=_text(entry.get("pci")),
            major=_whole(entry.get("major")),
            minor=_whole(entry.get("minor")),
            memory_clock_mhz=_number(entry.get("memory_clock_mhz")),
            core_clock_mhz=_number(entry.get("core_clock_mhz")),
            memory_total=_whole(entry.get("memory_total")),
            memory_free=_whole(entry.get("memory_free")),
            memory_used=_whole(entry.get("memory_used")),
            busy_percent=_number(entry.get("busy_percent")),
            power_watts=_number(entry.get("power_watts")),
            celsius=_number(entry.get("celsius")),
            ecc=_switch(entry.get("ecc")),
            mig=_switch(entry.get("mig")),
            processes=[self._holder(process) for process in _objects(processes)]
            if isinstance(processes, list)
            else None,
            trouble=_text(entry.get("trouble")) or "",
        )

    def _holder(self, entry: Json) -> Holder:
        user, program, run, run_id = (_text(entry.get(name)) for name in ("user", "program", "run", "run_id"))
        number = self._number(run) if run else None
        return Holder(_whole(entry.get("pid")) or 0, _whole(entry.get("memory")), user, program, run, run_id, number)

    def _number(self, uid: str) -> int | None:
        if uid not in self._numbers:
            known = runs.is_uid(uid) and os.path.isdir(self._home.run(uid))
            self._numbers[uid] = _whole(runs.read(self._home, uid).request.get("run_number")) if known else None
        return self._numbers[uid]


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _switch(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
