"""Writes files that the user named."""

from __future__ import annotations

import os

from holdfast.errors import UsageError
from holdfast.runner.store.files import UNSYNCED, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.present.drawing.shapes import Picture


def picture_renderer(option: str, path: str) -> Callable[[Picture], bytes]:
    """How the picture that ``option`` names is written: the ending of its file says it."""
    ending = os.path.splitext(path)[1].lower()
    if ending == ".svg":
        from holdfast.present.drawing.svg import render
    elif ending == ".png":
        from holdfast.present.drawing.png import render
    else:
        raise UsageError(f"{option} {path}: the file must be .svg or .png", hint=f"{option} picture.svg")
    return render


def write_file(path: str, data: bytes) -> None:
    """Replace the file in one step, so that a viewer never sees half a picture."""
    try:
        write_whole(path, data, 0o666, UNSYNCED)
    except OSError as error:
        raise UsageError("the file cannot be written", where=path, answer=str(error.strerror)) from error
