"""News for open pages as one stream of server-sent events: which runs and logs have grown.

An event says what changed and how long a file is, never what is in it: a page fetches from where it stopped, so a
stream that breaks loses nothing and shows nothing twice. While no page listens, nothing is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from typing import TYPE_CHECKING

from holdfast import lifecycle
from holdfast.engine.connection.reconnect import Line
from holdfast.engine.runs.open_index import settle_in
from holdfast.engine.runs.run_target import target_of
from holdfast.engine.runs.watch import Watch
from holdfast.ledger import Stopwatch, now_ns
from holdfast.runner.store import layout
from holdfast.store import runs
from holdfast.web.live_gpus import GpuFollower

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


class Live:
    """One watcher for all pages; a page names what it shows: ``runs``, ``log:UID`` or ``gpus:PROJECT:TARGET``."""

    def __init__(self, home: Home, history: History) -> None:
        self._home = home
        self._history = history
        self._queues: dict[asyncio.Queue[Json], frozenset[str]] = {}
        self._followers: dict[str, _LogFollower] = {}
        self._machines: dict[str, GpuFollower] = {}
        self.computes: dict[str, ComputeTarget] = {}  # of the topics that are GPUs
        self._task: asyncio.Task[None] | None = None

    async def stream(self, topics: frozenset[str], is_stopping: Callable[[], bool]) -> AsyncIterator[str]:
        queue: asyncio.Queue[Json] = asyncio.Queue(1000)
        self._queues[queue] = topics
        self._adjust()
        try:
            yield f"data: {json.dumps({'topic': 'hello', 'version': self._history.version})}\n\n"
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
            if topic in topics:
                with contextlib.suppress(asyncio.QueueFull):  # a page that slept asks for everything anyway
                    queue.put_nowait({"topic": topic, **news})

    def _adjust(self) -> None:
        """Start and end what watches, by what pages show now."""
        topics = {topic for wanted in self._queues.values() for topic in wanted}
        logs = {topic.removeprefix("log:") for topic in topics if topic.startswith("log:")}
        for uid in self._followers.keys() - logs:
            self._followers.pop(uid).stop()
        for uid in logs - self._followers.keys():
            if runs.is_uid(uid) and os.path.isdir(self._home.run(uid)):
                self._followers[uid] = _LogFollower(self._home, uid, self.tell)
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


class _LogFollower:
    """Follows one run on its target in a thread, however many pages show its log."""

    def __init__(self, home: Home, uid: str, tell: Callable[..., None]) -> None:
        self._home = home
        self._uid = uid
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False
        self._line: Line | None = None
        run = runs.read(home, uid)
        if lifecycle.state_of(run.events) not in lifecycle.FINAL:
            threading.Thread(target=self._follow, daemon=True, name=f"log-{uid[:6]}").start()

    def stop(self) -> None:
        self._is_stopped = True
        if self._line is not None:
            self._line.close()

    def _follow(self) -> None:
        with contextlib.suppress(Exception):  # a target that cannot be reached: the page keeps what it has
            target = target_of(runs.read(self._home, self._uid).request, self._home.path)
            self._line = Line(self._home, target, lambda _error: None, lambda: None)
            watch = Watch(self._home, self._line, self._uid, self, Stopwatch(now_ns()))
            for _ in watch.steps():
                if self._is_stopped:
                    return
        self._news(ended=True)

    def write(self, _block: bytes) -> None:
        self._news(ended=False)

    def read(self, _block: bytes) -> None:
        self._news(ended=False)

    def progress(self, _text: str) -> None:
        """Shown by terminals only."""

    def another_attempt(self, _reason: str) -> None:
        self._news(ended=False)

    def cut(self, _file: str) -> None:
        """The page shows the log as it is stored."""

    def _news(self, *, ended: bool) -> None:
        path = self._home.run(self._uid)
        attempt = runs.last_attempt(path)
        try:
            size = os.path.getsize(layout.log(layout.attempt(path, attempt)))
        except OSError:
            size = 0
        with contextlib.suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._send, attempt, size, ended)

    def _send(self, attempt: int, size: int, ended: bool) -> None:
        self._tell(f"log:{self._uid}", attempt=attempt, size=size, ended=ended)
