"""Shows GPU messages while a run is followed: place in the queue, assigned GPUs, problems."""

from __future__ import annotations

import json
import sys
import time

from holdfast.present.gpu_receipt import number, objects, process, text, who
from holdfast.present.terminal import human_duration, is_tty, show
from holdfast.runner.gpu import gpu_model
from holdfast.store import history_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from threading import Event, Thread

    from holdfast.cli.show import LogWriter
    from holdfast.model import Json
    from holdfast.present.terminal import Progress

_NUMBERS = ("memory_clock_mhz", "core_clock_mhz", "memory_total", "memory_free", "major", "minor")
_OVER = ("started", "exited", "closed")
_MOST_HELD = 16 * 1024 * 1024
_EVERY_S = 1.0


class GpuNews:
    """The log's first bytes wait here until the cards were shown, as both may arrive in one trip and the log first."""

    def __init__(self, log: LogWriter, progress: Progress, *, facts: bool) -> None:
        self._log = log
        self._facts = facts
        self._queue = Queue(progress)
        self._held: list[bytes] = []
        self._holds = facts

    @property
    def is_waiting(self) -> bool:
        return self._queue.is_shown

    def log(self, block: bytes) -> None:
        if not self._holds:
            self._log.write(block)
            return
        self._held.append(block)
        if sum(map(len, self._held)) > _MOST_HELD:
            self.let_go()

    def let_go(self) -> None:
        """Whatever was held belongs to the person."""
        self._holds = False
        held, self._held = self._held, []
        for block in held:
            self._log.write(block)

    def another_attempt(self) -> None:
        self.let_go()
        self._holds = self._facts

    def stop_waiting(self) -> None:
        self._queue.stop()

    def read(self, lines: Sequence[bytes]) -> None:
        """Complete lines of events. An event that a later line of the same block replaces is not shown."""
        events = [event for line in lines if b'"gpu_' in line or b'"queued"' in line or _ends_wait(line)
                  for event in _event(line)]  # fmt: skip
        last = next((event for event in reversed(events) if event.get("type") in ("queued", "gpu_taken", *_OVER)), None)
        if last is not None and last.get("type") != "queued":
            self._queue.stop()
        for event in events:
            kind = event.get("type")
            if kind == "queued":
                self._queue.see(event, is_last=event is last)
            elif kind in _OVER:
                self.let_go()
            else:
                self._tell(str(kind), event)

    def _tell(self, kind: str, event: Json) -> None:
        if kind == "gpu_facts":
            if self._facts:
                for line in facts_lines(event):
                    self._log.line(show(line))
            return
        describe = _WORDS.get(kind)
        message = describe(event) if describe is not None else ""
        if message:
            sys.stderr.write(
                "".join(f"{head}{show(line)}\n" for head, line in zip(_heads(), message.splitlines(), strict=False))
            )
            sys.stderr.flush()


class Queue:
    """The place in the queue: one line that is redrawn, or in a pipe one line per change."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._at_terminal = is_tty(sys.stderr)
        self._first: Json | None = None
        self._words = ""
        self._told = ""
        self._since = 0.0
        self._thread: Thread | None = None
        self._over: Event | None = None

    @property
    def is_shown(self) -> bool:
        return self._thread is not None

    def see(self, event: Json, *, is_last: bool) -> None:
        if self._first is None:
            self._first = event
            self._since = time.monotonic() - (history_record.length_ns(event, None) or 0) / 1e9
        if not is_last:
            return
        self._words = f"queued: {history_record.queue_words(event)}"
        if self._at_terminal:
            self._start()
        elif self._words != self._told:
            self._told = self._words
            sys.stderr.write(f"{show(self._words)}\n")
            sys.stderr.flush()

    def stop(self) -> None:
        if self._thread is None or self._over is None:
            return
        self._over.set()
        self._thread.join()
        self._thread = None
        self._progress.clear()

    def line(self) -> str:
        return f"{self._words}; waiting {human_duration(time.monotonic() - self._since)}"

    def _start(self) -> None:
        """A thread redraws the line, because no event marks the passing of time."""
        if self._thread is not None:
            return
        import threading

        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, args=(self._over,), daemon=True)
        self._thread.start()

    def _draw(self, over: Event) -> None:
        while True:
            self._progress.update(self.line())
            if over.wait(_EVERY_S):
                return


def facts_lines(facts: Json) -> list[str]:
    """The GPUs of a run in the format of the original's guide, or why they cannot be shown."""
    lines: list[str] = []
    for gpu in objects(facts.get("gpus")):
        known = {name: number(gpu.get(name)) for name in _NUMBERS}
        names = {name: text(gpu.get(name)) or None for name in ("name", "pci")}
        lines += gpu_model.five_lines({**gpu_model.card(), **known, **names})
        if text(gpu.get("trouble")):
            lines.append(f"problem: {text(gpu.get('trouble'))}")
    if text(facts.get("trouble")):
        lines.append(f"GPU: {text(facts.get('trouble'))}")
    return lines


def _event(line: bytes) -> list[Json]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [event] if isinstance(event, dict) else []


def _ends_wait(line: bytes) -> bool:
    return any(f'"type":"{kind}"'.encode() in line for kind in _OVER)


def _heads() -> Iterator[str]:
    yield "WARNING: "
    while True:
        yield "         "


def _check(event: Json) -> str:
    if event.get("ok") is not False:
        return ""
    why, fix = text(event.get("why")) or "the script cannot use the GPU", text(event.get("fix"))
    return f"{why}\n{fix}" if fix else why


def _stranger(event: Json) -> str:
    return f"another process uses the run's GPU: {who(process(event))}{_after(event)}"


def _xid(event: Json) -> str:
    meaning = text(event.get("meaning"))
    return f"the GPU reports Xid {event.get('xid')}{': ' + meaning if meaning else ''}{_after(event)}"


def _lost(event: Json) -> str:
    return f"a GPU of the run is lost{_after(event)}: {text(event.get('why')) or 'it no longer responds'}"


def _after(event: Json) -> str:
    moment = number(event.get("after_s"))
    return "" if moment is None else f", {human_duration(moment)} after the start"


_WORDS = {"gpu_check": _check, "gpu_stranger": _stranger, "gpu_xid": _xid, "gpu_lost": _lost}
