"""Monitors the GPUs of a run from its own process, because the driver may hang or crash the process that asks it.

It is a child of the guardian, so ending the script's process tree does not end it. The supervisor sends commands over
one pipe and reads another, one line of JSON each: facts, events, and the receipt.
"""

import json
import os
import select
import time

from .. import wire
from ..decoding import as_bytes
from ..store import layout
from . import gpu_model, nvml, nvml_process, process_owner, receipt, timeseries

MYPY = False
if MYPY:
    from typing import Any

EVERY_S = 0.095  # ten times a second, those that come late included
_CLOSER = 5  # looks, until who is on a card and how hot it is are asked again
_REPORT_S = 10.0
_POINTS = 2000.0  # after so many seconds points become fewer, so that a week is not a hundred times an hour
_LAG_S = 0.3  # what the driver says is of a moment ago
_HELD_S = 30.0


class Watcher:
    """The supervisor's end."""

    def __init__(self, attempt: "bytes") -> "None":
        """Called in the guardian; the process starts at once and reads nothing before it gets a command."""
        theirs, self._asks = os.pipe()
        self.answers, mine = os.pipe()
        self._rest = b""
        if os.fork() == 0:
            try:
                os.setsid()
                nvml_process.stand_alone(theirs, mine)
                _Loop(theirs, mine, attempt).run()
            finally:
                os._exit(0)
        os.close(theirs)
        os.close(mine)
        os.set_blocking(self.answers, False)

    def release(self) -> "None":
        os.close(self._asks)
        os.close(self.answers)

    def tell(self, **order: "object") -> "bool":
        """False if the reading end is closed."""
        try:
            wire.write_all(self._asks, wire.dumps(order) + b"\n")
            return True
        except (OSError, wire.Closed):
            return False

    def hear(self) -> "list[dict[str, Any]] | None":
        """New messages; None when there will be no more."""
        try:
            block = os.read(self.answers, 65536)
        except BlockingIOError:
            return []
        if not block:
            return None
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()
        return [json.loads(line.decode("ascii")) for line in lines]


class _Loop:
    def __init__(self, asks: "int", answers: "int", attempt: "bytes") -> "None":
        self._asks = asks
        self._answers = answers
        self._attempt = attempt
        self._source = None  # type: Any
        self._facts = {}  # type: dict[str, Any]
        self._watch = None  # type: _Watch | None
        self._rest = b""

    def run(self) -> "None":
        while True:
            wait = self._watch.wait() if self._watch is not None else None
            if select.select([self._asks], [], [], wait)[0]:
                block = os.read(self._asks, 65536)
                if not block:
                    return
                lines = (self._rest + block).split(b"\n")
                self._rest = lines.pop()
                for line in lines:
                    if not self._obey(json.loads(line.decode("ascii"))):
                        return
            if self._watch is not None and self._watch.wait() <= 0:
                self._watch.look()

    def _obey(self, order: "dict[str, Any]") -> "bool":
        if order["do"] == "facts":
            self._say(facts=self._look())
        elif order["do"] == "watch":
            facts = self._facts or self._look()
            self._watch = _Watch(self._source, facts, order, self._attempt, self._say)
        elif order["do"] == "finish":
            if self._watch is not None:
                self._watch.finish()
            return False
        return True

    def _look(self) -> "dict[str, Any]":
        self._source, self._facts = nvml.look_with(self._source)
        return self._facts

    def _say(self, **fields: "object") -> "None":
        wire.write_all(self._answers, wire.dumps(fields) + b"\n")


