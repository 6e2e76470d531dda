"""News for open pages as one stream of server-sent events: which runs and logs have grown.

An event says what changed and how long a file is; a page fetches from where it stopped, so a stream that breaks loses
nothing and shows nothing twice. While no page listens, nothing is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import TYPE_CHECKING

from holdfast.engine.runs.open_index import settle_in
from holdfast.store import runs
from holdfast.web.live_gpus import GpuFollower
from holdfast.web.live_log import LogFollower

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.index.index import Index
    from holdfast.web.history import History

_LOOK_SECONDS = 1.0
_SETTLE_SECONDS = 20.0
_HEARTBEAT_SECONDS = 15.0
_MOST_WAITING = 1000  # events for one browser


class Live:
    """One watcher for all pages; a page names what it shows: ``runs``, ``log:UID`` or ``gpus:PROJECT:TARGET``."""

    def __init__(self, home: Home, history: History) -> None:
        self._home = home
        self._history = history
        self._queues: dict[asyncio.Queue[Json], frozenset[str]] = {}
        self._followers: dict[str, LogFollower] = {}
        self._machines: dict[str, GpuFollower] = {}
        self.computes: dict[str, ComputeTarget] = {}  # of the topics that are GPUs
        self._task: asyncio.Task[None] | None = None

    async def stream(self, topics: frozenset[str], is_stopping: Callable[[], bool]) -> AsyncIterator[str]:
        queue: asyncio.Queue[Json] = asyncio.Queue(_MOST_WAITING)
        self._queues[queue] = topics
        self._adjust()
        try:
            yield f"retry: 1000\ndata: {json.dumps(self._hello())}\n\n"
            silent = 0.0
            while not is_stopping():
                try:
                    news = await asyncio.wait_for(queue.get(), _LOOK_SECONDS)
                    yield f"data: {json.dumps(news)}\n\n"
                    silent = 0.0
                except asyncio.TimeoutError:
                    silent += _LOOK_SECONDS
                    if silent >= _HEARTBEAT_SECONDS:  # finds out that a page is gone
                        silent = 0.0
                        yield ": still here\n\n"
        finally:
            del self._queues[queue]
            self._adjust()

    def close(self) -> None:
        self._queues.clear()
        self._adjust()

    def tell(self, topic: str, **news: object) -> None:
        for queue, topics in self._queues.items():
            if topic not in topics:
                continue
            if queue.full():  # its browser is suspended: when it wakes up, its pages fetch what they miss
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(self._hello())
            queue.put_nowait({"topic": topic, **news})

    def _hello(self) -> Json:
        """The event upon which pages fetch everything from where they stopped."""
        return {"topic": "hello", "version": self._history.version}

    def _adjust(self) -> None:
        """Start and end what watches, by what pages show now."""
        topics = {topic for wanted in self._queues.values() for topic in wanted}
        logs = {topic.removeprefix("log:") for topic in topics if topic.startswith("log:")}
        for uid in self._followers.keys() - logs:
            self._followers.pop(uid).stop()
        for uid in logs - self._followers.keys():
            if runs.is_uid(uid) and os.path.isdir(self._home.run(uid)):
                self._followers[uid] = LogFollower(self._home, uid, self.tell)
        for topic in self._machines.keys() - topics:
            self._machines.pop(topic).stop()
        for topic in (topics & self.computes.keys()) - self._machines.keys():
            self._machines[topic] = GpuFollower(self._home, topic, self.computes[topic], self.tell)
        if topics and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look())
        elif not topics and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _look(self) -> None:
        since = _SETTLE_SECONDS
        while True:
            if since >= _SETTLE_SECONDS:
                since = 0.0
                with contextlib.suppress(Exception):  # the next look may succeed; pages show how old their data is
                    await asyncio.get_running_loop().run_in_executor(None, self._settle, await self._open_runs())
            if await self._history.has_changed():
                self.tell("runs", version=self._history.version)
            await asyncio.sleep(_LOOK_SECONDS)
            since += _LOOK_SECONDS

    async def _open_runs(self) -> list[str]:
        def listed(index: Index) -> list[str]:
            return index.open_runs()

        return await self._history.ask(listed)

    def _settle(self, uids: list[str]) -> None:
        """Ask the targets of open runs for news, as commands do."""
        if uids:
            from holdfast.store.index.index import Index

            index = Index(self._home)
            try:
                settle_in(self._home, index, uids)
            finally:
                index.close()
