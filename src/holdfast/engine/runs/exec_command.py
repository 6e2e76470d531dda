"""The client side of ``holdfast exec``: stdin, stdout, stderr and exit code of a command beside a run."""

from __future__ import annotations

import os
import threading

from holdfast import answers
from holdfast.errors import HoldfastError, UnreachableError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.store.runs import Run

BLOCK = 64 * 1024
UNDERWAY = 1024 * 1024  # of input that the command has not taken yet
BEAT_S = 5.0
PATIENCE_S = 120.0
_FINISH_S = 2.0  # for what is being sent when the command has ended


def execute(
    channel: RunnerChannel,
    run: Run,
    argv: tuple[str, ...],
    stdin: int | None,
    write: Callable[[int, bytes], None],
) -> int:
    """Run it to its end. ``write`` gets what it says, with 1 or 2 for the stream; ``stdin``, if any, is handed on."""
    speaker = _Speaker(channel, stdin)
    parameters = {"uid": run.uid, "attempt": run.attempt_name, "argv": list(argv), "input": stdin is not None}
    try:
        for header, payload in channel.stream("exec", patience=PATIENCE_S, **parameters):
            if header.get("refused"):
                what = f"{run.request.get('run_id')} is not running there"
                raise UsageError(what, answer=answers.text(header, "refused"), code=answers.error_code(header))
            if "began" in header:
                speaker.begin()
            stream, taken, code = header.get("stream"), header.get("taken"), header.get("code")
            if stream is not None:
                write(_stream(stream), payload)
            if taken is not None:
                speaker.make_room(answers.number(header, "taken"))
            if header.get("end") or code is not None:
                return answers.number(header, "code") & 255
    except UnreachableError as error:
        if not speaker.has_begun:
            raise
        what = "the connection was lost, which ends the command there"
        raise UnreachableError(what, where=error.where, answer=error.answer or error.what) from error
    finally:
        speaker.stop()
    raise UnreachableError("the exit status of the command was not received", where=str(run.request.get("target")))


def _stream(value: object) -> int:
    if type(value) is not int or value not in (1, 2):
        raise answers.malformed("stream", value, "1 or 2")
    return value


class _Speaker:
    """Hands our input on, never more than the other side can hold, and says now and then that we are still there."""

    def __init__(self, channel: RunnerChannel, stdin: int | None) -> None:
        self._channel = channel
        self._stdin = stdin
        self._speaking = threading.Lock()
        self._room = threading.Condition()
        self._underway = 0
        self._over = threading.Event()
        self.has_begun = False

    def begin(self) -> None:
        self.has_begun = True
        for act in (self._beat, self._hand_on):
            threading.Thread(target=act, daemon=True).start()

    def make_room(self, taken: int) -> None:
        with self._room:
            self._underway -= taken
            self._room.notify()

    def stop(self) -> None:
        """Nothing is sent after this: the connection is closed next, and its descriptors may be those of another."""
        self._over.set()
        with self._room:
            self._room.notify_all()
        if not self._speaking.acquire(timeout=_FINISH_S):
            self._channel.stop_waiting()  # the other side takes no input
            if not self._speaking.acquire(timeout=_FINISH_S):
                return
        self._speaking.release()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            self._say(b"")

    def _hand_on(self) -> None:
        if self._stdin is None:
            return
        while block := os.read(self._stdin, BLOCK):
            with self._room:
                self._room.wait_for(lambda: self._underway < UNDERWAY or self._over.is_set())
                self._underway += len(block)
            self._say(block)
        self._say(b"", last=True)

    def _say(self, block: bytes, **fields: object) -> None:
        with self._speaking:
            try:
                if not self._over.is_set():
                    self._channel.send_ahead("input", block, **fields)
            except HoldfastError:
                self._over.set()  # the reading side notices it too, and reports it
