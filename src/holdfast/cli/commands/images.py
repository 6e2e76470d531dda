"""``holdfast image ...``: images of a target's container engine, and how they get there without a registry"""

from __future__ import annotations

import os
import sys

from holdfast import image_names as names
from holdfast import target_lookup
from holdfast.amlconfig.types import ComputeTarget
from holdfast.cli.confirm import ConnectedTarget
from holdfast.engine.connection.channel import connect
from holdfast.engine.transfer import image_transfer
from holdfast.errors import UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import Progress, human_bytes, is_tty, show
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parse import Parsed
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.store.home import Home

HERE = "this machine"


def list_images(parsed: Parsed) -> int:
    with ConnectedTarget(parsed) as there:
        rows = image_transfer.listed(there.channel, there.engine, there.name)
    chosen_format = parsed.text("output") or parsed.text("query")
    if not chosen_format and is_tty(sys.stdout):
        for row in rows:
            row.update(id=str(row["id"])[:12], size=human_bytes(int(str(row["bytes"]))))
        emit(rows, columns=("name", "id", "size", "brought"), capitals=parsed.compatible)
        return 0
    emit(rows, **parsed.form(), columns=("name", "id", "bytes", "brought"))
    return 0


def import_image(parsed: Parsed) -> int:
    """From a file, stdin, or the engine of this machine; the last line is the name to write as baseDockerImage."""
    word = parsed.text("source") or ""
    with _Source(word) as source, ConnectedTarget(parsed) as there, Progress(sys.stderr) as progress:

        def tell(sent: int) -> None:
            progress.update(_progress(f"to {there.name}", sent, source.size))

        image_names = image_transfer.send(there.channel, there.engine, there.name, source.pieces(), tell)
    for name in image_names:
        sys.stdout.write(f"{show(name)}\n")
    return 0


def export_image(parsed: Parsed) -> int:
    name, path = parsed.text("name") or "", parsed.text("file") or ""
    _check_name(name)
    if os.path.isdir(path):
        raise UsageError("this is a folder; give a file to write", where=path)
    if path != "-" and os.path.lexists(path) and not parsed.flag("force"):
        raise UsageError("this file already exists", where=path, hint="--force replaces it")
    if path == "-" and is_tty(sys.stdout):
        raise UsageError("refusing to write an archive to a terminal", hint="give a file, or use a pipe")
    with ConnectedTarget(parsed) as there, Progress(sys.stderr) as progress:

        def tell(came: int, size: int) -> None:
            progress.update(_progress(f"from {there.name}", came, size))

        pieces = image_transfer.fetch(there.channel, there.engine, there.name, name, tell)
        total = _pour(pieces) if path == "-" else image_transfer.write(path, pieces)
    sys.stderr.write(f"{show(name)}: {human_bytes(total)}\n")
    return 0


class _Source:
    """Where an archive comes from. What is named must be there before anything is begun."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._channel: RunnerChannel | None = None
        self._fd = 0
        self.size = 0

    def __enter__(self) -> _Source:
        if self._word == "-":
            if is_tty(sys.stdin):
                raise UsageError("stdin is a terminal", hint="docker save NAME | holdfast image import -c TARGET -")
        elif os.path.isfile(self._word):
            self._fd = os.open(self._word, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            self.size = os.fstat(self._fd).st_size
        elif self._word.startswith((".", "/", "~")) or self._word.endswith((".tar", ".tgz", ".gz")):
            raise UsageError("no such file", where=self._word)
        else:
            _check_name(self._word)
            self._channel = _engine_here(open_home())
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd:
            os.close(self._fd)
        if self._channel is not None:
            self._channel.close()

    def pieces(self) -> Iterator[bytes]:
        if self._channel is None:
            return image_transfer.read(self._fd)
        return image_transfer.fetch(self._channel, None, HERE, self._word, self._learn)

    def _learn(self, _came: int, size: int) -> None:
        self.size = size


def _engine_here(home: Home) -> RunnerChannel:
    return connect(home, target_lookup.resolve(ComputeTarget(name=HERE, type="local"), home.path))


def _check_name(name: str) -> None:
    complaint, hint = names.complaint(name)
    if complaint or name.startswith(names.ROOTFS):
        raise UsageError(
            complaint or "a folder is not an image", where=name, hint=hint or "give an image, for example python:3.11"
        )


def _progress(direction: str, done: int, size: int) -> str:
    of = f" of about {human_bytes(size)}" if size else ""
    return f"{direction}: {human_bytes(done)}{of}"


def _pour(pieces: Iterator[bytes]) -> int:
    total = 0
    for piece in pieces:
        total += sys.stdout.buffer.write(piece)
    sys.stdout.flush()
    return total
