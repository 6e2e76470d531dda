"""Makes many calls in a few threads and yields their results in order."""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_AHEAD = 4  # calls that may be taken from the iterable before their turn, for each thread


class _Call:
    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._is_done = threading.Event()
        self._value: Any = None

    def run(self) -> None:
        try:
            self._value = self._function()
        except Exception as error:
            self._value = error
        self._is_done.set()

    def value(self) -> Any:
        self._is_done.wait()
        return self._value


def in_order(calls: Iterable[Callable[[], Any]], threads: int) -> Iterator[Any]:
    """The value of each call, or the exception that it raised. Calls that have not begun when this is closed do not."""
    waiting: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
    # Daemons: a program that ends does not wait for runs that it no longer wants to see.
    workers = [threading.Thread(target=_work, args=(waiting,), daemon=True) for _ in range(threads)]
    begun: deque[_Call] = deque()
    try:
        for worker in workers:
            worker.start()
        for function in calls:
            begun.append(_Call(function))
            waiting.put(begun[-1])
            if len(begun) >= _AHEAD * threads:
                yield begun.popleft().value()
        while begun:
            yield begun.popleft().value()
    finally:
        while not waiting.empty():
            try:
                waiting.get_nowait()
            except queue.Empty:
                break
        for _ in workers:
            waiting.put(None)


def _work(waiting: queue.SimpleQueue[_Call | None]) -> None:
    while (call := waiting.get()) is not None:
        call.run()
