"""``holdfast gpu``: the GPUs of a target and who holds them, once or every second"""

from __future__ import annotations

import math
import os
import sys
import time

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.cli.confirm import choose
from holdfast.engine.connection.channel import ASKING
from holdfast.engine.connection.reconnect import Line
from holdfast.engine.machines.gpus import Looker
from holdfast.errors import UnreachableError
from holdfast.present import terminal_plot
from holdfast.present.output import as_table, emit
from holdfast.present.terminal import human_bytes, is_tty, show, width
from holdfast.store.temporary_store import store_to_look_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parse import Parsed
    from holdfast.engine.machines.gpus import Card, Holder, Machine, Ticket
    from holdfast.store.home import Home
    from holdfast.target_lookup import Target

_EVERY_S = 1.0
# A chart of as many seconds as fit into the rest of the line.
_SHORTEST, _LONGEST, _BESIDE = 10, 30, 85
_COLUMNS = ("gpu", "name", "memory", "busy", "held by")
_LIVE_COLUMNS = ("gpu", "name", "memory", "busy", "lately", "held by")


def gpu(parsed: Parsed) -> int:
    with store_to_look_from() as home:
        return _gpu(home, parsed)


def _gpu(home: Home, parsed: Parsed) -> int:
    project = projects.find(parsed.text("project") or os.getcwd())
    compute = choose(home.path, project.root, parsed.text("config") or "local").compute
    is_plain = bool(parsed.text("output") or parsed.text("query")) or not is_tty(sys.stdout)
    page = _Plain(parsed) if is_plain else Screen()
    looker = Looker(home)
    line = _line(home, target_lookup.resolve(compute, home.path), page)
    try:
        is_repeated = False
        while True:
            machine = _look(looker, line, is_repeated=is_repeated)
            is_repeated = True
            page.draw(machine)
            if not ((machine.cards or machine.is_pending) and page.goes_on):
                return 0
            time.sleep(_EVERY_S)
    except KeyboardInterrupt:  # which is how it is meant to end
        return 0
    finally:
        line.close()


def _line(home: Home, target: Target, page: _Plain | Screen) -> Line:
    def tell(message: str) -> None:
        sys.stderr.write(f"{show(message)}\n")
        page.leave()

    def on_lost(error: UnreachableError) -> None:
        tell(f"{error.what}; reconnecting")

    return Line(home, target, on_lost, lambda: tell("reconnected"), patience=ASKING, on_quiet=tell)


def _look(looker: Looker, line: Line, *, is_repeated: bool) -> Machine:
    """A target that has never said anything about its GPUs is not asked for ever."""
    while True:
        try:
            return looker.look(line.channel)
        except UnreachableError as error:
            if not is_repeated:
                raise
            line.again(error)


class _Plain:
    """For pipes, and for ``--output``."""

    def __init__(self, parsed: Parsed) -> None:
        self._form = parsed.form()
        self.goes_on = parsed.flag("watch")

    def draw(self, machine: Machine) -> None:
        if self._form["fmt"] in ("table", "tsv") and self._form["query"] is None:
            emit([row(card, machine.queue) for card in machine.cards], **self._form, columns=_COLUMNS)
            if machine.trouble:
                sys.stderr.write(f"{show(machine.trouble)}\n")
        else:
            emit(machine.as_json(), **self._form)
        sys.stdout.flush()

    def leave(self) -> None:
        """Nothing of it is ever drawn over."""


class Screen:
    """Lines that are drawn over the ones before; each card has a chart of how busy it was."""

    goes_on = True

    def __init__(self) -> None:
        self._drawn = 0
        self._busy: dict[int, list[float]] = {}
        self._fancy = terminal_plot.can_draw(sys.stdout)
        self._can_move = os.environ.get("TERM") != "dumb"

    def draw(self, machine: Machine) -> None:
        lines = self.lines(machine, width(sys.stdout))
        back = f"\x1b[{self._drawn}A\x1b[J" if self._drawn and self._can_move else ""
        sys.stdout.write(back + "".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        self._drawn = len(lines)

    def leave(self) -> None:
        """Other output follows: leave the drawn lines as they are."""
        self._drawn = 0

    def lines(self, machine: Machine, columns: int) -> list[str]:
        seconds = min(max(columns - _BESIDE, _SHORTEST), _LONGEST)
        rows = [{**row(card, machine.queue), "lately": self._chart(card, seconds)} for card in machine.cards]
        lines = as_table(rows, _LIVE_COLUMNS, columns).splitlines()
        if machine.driver:
            lines.append(show(f"driver {machine.driver}, CUDA {machine.cuda or 'unknown'} and older"))
        lines += [show(line) for line in waiting(machine.queue)]
        return [*lines, show(machine.trouble)] if machine.trouble else lines

    def _chart(self, card: Card, seconds: int) -> str:
        seen = self._busy.setdefault(card.index, [math.nan] * _LONGEST)
        seen[:] = [*seen[1:], math.nan if card.busy_percent is None else min(max(card.busy_percent, 0.0), 100.0)]
        return terminal_plot.sparkline(seen[-seconds:], seconds, fancy=self._fancy, between=(0.0, 100.0))


def waiting(queue: list[Ticket]) -> list[str]:
    """Who is in the queue, first come first."""
    line = [ticket for ticket in queue if ticket.taken is None]
    return [f"waiting {at}: {_whose(ticket)} for {_cards(ticket)}" for at, ticket in enumerate(line, 1)]


def _cards(ticket: Ticket) -> str:
    return "all GPUs" if ticket.count == "all" else f"{ticket.count} GPU{'' if ticket.count == 1 else 's'}"


def _whose(ticket: Ticket) -> str:
    known = f"run {ticket.run_number} " if ticket.run_number is not None else ""
    return f"{known}({ticket.run_id}) of {ticket.user}" if known else f"{ticket.run_id} of {ticket.user}"


def row(card: Card, queue: Sequence[Ticket] = ()) -> dict[str, object]:
    """A card in one line. What is not known is left blank."""
    memory = ""
    if card.memory_used is not None and card.memory_total is not None:
        memory = f"{human_bytes(card.memory_used)} of {human_bytes(card.memory_total)}"
    busy = "" if card.busy_percent is None else f"{card.busy_percent:.0f} %"
    held = card.trouble or ("" if card.processes is None else ", ".join(map(_who, card.processes)))
    taken = [ticket for ticket in queue if card.uuid in (ticket.taken or ())]
    if not held and taken:
        held = ", ".join(f"{_whose(ticket)}, not using it yet" for ticket in taken)
    held = held or ("" if card.processes is None else "none")
    return {"gpu": card.index, "name": card.name, "memory": memory, "busy": busy, "held by": held}


def _who(holder: Holder) -> str:
    if holder.run:
        known = f"run {holder.run_number}" if holder.run_number is not None else "a run of another client"
        return f"{known} ({holder.run_id or holder.run})"
    return " ".join(filter(None, (holder.user, holder.program, f"(pid {holder.pid})")))
