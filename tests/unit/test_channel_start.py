"""The first exchange with a target that does not have the runner yet."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

from holdfast.engine.connection.channel import RunnerChannel
from holdfast.ports import Stream
from security.hostile import HostileHost, end, handshake_of

if TYPE_CHECKING:
    from holdfast.model import Json


class WithoutRunner(HostileHost):
    """The first command has asked for the runner and ended before anything is written to it."""

    def __init__(self) -> None:
        super().__init__(lambda request: iter([end(request, verb=request["verb"])]))
        self.commands = 0

    def run(self, argv: tuple[str, ...]) -> Stream:
        self.commands += 1
        if self.commands > 1:
            return super().run(argv)
        heard, stdin = os.pipe()
        stdout, says = os.pipe()
        stderr, complains = os.pipe()
        nonce = handshake_of(argv)["nonce"]
        os.write(says, f"{nonce} need\n".encode())
        for descriptor in (heard, says, complains):
            os.close(descriptor)
        return Stream(os.getpid(), stdin, stdout, stderr)

    def _speak(self, asked: Json, heard: int, says: int, complains: int) -> None:
        left = int(str(asked["size"]))
        while left:
            left -= len(os.read(heard, left))
        super()._speak(asked, heard, says, complains)


def test_request_sent_early_survives_that_the_runner_has_to_be_sent_first() -> None:
    host = WithoutRunner()
    talk = RunnerChannel(host, "python3", None, "new")
    talk.foresee("probe")
    assert talk.ask("probe")["verb"] == "probe"
    assert host.commands == 2
    talk.close()


def test_request_sent_early_is_answered_after_another_request_was_asked_first() -> None:
    turns = count()
    talk = RunnerChannel(
        HostileHost(lambda request: iter([end(request, verb=request["verb"], turn=next(turns))])), "python3", None, "t"
    )
    talk.foresee("probe")
    assert talk.ask("facts")["verb"] == "facts"
    assert talk.ask("probe")["verb"] == "probe"
    assert next(turns) == 3  # the first answer to the probe was skipped
    talk.close()
