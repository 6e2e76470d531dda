"""Progress of a submit: for a callback, or as a bar in a notebook or on a terminal."""

from __future__ import annotations

import html
import sys
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from holdfast.present import terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WIDTH = 30


class Progress(NamedTuple):
    """One piece of news about a submit.

    ``phase`` is ``starting`` (the machine is switched on), ``storing`` (the project's files), ``sending`` (to the
    target), ``preparing`` (environment or image) or ``calls`` (results of ``map``). ``done`` and ``total`` are seconds,
    bytes, packages or calls; ``total`` is None where it is not known. ``text`` says the same for a person.
    """

    phase: str
    done: float
    total: float | None
    text: str


OnProgress: TypeAlias = "Callable[[Progress], None]"


def listener(progress: OnProgress | bool | None) -> OnProgress | None:
    """What is called with each piece of news; a bar of our own for ``True``."""
    if progress is None or progress is False:
        return None
    return Bar().show if progress is True else progress


class Bar:
    """One line: a progress bar below the cell in a notebook, a line on stderr on a terminal, nothing in a pipe."""

    def __init__(self) -> None:
        self._line = terminal.Progress(sys.stderr)
        self._handle: Any = None
        self._is_notebook = "ipykernel" in sys.modules

    def show(self, progress: Progress) -> None:
        if self._is_notebook:
            self._display(progress)
        elif not progress.text:
            self._line.clear()
        else:
            self._line.update(f"{_drawn(progress)}{progress.text}")

    def _display(self, progress: Progress) -> None:
        from IPython.display import display

        value = "" if progress.total is None else f' value="{progress.done:g}" max="{progress.total:g}"'
        bar = f"<progress{value}></progress> {html.escape(progress.text)}" if progress.text else ""
        bundle = {"text/html": bar, "text/plain": progress.text}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _drawn(progress: Progress) -> str:
    if not progress.total:
        return ""
    filled = int(_WIDTH * min(1.0, progress.done / progress.total))
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] "
