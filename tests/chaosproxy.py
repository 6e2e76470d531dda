"""A TCP proxy that makes a bad line: far away, cut after so many bytes or seconds, stalled; and that counts.

As a program it takes its settings as JSON, says ``{"ready": true}``, and then reads one JSON object per line::

    python chaosproxy.py '{"listen": "127.0.0.1:2222", "to": "10.213.1.1:22", "delay": 0.05}'
    {"set": {"cut_after_bytes": [1000, 90000]}}    {"do": "stall"}    {"do": "go"}    {"do": "cut"}    {"do": "stats"}

Each line is answered by one with the counts so far. It ends with its standard input. ``Proxy`` does all that for tests.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

CHUNK = 1 << 18
BUFFER = 16 << 20  # what may be under way in one direction: more than any line here holds
NEVER = float("inf")


class Settings(NamedTuple):
    """``delay`` holds for bytes that come after it was set, the rest for all connections from now on.

    The two ``cut_after`` are ranges to draw from for each connection, by ``seed``: bytes of both directions together
    (never more than that are passed on), seconds since it was accepted. A cut is a reset for both ends, or with
    ``polite`` an end of file. ``refuse`` cuts new connections at once.
    """

    delay: float = 0.0
    cut_after_bytes: tuple[int, int] | None = None
    cut_after_seconds: tuple[float, float] | None = None
    polite: bool = False
    refuse: bool = False
    seed: int = 0


class Stats(NamedTuple):
    """Counts over all connections. ``open`` is how many there are now.

    ``trips`` is the number of round trips: the longest chain of "a byte left the client after a byte
    had reached it that left the server after …", one more for each connection made. Bytes that cross on the way make no
    trip, however many they are, so this is what a delay is multiplied by.
    """

    connections: int
    open: int
    cuts: int
    trips: int
    bytes_up: int
    bytes_down: int


class Proxy:
    """The proxy as another process, behind ``prefix`` (a client's namespace); settings are those of ``Settings``."""

    def __init__(self, prefix: Sequence[str], listen: str, to: str, **settings: Any) -> None:
        words = json.dumps({"listen": listen, "to": to, **Settings(**settings)._asdict()})
        argv = [*prefix, sys.executable, "-I", "-S", __file__, words]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def set(self, **settings: Any) -> Stats:
        """Change these settings only."""
        return self._ask({"set": settings})

    def stall(self) -> Stats:
        """Pass nothing on and take nothing in, until ``go``. Connections are accepted and hear nothing."""
        return self._ask({"do": "stall"})

    def go(self) -> Stats:
        return self._ask({"do": "go"})

    def cut(self) -> Stats:
        """Cut all connections that are open now."""
        return self._ask({"do": "cut"})

    def stats(self) -> Stats:
        return self._ask({"do": "stats"})

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ask(self, question: dict[str, Any]) -> Stats:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return Stats(**self._answer())

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the proxy ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Line:
    """What all connections share: the settings, the counts, and whether anything moves."""

    def __init__(self, to: tuple[str, int], settings: Settings) -> None:
        self.to = to
        self.settings = settings
        self.chance = random.Random(settings.seed)
        self.moving = asyncio.Event()
        self.moving.set()
        self.connections: set[Connection] = set()
        self.accepted = self.cuts = self.trips = self.bytes_up = self.bytes_down = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        connection = Connection(self, reader, writer)
        if self.settings.refuse:
            connection.cut()
            return
        self.connections.add(connection)
        try:
            await connection.serve()
        finally:
            self.connections.discard(connection)

    def stats(self) -> Stats:
        return Stats(self.accepted, len(self.connections), self.cuts, self.trips, self.bytes_up, self.bytes_down)

    def obey(self, command: dict[str, Any]) -> None:
        changes = command.get("set", {})
        self.settings = self.settings._replace(**changes)
        if "seed" in changes:
            self.chance.seed(changes["seed"])
        if command.get("do") == "stall":
            self.moving.clear()
        elif command.get("do") == "go":
            self.moving.set()
        elif command.get("do") == "cut":
            for connection in tuple(self.connections):
                connection.cut()


class Connection:
    def __init__(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.line = line
        self.client = (reader, writer)
        self.writers = [writer]
        self.up_depth = self.down_depth = 0
        self.is_cut = asyncio.Event()
        drawn = line.settings
        self.bytes_left = line.chance.randint(*drawn.cut_after_bytes) if drawn.cut_after_bytes else NEVER
        self.seconds_left = line.chance.uniform(*drawn.cut_after_seconds) if drawn.cut_after_seconds else NEVER

    async def serve(self) -> None:
        tasks = [asyncio.create_task(self._relay()), asyncio.create_task(self.is_cut.wait())]
        timeout = None if self.seconds_left == NEVER else self.seconds_left
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            self.cut()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self.writers:
            writer.close()

    def cut(self) -> None:
        if not self.is_cut.is_set():
            self.is_cut.set()
            self.line.cuts += 1
            for writer in self.writers:
                _hang_up(writer, self.line.settings.polite)

    async def _relay(self) -> None:
        # A client whose packets take their time is connected after two delays, and the server knows after three.
        await asyncio.sleep(3 * self.line.settings.delay)
        await self.line.moving.wait()
        try:
            server = await asyncio.open_connection(*self.line.to, limit=CHUNK)
        except OSError:
            _hang_up(self.client[1], polite=False)
            return
        self.writers.append(server[1])
        self.line.trips += 1
        # What the client sent meanwhile has waited long enough: it was accepted before it could have been.
        up = Pipe(self, self.client[0], server[1], is_up=True)
        down = Pipe(self, server[0], self.client[1], is_up=False)
        await asyncio.gather(up.run(), down.run())

    def left(self, is_up: bool) -> int:
        """How deep in the chain of waiting a byte is that leaves its end now."""
        return self.down_depth + 1 if is_up else self.up_depth

    def arrived(self, is_up: bool, depth: int, count: int) -> None:
        if is_up:
            self.line.trips += max(0, depth - self.up_depth)
            self.up_depth = max(depth, self.up_depth)
            self.line.bytes_up += count
        else:
            self.down_depth = max(depth, self.down_depth)
            self.line.bytes_down += count


class Pipe:
    """One direction of a connection: every chunk leaves as long after it came as the delay was at that moment."""

    def __init__(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_up: bool
    ) -> None:
        self.connection = connection
        self.reader = reader
        self.writer = writer
        self.is_up = is_up
        self.chunks: deque[tuple[float, int, bytes]] = deque()
        self.held = 0
        self.changed = asyncio.Condition()

    async def run(self) -> None:
        # An end that goes away in its own way is not the line's business: the other hears it as an end of file.
        with suppress(OSError):
            await asyncio.gather(self._take_in(), self._pass_on())

    async def _take_in(self) -> None:
        line = self.connection.line
        chunk = b"?"
        while chunk:
            await line.moving.wait()
            try:
                chunk = await self.reader.read(CHUNK)
            except ConnectionError:
                chunk = b""
            async with self.changed:
                due = time.monotonic() + line.settings.delay
                self.chunks.append((due, self.connection.left(self.is_up), chunk))
                self.held += len(chunk)
                self.changed.notify()
                await self.changed.wait_for(lambda: self.held < BUFFER)

    async def _pass_on(self) -> None:
        connection = self.connection
        while True:
            async with self.changed:
                await self.changed.wait_for(lambda: bool(self.chunks))
                due, depth, chunk = self.chunks.popleft()
                self.held -= len(chunk)
                self.changed.notify()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await connection.line.moving.wait()
            if not chunk:
                self.writer.write_eof()
                return
            allowed = chunk[: int(min(len(chunk), connection.bytes_left))]
            connection.bytes_left -= len(allowed)
            self.writer.write(allowed)
            connection.arrived(self.is_up, depth, len(allowed))
            await self.writer.drain()
            if connection.bytes_left <= 0:
                connection.cut()


def _hang_up(writer: asyncio.StreamWriter, polite: bool) -> None:
    if polite:
        writer.close()
        return
    with suppress(OSError):
        # Lingering for no time at all makes the kernel send a reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _main(words: dict[str, Any]) -> None:
    line = Line(_address(words.pop("to")), Settings())
    listen = _address(words.pop("listen"))
    line.obey({"set": words})
    server = await asyncio.start_server(line.accept, *listen, limit=CHUNK)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print(json.dumps({"ready": True}), flush=True)
    while command := await commands.readline():
        line.obey(json.loads(command))
        print(json.dumps(line.stats()._asdict()), flush=True)
    server.close()
    for connection in tuple(line.connections):
        connection.cut()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
