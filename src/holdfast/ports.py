"""The three ports: host (where commands run), launcher (starts the runner), runtime (the script's command line)."""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Protocol

    from holdfast.errors import HoldfastError
    from holdfast.model import Json
else:
    Protocol = object  # ports are for the type checker only


PYTHON = "{python}"


class Stream(Record):
    """A command that runs somewhere: write to stdin, read stdout; stderr is for when it goes wrong."""

    pid: int
    stdin: int
    stdout: int
    stderr: int


class Host(Protocol):
    """Where commands go.

    A new host must bring ``run`` and, for ``holdfast ssh``, ``at_terminal``; everything else has an answer in
    ``PlainHost`` that is right for a host without a connection. Files and questions go over the one command that
    ``run`` starts, as verbs of the runner: a host never copies files.

    ``run``: start argv there, with pipes to its stdin, stdout and stderr. Called when the engine needs a runner, as a
    rule once per command that a person types. The arguments must arrive unchanged, whatever bytes they hold; the
    command has a process group of its own; closing its stdin must reach it, and killing ``Stream.pid`` must end it.
    ``close``: the command is over; called once.
    ``meaning``: what the output and exit status (None: not known) of a command that ended without an answer say about
    the connection or the login; None where they say nothing. An ``UnreachableError`` is retried, as often as its
    ``retry_limit`` says; without one the command is taken to have failed, and is tried three times.
    ``reached``: nothing came in time: how far the connection got, and what to try.
    ``asks_person``: a person may have to type a password, so that more time is given and targets are not asked at once.
    ``at_terminal``: for ``holdfast ssh``: the arguments of a command that runs argv there at this terminal.
    ``reach_port``: for ``holdfast forward``: a stream to a port of the machine's own loopback; None where that is ours.
    ``sever``: end what ``close`` leaves open for the next command, because rights there have changed.

    A host is made from a ``Login``: the target's name and address, and its keys for SSH.
    """

    def run(self, argv: tuple[str, ...]) -> Stream: ...

    def close(self) -> None: ...

    def meaning(self, complaint: str, status: int | None = None) -> HoldfastError | None: ...

    def reached(self) -> tuple[str, str]: ...

    @property
    def asks_person(self) -> bool: ...

    def at_terminal(self, argv: tuple[str, ...]) -> tuple[str, ...]: ...

    def reach_port(self, port: int) -> Stream | None: ...

    def sever(self) -> None: ...


class PlainHost:
    """All verbs of a host but ``run``, for one that has no connection of its own to manage."""

    def close(self) -> None:
        """Nothing is held open between commands."""

    def meaning(self, complaint: str, status: int | None = None) -> HoldfastError | None:  # noqa: ARG002
        return None

    def reached(self) -> tuple[str, str]:
        return "the runner on the target did not start", "is a disk or network file system of the target hung?"

    @property
    def asks_person(self) -> bool:
        return False

    def at_terminal(self, argv: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002
        from holdfast.errors import UsageError

        raise UsageError("a shell cannot be opened on targets of this type")

    def reach_port(self, port: int) -> Stream | None:  # noqa: ARG002
        return None

    def sever(self) -> None:
        """Nothing is held open between commands."""


class Channel(Protocol):
    """A conversation with the runner on a host: one request at a time, each answered by one or more replies."""

    def ask(self, verb: str, **fields: object) -> Json: ...

    def stream(self, verb: str, **fields: object) -> Iterator[tuple[Json, bytes]]: ...


class Lacking(Exception):
    """The run was not started: the target does not have all files of it, or could not store them."""

    def __init__(self, refused: str) -> None:
        super().__init__(refused)
        self.refused = refused


class Launcher(Protocol):
    """Starts the runner and tells whether it is alive. Stateless: a ticket is a string that any client can use.

    A ticket begins with ``<uid>/<attempt>``; a launcher may add ``/`` and whatever it needs to find its job again. The
    client keeps the ticket and hands it to every other verb. ``<uid>/<attempt>`` alone must do as well: it is what is
    left of a start whose answer was lost. Only a launcher concludes that an attempt lives, or that its machine was
    rebooted.

    It is made from the values of the ``.compute`` file. Later commands about the run make it from those by which its
    machine is reached, and from the keys that the row of the kinds table names in ``settings``.

    ``start`` is called once per attempt and may be called again when its answer was lost; it must then find the first
    start and not make a second. ``secrets`` is for the memory of the runner only (variables, the command at the end).
    With ``request`` in it the run is made known to a store that is not the client's.
    ``look``: queued, alive, gone (it ended without closing the run), closed, absent (never started), or elsewhere
    (another node has it, and nothing can be said from here).
    ``stop`` asks the attempt to end, and returns: asked, ended (by this request), closed (before), elsewhere.
    ``bury`` closes, as lost, an attempt that is gone.
    ``discard`` closes one that was never started, so that no late start can begin it. Both return its state.

    For a batch queue, ``launchers.queue.QueueLauncher`` has all of it and needs three commands.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None: ...

    def start(self, channel: Channel, plan: Json, secrets: Json) -> str: ...

    def look(self, channel: Channel, tickets: list[str]) -> dict[str, str]: ...

    def stop(self, channel: Channel, ticket: str, by: str) -> str: ...

    def bury(self, channel: Channel, ticket: str) -> str: ...

    def discard(self, channel: Channel, ticket: str, reason: str, outcome: str) -> str: ...


class RuntimeParts(Record):
    """All that a runtime may need: the interpreter, the values of the ``.compute`` file, and the parts of the plan.

    ``python`` is the path as the script will see it: of the target, of an environment, or inside the container.
    ``environment``, ``container``, ``gpu`` and ``spark`` are as the plan has them; None where it has none.
    """

    python: str
    settings: Mapping[str, object] = {}
    environment: Json | None = None
    container: Json | None = None
    gpu: Json | None = None
    spark: Json | None = None


class Runtime(Protocol):
    """What the script's command line looks like. Pure: made from ``RuntimeParts``, asked once, reads nothing.

    ``argv``: of a Python script. ``command``: of anything else; ``PYTHON`` as its first word is the interpreter.
    """

    def __init__(self, parts: RuntimeParts) -> None: ...

    def argv(self, script: str, arguments: tuple[str, ...]) -> tuple[str, ...]: ...

    def command(self, argv: tuple[str, ...]) -> tuple[str, ...]: ...
