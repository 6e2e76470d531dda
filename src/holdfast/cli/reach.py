"""Opens the connection of a command to its target, and tells the user when it breaks. Imports little."""

from __future__ import annotations

import sys

from holdfast.engine.connection.reconnect import Line
from holdfast.present.terminal import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.errors import UnreachableError
    from holdfast.store.home import Home
    from holdfast.target_lookup import Target


class Notice:
    """Reports that the target is unreachable, since when and why, and when it is back. The run goes on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def lost(self, error: UnreachableError) -> None:
        import time

        since = time.strftime("%H:%M:%S")
        why = f" ({error.answer or error.what})"
        sys.stderr.write(f"{show(self._name)} is unreachable since {since}{show(why)}; runs there continue, retrying\n")
        sys.stderr.flush()

    def back(self) -> None:
        sys.stderr.write(f"{show(self._name)} is reachable again\n")
        sys.stderr.flush()


def open_line(home: Home, target: Target, *, patient: bool = False) -> Line:
    """With ``patient`` it also waits for a target that has not answered yet, because there is a run on it."""
    notice = Notice(target.name)
    return Line(home, target, notice.lost, notice.back, patient=patient, on_quiet=tell_quiet)


def tell_quiet(sentence: str) -> None:
    sys.stderr.write(f"{show(sentence)}\n")
    sys.stderr.flush()
