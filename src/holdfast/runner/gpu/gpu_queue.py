"""Waits in the queue for GPUs and takes them when it is the run's turn.

GPUs are held by ``reservation``, which other users cannot disturb; the order comes from ``tickets``. Where the
order cannot be kept, runs take free GPUs without it, and the reason that waiting runs show says so.
"""

import contextlib
import fcntl
import json
import os
import time

from . import matching, reservation
from . import tickets as gpu_tickets

MYPY = False
if MYPY:
    from typing import Any

    from ..plan import GpuRequest
    from .tickets import Folder, Ticket

FOLDER = b"/tmp/holdfast-gpu"
_PATIENCE_S, _LITTLE_S = 3.0, 0.1  # for the order's lock: at first, and when it could not be had the last time
_TOUCH_S = 3600.0


class Answer:
    """What a try came to: ``cards`` are taken, or ``reason`` says what is in the way and ``ahead`` who comes first."""

    def __init__(self, cards: "list[dict[str, Any]]", reason: "str", ahead: "list[Ticket]") -> "None":
        self.cards = cards
        self.reason = reason
        self.ahead = ahead


class Claim:
    """A run's ticket and cards. All that it holds are descriptors, which end with the processes that have them."""

    def __init__(self, uid: "str", about: "dict[str, Any]", request: "GpuRequest") -> "None":
        """``about``: run_id and user, for those who wait."""
        self._folder = place()
        self._uid = uid
        self._told = dict(about, wish=request.source)
        self._request = request
        self._shared = request.shared
        self._ticket = -1
        self._cards = {}  # type: dict[str, int]
        self._files = {}  # type: dict[str, int]
        self._patience = _PATIENCE_S
        self._touched = time.monotonic()
        self.number = 0
        with contextlib.suppress(gpu_tickets.Unusable), gpu_tickets.Folder(self._folder) as folder:
            with folder.order(self._patience) as trouble:
                self._keep_ticket(folder)
            self._patience = _LITTLE_S if trouble else _PATIENCE_S

    @property
    def descriptors(self) -> "list[int]":
        """All that must stay open as long as the run has its cards."""
        return [fd for fd in (*self._cards.values(), *self._files.values(), self._ticket) if fd >= 0]

    def take(self, cards: "list[dict[str, Any]]") -> "Answer":
        """Take the requested GPUs if they are free and no other run is ahead; ``cards`` is their present state."""
        mine = matching.fitting(cards, self._request)
        try:
            with gpu_tickets.Folder(self._folder) as folder, folder.order(self._patience) as trouble:
                self._patience = _LITTLE_S if trouble else _PATIENCE_S
                self._keep_ticket(folder)
                answer = self._take_in_order(folder, cards, mine)
        except gpu_tickets.Unusable as error:
            trouble = str(error)
            answer = self._take(mine, [], None)
        if trouble and answer.reason:
            answer.reason += "; the queue order is not kept at present: %s" % trouble
        return answer

    def keep_fresh(self) -> "None":
        """Programs that clean /tmp by age must not find these files old."""
        if time.monotonic() - self._touched > _TOUCH_S:
            self._touched = time.monotonic()
            for fd in [self._ticket, *self._files.values()]:
                with contextlib.suppress(OSError):  # a lock that another user made, or no ticket
                    os.utime(fd)

    def end(self) -> "None":
        """The run is over: its ticket goes. Cards are let go by the end of the processes that hold them."""
        if self._ticket >= 0:
            with contextlib.suppress(gpu_tickets.Unusable), gpu_tickets.Folder(self._folder, create=False) as folder:
                folder.remove(gpu_tickets.ticket_name(self.number, self._uid), self._ticket)

    def leave(self) -> "None":
        self.end()
        self._release(set(self._cards))
        if self._ticket >= 0:
            os.close(self._ticket)
            self._ticket = -1

    def _keep_ticket(self, folder: "Folder") -> "None":
        """Draw one, or the same once more where another user has taken ours away."""
        if self._ticket >= 0 and folder.has(gpu_tickets.ticket_name(self.number, self._uid), self._ticket):
            return
        if self._ticket >= 0:
            os.close(self._ticket)
        self.number, self._ticket = folder.draw(self._uid, self._told, self.number)

    def _take_in_order(self, folder: "Folder", cards: "list[dict[str, Any]]", mine: "list[dict[str, Any]]") -> "Answer":
        tickets = folder.tickets()
        ahead = self._ahead(tickets, cards, mine)
        if ahead:
            return Answer([], "%s of %s is ahead in the queue" % (ahead[0].run_id, ahead[0].user), ahead)
        return self._take(mine, tickets, folder)

    def _ahead(
        self, tickets: "list[Ticket]", cards: "list[dict[str, Any]]", mine: "list[dict[str, Any]]"
    ) -> "list[Ticket]":
        """Those who were here before and wait for a card that we could take as well."""
        ours = {card["uuid"] for card in mine}
        waiting = [ticket for ticket in tickets if ticket.place < (self.number, self._uid) and ticket.taken is None]
        return [
            ticket for ticket in waiting if ours & {card["uuid"] for card in matching.fitting(cards, ticket.request)}
        ]

    def _take(self, mine: "list[dict[str, Any]]", tickets: "list[Ticket]", folder: "Folder | None") -> "Answer":
        wanted = self._request.count if isinstance(self._request.count, int) else len(mine)
        troubles = []  # type: list[str]
        free = []  # type: list[dict[str, Any]]
        for card in sorted(mine, key=lambda card: -(card.get("memory_free") or 0)):
            if len(free) == wanted:
                break
            trouble = _stranger(card, self._shared)
            if not trouble and not self._reserve(card["uuid"], folder):
                trouble = self._who_holds(card["uuid"], tickets)
            if trouble:
                troubles.append("GPU %s %s" % (card["index"], trouble))
            else:
                free.append(card)
        if not free or len(free) < wanted:
            self._release(set(self._cards))
            return Answer([], "; ".join(sorted(troubles)), [])
        chosen = sorted(free, key=lambda card: int(card["index"]))
        self._note_taken([card["uuid"] for card in chosen])
        return Answer(chosen, "", [])

    def _reserve(self, uuid: "str", folder: "Folder | None") -> "bool":
        """Whether the card is ours now: by its name, and for older runners by its file."""
        card = reservation.reserve(self._folder, uuid, self._shared)
        if card < 0:
            return False
        self._cards[uuid] = card
        fd = folder.lock_file(uuid) if folder is not None else -1
        if fd >= 0:
            self._files[uuid] = fd
            try:
                fcntl.flock(fd, (fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                self._release({uuid})
                return False
        return True

    def _release(self, uuids: "set[str]") -> "None":
        for uuid in uuids:
            os.close(self._cards.pop(uuid))
            if uuid in self._files:
                os.close(self._files.pop(uuid))

    def _who_holds(self, uuid: "str", tickets: "list[Ticket]") -> "str":
        for ticket in tickets:
            if uuid in (ticket.taken or ()) and ticket.uid != self._uid:
                return "is reserved by %s of %s" % (ticket.run_id, ticket.user)
        return "is reserved by a run without a ticket (%s)" % reservation.shown(self._folder, uuid)

    def _note_taken(self, uuids: "list[str]") -> "None":
        line = json.dumps({"taken": uuids}) + "\n"
        try:
            if self._ticket >= 0:
                os.write(self._ticket, line.encode("ascii"))
        except OSError:
            self.end()  # a full disk: without this line it would say that we wait


def listing() -> "list[dict[str, Any]]":
    """Who holds cards and who waits, in order, for people; nothing is made or taken."""
    try:
        with gpu_tickets.Folder(place(), create=False) as folder:
            return [dict(ticket.brief(), uid=ticket.uid, taken=ticket.taken) for ticket in folder.tickets()]
    except gpu_tickets.Unusable:
        return []


def tidy() -> "None":
    """Remove what this user made in the folder, unless a run is in the queue."""
    with contextlib.suppress(gpu_tickets.Unusable), gpu_tickets.Folder(place(), create=False) as folder:
        with folder.order(_PATIENCE_S) as trouble:
            if not trouble and not folder.tickets():
                folder.clear()


def place() -> "bytes":
    return os.environb.get(b"HOLDFAST_GPU_LOCKS") or FOLDER


def _stranger(card: "dict[str, Any]", shared: "bool") -> "str":
    """A process that is not of a run with a reservation, or that has not ended yet, uses the card."""
    for process in () if shared else card.get("processes") or ():
        who = process.get("run_id") or " ".join(
            str(part) for part in (process.get("user"), process.get("program")) if part
        )
        return "is in use by %s (pid %s)" % (who or "another process", process.get("pid"))
    return ""
