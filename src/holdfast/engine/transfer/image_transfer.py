"""Copies images between machines over their existing connections, without a registry.

An archive travels in frames. What is on its way is bounded, and an engine names an image only after it has read all of
its archive, so that a cut leaves nothing behind.
"""

from __future__ import annotations

import os

from holdfast import answers
from holdfast.errors import ConfigError, UnreachableError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json

PIECE = 1024 * 1024
_MOST_ROOM = 64


def listed(channel: RunnerChannel, engine: str | None, where: str) -> list[Json]:
    """One row per image: ``name`` (the first), ``names``, ``id``, ``bytes`` and whether we ``brought`` it."""
    answer = channel.ask("images", engine=engine)
    _raise_failed(answer, where)
    images = answer.get("images")
    rows = [image for image in images if isinstance(image, dict)] if isinstance(images, list) else []
    return sorted((_row(image) for image in rows), key=lambda row: (row["name"] is None, str(row["name"])))


def send(
    channel: RunnerChannel, engine: str | None, where: str, pieces: Iterator[bytes], tell: Callable[[int], None]
) -> list[str]:
    """Load an archive over there; the names of its images. ``tell`` is called with the number of bytes sent."""
    sent, is_over = 0, False
    try:
        for header, _ in channel.stream("load", engine=engine):
            _raise_failed(header, where)
            if header.get("end"):
                return _names(header)
            for _ in range(_room(header)):
                if is_over:
                    break
                piece = next(pieces, b"")
                is_over = not piece
                channel.send_ahead("input", piece, last=is_over)
                sent += len(piece)
                tell(sent)
    except UnreachableError as error:
        what = f"{error.what}; the image was not transferred, and nothing of it was stored"
        raise UnreachableError(what, where=where, answer=error.answer, hint="run the same command again") from error
    raise answers.malformed("end", None, "there", where)


def fetch(
    channel: RunnerChannel, engine: str | None, where: str, name: str, tell: Callable[[int, int], None]
) -> Iterator[bytes]:
    """An image from there as an archive. ``tell`` gets the number of bytes and the approximate total."""
    size = came = 0
    for header, payload in channel.stream("save", engine=engine, image=name):
        _raise_failed(header, where)
        size = _number(header.get("size")) or size
        came += len(payload)
        if header.get("end") and _number(header.get("bytes")) != came:
            raise UnreachableError("the archive arrived incomplete", where=where, hint="run the same command again")
        tell(came, size)
        if payload:
            yield payload


def read(fd: int) -> Iterator[bytes]:
    """An archive that is a file or comes through a pipe."""
    while block := os.read(fd, PIECE):
        yield block


def write(path: str, pieces: Iterator[bytes]) -> int:
    """The file is there whole or not at all; returns its size."""
    from holdfast.runner.store.files import WholeFile

    total = 0
    with WholeFile(path, 0o666) as target:
        for piece in pieces:
            total += target.write(piece)
    return total


def _row(image: Json) -> Json:
    names = image.get("names")
    known = [str(name) for name in names] if isinstance(names, list) else []
    return {
        "name": known[0] if known else None,
        "names": known,
        "id": str(image.get("id")).removeprefix("sha256:"),
        "bytes": _number(image.get("bytes")),
        "brought": image.get("brought"),
    }


def _raise_failed(header: Json, where: str) -> None:
    if header.get("failed") is None:
        return
    failed = answers.table(header, "failed", where)
    code, what, answer, hint = (
        answers.optional_text(failed, name, where) for name in ("code", "what", "answer", "hint")
    )
    kind = UsageError if code == "no-such-image" else ConfigError
    raise kind(what, where=where, answer=answer, hint=hint)


def _names(header: Json) -> list[str]:
    names = header.get("names")
    return [str(name) for name in names] if isinstance(names, list) else []


def _room(header: Json) -> int:
    return min(_MOST_ROOM, _number(header.get("room")))


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63 else 0
