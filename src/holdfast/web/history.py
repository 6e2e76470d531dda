"""The index for all pages: one connection in a thread of its own, opened again when runs have changed."""

from __future__ import annotations

import asyncio
import os
from array import array
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from holdfast.errors import UsageError
from holdfast.runner.store import layout
from holdfast.store import runs
from holdfast.store.index import select
from holdfast.store.index.index import Index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.index.select import Wish
    from holdfast.store.runs import Run

    Answer = TypeVar("Answer")

_KEPT_ORDERS = 8
_Mark = tuple[int, int, int]  # of a file: inode, size, time


class Window(NamedTuple):
    """Some rows of a selection: ``total`` is the number of all runs that match."""

    total: int
    uids: list[str]
    rows: list[Json]


class History:
    def __init__(self, home: Home) -> None:
        self._home = home
        self._thread = ThreadPoolExecutor(1, "index")
        self._index: Index | None = None
        self._state: dict[str, _Mark] | None = None
        self._open: list[str] = []
        self._orders: OrderedDict[Wish, array[int]] = OrderedDict()
        self.version = 0  # grows whenever runs were read again

    async def ask(self, question: Callable[[Index], Answer]) -> Answer:
        """The answer of a function that gets the index, as current as the run folders are."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    async def window(self, selection: Wish, first: int, count: int) -> Window:
        return await self.ask(lambda index: self._window(index, selection, first, count))

    async def cells(self, selection: Wish, most: int) -> tuple[Window, list[list[object]]]:
        """The first runs of a selection, and column by column what is asked of them."""

        def read(index: Index) -> tuple[Window, list[list[object]]]:
            order = self._order(index, selection)
            chosen = order[:most]
            return Window(len(order), select.uids_of(index, chosen), []), select.cells_of(index, selection, chosen)

        return await self.ask(read)

    async def run(self, uid: str) -> Run:
        """The run of this uid, from its folder."""
        if not runs.is_uid(uid) or not os.path.isdir(self._home.run(uid)):
            raise UsageError(f"no such run: {uid!r}", where=self._home.path)
        return await asyncio.get_running_loop().run_in_executor(None, runs.read, self._home, uid)

    async def has_changed(self) -> bool:
        """Look at the run folders; for the live stream, which asks every second."""
        before = self.version
        await self.ask(lambda _index: None)
        return self.version != before

    async def reread(self, uids: list[str]) -> None:
        """Read these runs again: labels of an ended run change no file that is looked at."""
        await self.ask(lambda index: index.refresh(uids))
        self._state = None

    def close(self) -> None:
        self._thread.submit(self._close).result()
        self._thread.shutdown()

    def _close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def _answer(self, question: Callable[[Index], Answer]) -> Answer:
        if self._index is None or self._look() != self._state:
            return question(self._read())
        return question(self._index)

    def _read(self) -> Index:
        """Marks are taken before what they stand for is read: a change between the two is read the next time."""
        self._close()
        self._index = index = Index(self._home)
        known: list[str] | None = None
        while known is None or not set(self._open) <= set(known):
            known, before = self._open, self._look()
            index.read_changed()
            self._open = index.open_runs()
        now = self._look()
        before[self._home.index_file] = now[self._home.index_file]  # our own reading wrote it
        self._state = {path: before[path] for path in now}
        self._orders.clear()
        self.version += 1
        return index

    def _look(self) -> dict[str, _Mark]:
        """What changes when a run was added, went on, or was changed by another command."""
        files = [self._home.runs, self._home.index_file]
        for uid in self._open:
            path = self._home.run(uid)
            attempt = layout.attempt(path, runs.last_attempt(path))
            files += [layout.events(attempt), layout.client(path), layout.metrics(attempt)]
        return {path: _mark(path) for path in files}

    def _window(self, index: Index, selection: Wish, first: int, count: int) -> Window:
        order = self._order(index, selection)
        chosen: Sequence[int] = order[max(0, first) : max(0, first) + count]
        rows, _ = select.rows_of(index, selection, chosen)
        return Window(len(order), select.uids_of(index, chosen), rows)

    def _order(self, index: Index, selection: Wish) -> array[int]:
        key = selection._replace(columns=None)
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = array("q", select.numbers(index, selection))
            while len(self._orders) > _KEPT_ORDERS:
                self._orders.popitem(last=False)
        return order


def _mark(path: str) -> _Mark:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns
