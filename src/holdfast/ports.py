"""The three ports: host (where commands go), launcher (who starts our runner), runtime (the script's command line)."""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from holdfast.model import Json, Plan
else:
    Protocol = object  # ports are for the type checker; at run time nobody asks


class Stream(Record):
    """A command that runs somewhere: write to stdin, read stdout; stderr is for when it goes wrong."""

    pid: int
    stdin: int
    stdout: int
    stderr: int


class Host(Protocol):
    """Where commands go.

    ``run`` is called by the engine when it needs a runner there, at most once per command a person types; the words
    of argv arrive as they are, whatever characters they hold. ``close`` is called once, when the command is over.
    """

    def run(self, argv: tuple[str, ...]) -> Stream: ...

    def close(self) -> None: ...


class Channel(Protocol):
    """A conversation with the runner on a host: one request at a time, each answered by one or more replies."""

    def ask(self, verb: str, **fields: object) -> Json: ...

    def stream(self, verb: str, **fields: object) -> Iterator[tuple[Json, bytes]]: ...


class Launcher(Protocol):
    """Who starts the runner and can say whether it lives. Stateless: a ticket is a string that any client can use.

    ``start`` is called once per attempt and may be called again when its answer was lost; it must then find the first
    start and not make a second. ``look`` answers queued, alive, gone, closed or absent. ``stop`` asks and returns.
    """

    def start(self, channel: Channel, plan: Plan, secrets: Json) -> str: ...

    def look(self, channel: Channel, tickets: list[str]) -> dict[str, str]: ...

    def stop(self, channel: Channel, ticket: str, by: str) -> str: ...


class Runtime(Protocol):
    """What the script's command line looks like. Pure: words in, words out."""

    def argv(self, script: str, arguments: tuple[str, ...]) -> tuple[str, ...]: ...