class _Watch:
    """From the start of a script to its end. ``order``: ``uid``, ``uuids`` of the cards it was given (None: it took
    none, and all are watched), and ``container``: the file that will name its container."""

    def __init__(
        self, source: "Any", facts: "dict[str, Any]", order: "dict[str, Any]", attempt: "bytes", say: "Any"
    ) -> "None":
        self._source = source
        self._facts = facts
        self._say = say
        self._uid = str(order["uid"]).encode("ascii")
        self._cid_file = order.get("container")
        self._container = b""
        given = order.get("uuids")
        cards = [card for card in facts["gpus"] if card["uuid"] and (given is None or card["uuid"] in given)]
        self.cards = [receipt.Card(card, given is not None) for card in cards]
        self._began = self._last = self._due = self._reported = time.monotonic()
        self._began -= float(order.get("ago_s") or 0.0)
        self._closer_at = self._began
        self._every = EVERY_S if facts.get("source") == "nvml" else 5.0
        self._ended = 0.0
        self._looks = 0
        self._known = {}  # type: dict[int, dict[str, Any]]
        self._points = _Points(attempt) if self.cards else None
        self._cost = time.process_time()
        self._count()
        if self._source is not None:
            self._source.xids()

    def wait(self) -> "float":
        return max(0.0, self._due - time.monotonic()) if self.cards else 3600.0

    def look(self) -> "None":
        moment = time.monotonic()
        now, passed, self._last = moment - self._began, moment - self._last, moment
        self._due = max(self._due + self._every, moment)
        thorough = self._looks % _CLOSER == 0
        closer, self._closer_at = (moment - self._closer_at, moment) if thorough else (0.0, self._closer_at)
        self._looks += 1
        for card in self.cards:
            if card.lost_after is None:
                self._look_at(card, now, passed, closer if thorough else None)
        if self._looks % 10 == 0:
            self._hear_xids(now)
        if self._points is not None:
            self._points.write(now)
        if moment - self._reported > _REPORT_S:
            self._reported = moment
            self._known = {}
            self._count()
            self._say(so_far=self._receipt())

    def finish(self) -> "None":
        """What is late is waited for, then who is still on a card of the run, and for how long."""
        self._ended = time.monotonic()
        if any(card.context_after is not None for card in self.cards):
            until = time.monotonic() + _LAG_S
            while time.monotonic() < until:
                time.sleep(self.wait())
                self.look()
            self._await_release()
        self._hear_xids(time.monotonic() - self._began)
        self._count()
        self._say(receipt=self._receipt())

    def _look_at(self, card: "receipt.Card", now: "float", passed: "float", closer: "float | None") -> "None":
        try:
            seen = self._source.tick(card.index, closer is not None)
        except gpu_model.Trouble as error:
            self._lose(card, now, str(error))
            return
        card.look(passed, seen)
        if closer is not None:
            card.look_closer(closer, seen)
            self._sort(card, now, seen)
        if self._points is not None:
            self._points.add(card.index, seen)

    def _sort(self, card: "receipt.Card", now: "float", seen: "dict[str, Any]") -> "None":
        """Whose processes these are. Where the driver does not tell, work on a card that is ours alone is ours."""
        pids = seen["pids"]
        if pids is None and card.given and (seen["busy"] or 0) > 0:
            self._greet(card, now, 0, None, None)
        for pid, memory in (pids or {}).items():
            who = self._who(pid, memory)
            if who["ours"]:
                self._greet(card, now, pid, memory, who["program"])
            elif card.given and card.stranger(now, who):
                details = {name: who[name] for name in ("pid", "user", "program", "run_id")}
                self._say(event="gpu_stranger", uuid=card.uuid, index=card.index, after_s=round(now, 3), **details)

    def _greet(
        self, card: "receipt.Card", now: "float", pid: "int", memory: "int | None", program: "str | None"
    ) -> "None":
        if card.ours(now, pid, memory, program):
            details = {"uuid": card.uuid, "index": card.index, "pid": pid, "program": program}
            self._say(event="gpu_context", after_s=round(now, 3), **details)

    def _who(self, pid: "int", memory: "int | None") -> "dict[str, Any]":
        if pid not in self._known:
            ours = process_owner.is_of(pid, self._uid, self._container_id())
            self._known[pid] = dict(process_owner.holder(pid, memory), ours=ours)
        return self._known[pid]

    def _container_id(self) -> "bytes":
        if self._cid_file and not self._container:
            try:
                with open(as_bytes(self._cid_file), "rb") as source:
                    self._container = source.read(200).strip()
            except OSError:
                return b""
        return self._container

    def _lose(self, card: "receipt.Card", now: "float", why: "str") -> "None":
        self._hear_xids(now)
        xid = card.xids[-1] if card.xids else None
        if xid is not None:
            why = "%s (Xid %d: %s)" % (why, xid, receipt.xid_meaning(xid))
        if card.lost(now, why):
            details = {"uuid": card.uuid, "index": card.index, "why": why, "xid": xid}
            self._say(event="gpu_lost", after_s=round(now, 3), **details)

    def _hear_xids(self, now: "float") -> "None":
        for uuid, number in self._source.xids() if self._source is not None else ():
            for card in self.cards:
                if card.uuid == uuid:
                    card.xids.append(number)
                    details = {"uuid": uuid, "index": card.index, "xid": number}
                    self._say(event="gpu_xid", meaning=receipt.xid_meaning(number), after_s=round(now, 3), **details)

    def _await_release(self) -> "None":
        """The script's processes are gone, and its memory should be free; the driver may need a moment."""
        until = time.monotonic() + _HELD_S
        while True:
            held = [process for card in self.cards for process in self._still_on(card)]
            if not held:
                return
            if time.monotonic() > until:
                self._say(event="gpu_held", holders=held)
                return
            self._say(waiting=len(held))
            time.sleep(0.2)

    def _still_on(self, card: "receipt.Card") -> "list[dict[str, Any]]":
        try:
            pids = self._source.tick(card.index)["pids"] or {}
        except gpu_model.Trouble:
            return []
        return [dict(process_owner.holder(pid, pids[pid]), index=card.index) for pid in pids if pid in card.processes]

    def _count(self) -> "None":
        for card in self.cards:
            try:
                card.count(self._source.counters(card.index))
            except gpu_model.Trouble:
                continue  # the next look tells

    def _receipt(self) -> "dict[str, Any]":
        cost = round(time.process_time() - self._cost, 4)
        percent = self._points.cpu_percent() if self._points is not None else None
        more = {"cost_s": cost, "cpu_percent": percent, "cores": os.cpu_count()}
        seconds = (self._ended or time.monotonic()) - self._began
        return receipt.receipt(self.cards, self._facts, seconds, self._looks, **more)


