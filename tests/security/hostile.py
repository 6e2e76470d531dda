"""A target that lies: it speaks the protocol and sends whatever it likes."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from typing import TYPE_CHECKING

from holdfast.engine.connection.channel import RunnerChannel
from holdfast.ports import Stream
from holdfast.runner import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.errors import HoldfastError
    from holdfast.model import Json

    Answers = Callable[[Json], Iterator[bytes]]


def handshake_of(argv: tuple[str, ...]) -> Json:
    """What the client asks of the first program on a target: ``home``, ``runner``, ``nonce`` and ``size``."""
    return dict(zip(("home", "runner", "nonce", "size"), base64.b64decode(argv[-1]).decode().split("\0"), strict=True))


class HostileHost:
    """Where the command goes that should be our runner. ``answers`` gives the bytes that come back for a request."""

    def __init__(self, answers: Answers, hello: Json | None = None) -> None:
        self._answers = answers
        self._more = hello or {}

    def run(self, argv: tuple[str, ...]) -> Stream:
        asked = handshake_of(argv)
        heard, stdin = os.pipe()
        stdout, says = os.pipe()
        stderr, complains = os.pipe()
        threading.Thread(target=self._speak, args=(asked, heard, says, complains), daemon=True).start()
        # A process of its own, for the client ends what does not answer it.
        return Stream(os.posix_spawn("/bin/true", ["true"], {}), stdin, stdout, stderr)

    def close(self) -> None:
        """It holds nothing."""

    def at_terminal(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return argv

    def reach_port(self, port: int) -> Stream | None:
        return None

    def sever(self) -> None:
        """It holds nothing."""

    def meaning(self, complaint: str, status: int | None = None) -> HoldfastError | None:
        return None

    def reached(self) -> tuple[str, str]:
        return "the target did not answer", ""

    @property
    def asks_person(self) -> bool:
        return False

    def _speak(self, asked: Json, heard: int, says: int, complains: int) -> None:
        reader = wire.FrameReader(heard)
        try:
            hello = {"protocol": wire.PROTOCOL, "store": "f" * 32, "boot_id": "b", "host": "evil", "python": "3"}
            hello = {**hello, **self._more}
            wire.write_all(says, f"{asked['nonce']} ready\n".encode() + wire.pack({"hello": hello}))
            while True:
                header, _ = reader.frame()
                for data in self._answers(header):
                    wire.write_all(says, data)
        except (wire.Closed, wire.BadFrame, OSError):
            pass
        finally:
            for fd in (heard, says, complains):
                os.close(fd)


def channel(answers: Answers, hello: Json | None = None) -> RunnerChannel:
    """``hello``: fields of the first answer that differ from an honest one."""
    return RunnerChannel(HostileHost(answers, hello), "python3", None, "evil")


def piece(request: Json, name: object, data: bytes, **more: object) -> bytes:
    """A frame of a pull that is right in everything but what the caller wants wrong."""
    header = {"re": request["id"], "file": name, "offset": 0, "sha256": hashlib.sha256(data).hexdigest(), **more}
    return wire.pack(header, data)


def end(request: Json, **fields: object) -> bytes:
    return wire.pack({"re": request["id"], "end": True, **fields})
