"""The GPUs of a target while a page shows them: one connection for each target, however many pages look at it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

from holdfast import target_lookup
from holdfast.engine.connection.channel import ASKING, connect
from holdfast.engine.machines.gpus import Looker
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.store.home import Home

_EVERY_S = 2.0


class GpuFollower:
    """Looks every two seconds in a thread. A target that stops answering is told once, with its error."""

    def __init__(self, home: Home, topic: str, compute: ComputeTarget, tell: Callable[..., None]) -> None:
        self._home = home
        self._topic = topic
        self._compute = compute
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        threading.Thread(target=self._follow, daemon=True, name=f"gpus-{compute.name}"[:15]).start()

    def stop(self) -> None:
        self._stopped.set()

    def _follow(self) -> None:
        looker = Looker(self._home)
        try:
            channel = connect(self._home, target_lookup.resolve(self._compute, self._home.path), ASKING)
            try:
                while not self._stopped.is_set():
                    self._news(machine=looker.look(channel).as_json())
                    self._stopped.wait(_EVERY_S)
            finally:
                channel.close()
        except HoldfastError as error:
            self._news(problem=str(error))

    def _news(self, **fields: object) -> None:
        with contextlib.suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(lambda: self._tell(self._topic, **fields))