class _Points:
    """The series: each point is of all looks since the one before it."""

    def __init__(self, attempt: "bytes") -> "None":
        self._series = timeseries.Series(layout.gpu(attempt))
        self._log = layout.log(attempt)
        self._seen = {}  # type: dict[str, list[float]]
        self._next = 1.0
        self._first = self._cpu = _processor_time()
        self._trouble = False

    def add(self, index: "int", seen: "dict[str, Any]") -> "None":
        for name, key in (("busy", "busy"), ("memory", "memory"), ("power", "watts"), ("celsius", "celsius")):
            if seen.get(key) is not None:
                self._seen.setdefault("gpu%d.%s" % (index, name), []).append(float(seen[key]))

    def write(self, now: "float") -> "None":
        if now < self._next or self._trouble:
            return
        self._next = now + max(1.0, now / _POINTS)
        values = {
            name: max(numbers) if name.endswith((".memory", ".celsius")) else sum(numbers) / len(numbers)
            for name, numbers in self._seen.items()
        }
        before, self._cpu = self._cpu, _processor_time()
        percent = _percent(before, self._cpu)
        if percent is not None:
            values["cpu.busy"] = percent
        self._seen = {}
        try:
            values["log.bytes"] = float(os.path.getsize(self._log))
        except OSError:
            pass  # there is no log yet
        try:
            self._series.add(now, values)
        except OSError:
            self._trouble = True  # a full disk; the receipt is kept all the same

    def cpu_percent(self) -> "float | None":
        percent = _percent(self._first, _processor_time())
        return None if percent is None else round(percent, 1)


def _processor_time() -> "tuple[int, int]":
    """(busy, all) of all cores together, in whatever unit."""
    try:
        with open("/proc/stat", "rb") as source:
            numbers = [int(word) for word in source.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(numbers) - sum(numbers[3:5]), sum(numbers)


def _percent(before: "tuple[int, int]", after: "tuple[int, int]") -> "float | None":
    passed = after[1] - before[1]
    return 100.0 * (after[0] - before[0]) / passed if passed > 0 else None
