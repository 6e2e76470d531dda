"""Adds up the readings of a run's GPUs into its receipt, and judges whether they were used. Pure."""

MYPY = False
if MYPY:
    from typing import Any

USED, HELD, IDLE, ABSENT, LOST, UNMEASURED = "used", "held", "idle", "absent", "lost", "unmeasured"
_REASONS = {0x4: "power", 0x8: "hardware", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
_GREW = 1 << 20  # more memory than at first sight is a sign of work, too quick for the driver's own counting
_STAYED_S = 2.0  # a process that was there for less may have worked too quickly for the driver's counting
_COMPUTED_S = 0.1
_MOST = 50
_COVERED = 0.8  # the share of a window that the driver's samples must cover to count instead of our own looks
_XIDS = {
    13: "the program accessed GPU memory that it does not own, or executed an invalid instruction",
    31: "the program accessed GPU memory that it does not own",
    43: "the program stopped the GPU; other programs continue",
    45: "GPU work was aborted, as when a program is killed",
    48: "uncorrectable error in GPU memory",
    61: "the GPU's controller failed",
    62: "the GPU's controller stopped",
    63: "a faulty row of GPU memory will be remapped at the next reset",
    64: "a faulty row of GPU memory could not be remapped",
    69: "the program used an operation that this GPU does not support",
    74: "the link between GPUs (NVLink) failed",
    79: "the GPU has fallen off the bus",
    92: "many corrected errors in GPU memory",
    94: "error in GPU memory; it affected one program only",
    95: "error in GPU memory; any program may be affected",
    119: "the GPU's system processor (GSP) does not respond",
    120: "the GPU's system processor (GSP) failed",
    154: "the GPU needs a reset or a restart of the machine",
}


def xid_meaning(number: "int") -> "str":
    return _XIDS.get(number, "see NVIDIA's catalogue of Xid errors")


class Card:
    """One GPU over the length of a run. Times are seconds since its script began."""

    def __init__(self, card: "dict[str, Any]", given: "bool") -> "None":
        self.uuid = str(card["uuid"])
        self.index = int(card["index"])
        self.name = card.get("name")
        self.total = card.get("memory_total")
        self.given = given
        self.context_after = None  # type: float | None
        self.lost_after = None  # type: float | None
        self.why_lost = ""
        self.busy_s = 0.0
        self.peak = None  # type: float | None
        self.memory_peak = None  # type: int | None
        self.celsius_peak = None  # type: float | None
        self.throttled = {}  # type: dict[str, float]
        self.xids = []  # type: list[int]
        self.strangers = {}  # type: dict[int, dict[str, Any]]
        self.processes = {}  # type: dict[int, dict[str, Any]]
        self._measured_s = 0.0
        self._window_s = 0.0
        self._window_busy_s = 0.0
        self._joules = 0.0
        self._power_s = 0.0
        self._first = {}  # type: dict[str, Any]
        self._last = {}  # type: dict[str, Any]

    def look(self, passed: "float", seen: "dict[str, Any]") -> "None":
        """What was seen counts for the time that has passed since the look before."""
        if seen["busy"] is not None:
            self._measured_s += passed
            self._window_s += passed
            self._window_busy_s += passed * seen["busy"] / 100.0
            self.busy_s += passed * seen["busy"] / 100.0
            self.peak = max(self.peak or 0, seen["busy"])
        if seen["watts"] is not None:
            self._power_s += passed
            self._joules += passed * seen["watts"]
        self.memory_peak = _greater(self.memory_peak, seen["memory"])

    def look_closer(self, passed: "float", seen: "dict[str, Any]") -> "None":
        self.celsius_peak = _greater(self.celsius_peak, seen["celsius"])
        for reason in {word for bit, word in _REASONS.items() if seen["throttle"] & bit}:
            self.throttled[reason] = self.throttled.get(reason, 0.0) + passed

    def ours(self, now: "float", pid: "int", memory: "int | None", program: "str | None") -> "bool":
        """A process of the run is on it; whether that is news."""
        is_news = self.context_after is None
        if is_news:
            self.context_after = now
        known = self.processes.setdefault(pid, {"program": program, "first": memory, "peak": memory, "from_s": now})
        known["peak"] = _greater(known["peak"], memory)
        known["to_s"] = now
        return is_news

    def stranger(self, now: "float", who: "dict[str, Any]") -> "bool":
        """Note a process of another user on the GPU; returns whether it is new."""
        is_news = who["pid"] not in self.strangers
        if is_news and len(self.strangers) < _MOST:
            facts = {name: who.get(name) for name in ("pid", "user", "program", "run_id")}
            self.strangers[who["pid"]] = dict(facts, after_s=_rounded(now))
        return is_news

    def count(self, counters: "dict[str, Any]") -> "None":
        """The card's own counters: their growth belongs to the run.

        Our readings meet a load that comes and goes by chance; the driver's samples leave no time out. Where they
        cover the time since the last count, they replace what the readings of that time added.
        """
        self._first = self._first or counters
        self._last = counters
        covered, busy = counters.get("sampled") or (0.0, 0.0)
        if covered and covered >= _COVERED * self._window_s:
            self.busy_s += busy - self._window_busy_s
        self._window_s = self._window_busy_s = 0.0

    def lost(self, now: "float", why: "str") -> "bool":
        is_news = self.lost_after is None
        if is_news:
            self.lost_after, self.why_lost = now, why
        return is_news

    @property
    def stayed_s(self) -> "float":
        """From the first to the last sight of processes of the run."""
        last = max([float(process["to_s"]) for process in self.processes.values()] or [0.0])
        return last - (self.context_after or 0.0)

    @property
    def held(self) -> "bool":
        """Whether processes of the run were on it for some time, and it computed next to nothing.

        That is less than 0.1 s, less than 1 % of a short time, or less than 0.01 % of a long one: to open a card and to
        fill its memory takes some hundredths of a second.
        """
        if self.context_after is None or not self._measured_s or self.stayed_s < _STAYED_S:
            return False
        return self.busy_s < max(min(_COMPUTED_S, self.stayed_s / 100), self.stayed_s / 10000)

    @property
    def used(self) -> "bool":
        if self.held:
            return False
        grew = any((process["peak"] or 0) > (process["first"] or 0) + _GREW for process in self.processes.values())
        return self.context_after is not None and (self.busy_s > 0 or grew)

    def told(self, seconds: "float") -> "dict[str, Any]":
        """``seconds``: the length of the run. Looks go on for a moment after its end, for what is told late."""
        joules = self._grown("joules")
        by = "counter" if joules is not None else "power" if self._power_s else None
        processes = sorted(self.processes.items(), key=lambda item: -(item[1]["peak"] or 0))
        return {
            "uuid": self.uuid,
            "index": self.index,
            "name": self.name,
            "given": self.given,
            "used": self.used,
            "held": self.held,
            "context_after_s": _rounded(self.context_after),
            "lost_after_s": _rounded(self.lost_after),
            "busy_s": _rounded(self.busy_s) if self._measured_s else None,
            "mean_percent": _rounded(min(100.0, 100.0 * self.busy_s / seconds))
            if self._measured_s and seconds
            else None,
            "peak_percent": self.peak,
            "memory_total": self.total,
            "memory_peak": self.memory_peak,
            "energy_j": _rounded(joules if joules is not None else self._joules if by else None),
            "energy_by": by,
            "power_mean_w": _rounded(self._joules / self._power_s) if self._power_s else None,
            "celsius_peak": self.celsius_peak,
            "throttled_s": {reason: _rounded(length) for reason, length in sorted(self.throttled.items())},
            "xids": self.xids[:_MOST],
            "ecc": {kind: self._grown(kind) for kind in ("corrected", "uncorrected")},
            "strangers": list(self.strangers.values()),
            "processes": [_process(pid, process) for pid, process in processes[:_MOST]],
        }

    def _grown(self, name: "str") -> "Any":
        first, last = self._first.get(name), self._last.get(name)
        return None if first is None or last is None else last - first


def receipt(
    cards: "list[Card]", facts: "dict[str, Any]", seconds: "float", samples: "int", **more: "Any"
) -> "dict[str, Any]":
    """``facts``: the machine's state, source, driver, cuda and trouble."""
    verdict, evidence = judged(cards, facts, seconds)
    gone = [card.lost_after for card in cards if card.lost_after is not None]
    document = {
        "format": 1,
        "verdict": verdict,
        "evidence": evidence,
        "source": facts.get("source") or "",
        "driver": facts.get("driver") or "",
        "cuda": facts.get("cuda") or "",
        "seconds": _rounded(seconds),
        "samples": samples,
        "lost_after_s": _rounded(min(gone)) if gone else None,
        "gpus": [card.told(seconds) for card in cards],
    }
    return dict(document, **more)


def judged(cards: "list[Card]", facts: "dict[str, Any]", seconds: "float") -> "tuple[str, str]":
    """The verdict, and its evidence as text."""
    if facts.get("state") == "unmeasured" and not cards:
        return UNMEASURED, str(facts.get("trouble") or "the GPU could not be measured")
    for card in cards:
        after = card.lost_after
        if after is not None and (card.given or card.used or card.held):
            return LOST, "GPU %d was lost %.1f s after the start: %s" % (card.index, after, card.why_lost)
    if not cards:
        return ABSENT, str(facts.get("trouble") or "no GPU was assigned to the run")
    used = [card for card in cards if card.used]
    if used:
        return USED, "; ".join(_work_of(card) for card in used)
    held = [card for card in cards if card.held]
    if held:
        return HELD, "; ".join(_stay_on(card) for card in held)
    touched = [card for card in cards if card.context_after is not None]
    if touched:
        where = ", ".join("GPU %d" % card.index for card in touched)
        return IDLE, "a process of the run opened %s but no activity was measured" % where
    names = ", ".join("GPU %d" % card.index for card in cards[:8])
    return IDLE, "no process of the run was seen on %s in %.1f s" % (names, seconds)


def _work_of(card: "Card") -> "str":
    message = "GPU %d: pid %d opened it after %.1f s" % (card.index, min(card.processes), card.context_after or 0.0)
    return message + "; it was busy for %.1f s" % card.busy_s


def _stay_on(card: "Card") -> "str":
    message = "GPU %d: pid %d was on it for %.1f s" % (card.index, min(card.processes), card.stayed_s)
    peaks = [process["peak"] for process in card.processes.values() if process["peak"]]
    message += " with %.2f GB of memory" % (max(peaks) / 1e9) if peaks else ""
    return message + "; it was busy for %.2f s" % card.busy_s


def _process(pid: "int", process: "dict[str, Any]") -> "dict[str, Any]":
    times = {"from_s": _rounded(process["from_s"]), "to_s": _rounded(process["to_s"])}
    return dict(times, pid=pid, program=process["program"], memory_peak=process["peak"])


def _greater(known: "Any", seen: "Any") -> "Any":
    return known if seen is None else seen if known is None else max(known, seen)


def _rounded(value: "float | None") -> "float | None":
    return None if value is None else round(value, 3)
