"""Watching a run: what grew on the target comes into the mirror, and the caller is told."""

from __future__ import annotations

import os

from holdfast.store import ingest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.engine.channel import RunnerChannel
    from holdfast.store.home import Home


def follow(
    home: Home,
    channel: RunnerChannel,
    uid: str,
    on_log: Callable[[bytes], None],
    *,
    wait: bool = True,
    skip: int = 0,
    on_event: Callable[[bytes], None] | None = None,
) -> str:
    """Bring over all there is, then all that comes, until the run is closed or gone.

    ``on_log`` gets the log's bytes, from byte ``skip`` on, and ``on_event`` those of the events.
    """
    shared = channel.hello()["store"] == home.id
    tail = Tail(home.run(uid, "a1", "log"), skip)
    events = Tail(home.run(uid, "a1", "events.jsonl"))
    have = {} if shared else ingest.lengths(home, uid)
    for line in tail.new():
        on_log(line)
    state = "alive"
    for header, payload in channel.stream("pull", uid=uid, attempt="a1", have=have, carry=not shared, wait=wait):
        if header.get("file"):
            ingest.append(home, uid, header, payload)
        for line in events.new() if on_event is not None else ():
            on_event(line)  # type: ignore[misc]
        for line in tail.new():
            on_log(line)
        state = str(header.get("state", state))
    return state


class Tail:
    """The bytes of a growing file that have not been seen yet, in pieces that fit in memory."""

    def __init__(self, path: str, skip: int = 0) -> None:
        self._path = path
        self._skip = skip
        self._fd = -1

    def new(self) -> Iterator[bytes]:
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY)
            except FileNotFoundError:
                return
            os.lseek(self._fd, self._skip, os.SEEK_SET)
        while True:
            block = os.read(self._fd, 1024 * 1024)
            if not block:
                return
            yield block
