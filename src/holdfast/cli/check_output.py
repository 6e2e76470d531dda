"""Prints the results of checks, one line each: a mark, the finding, and what to do about a problem."""

from __future__ import annotations

import sys

from holdfast.engine.submit.preflight import FAILED
from holdfast.present.terminal import show, use_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.cli.parse import Parsed
    from holdfast.engine.submit.preflight import Tick

_MARKS = {"ok": ("✓", "+", "32"), "warning": ("!", "!", "33"), "failed": ("✗", "x", "31"), "skipped": ("·", "-", "0")}


def tell(ticks: Iterable[Tick], parsed: Parsed) -> int:
    """Each as it is found out; the exit code is that of the first thing that failed."""
    for_machines = parsed.text("output") is not None or parsed.text("query") is not None
    results = []
    for tick in ticks:
        results.append(tick)
        if not for_machines:
            _print(tick)
    if for_machines:
        from holdfast.present.output import emit

        rows = [{key: value for key, value in tick._asdict().items() if key != "code"} for tick in results]
        emit(rows, **parsed.form(), columns=("name", "state", "found", "fix"))
    return next((tick.code for tick in results if tick.state == FAILED), 0)


def _print(tick: Tick) -> None:
    mark, plain, colour = _MARKS[tick.state]
    if not mark.encode(sys.stdout.encoding or "ascii", "ignore"):
        mark = plain
    if use_colour(sys.stdout):
        mark = f"\x1b[{colour}m{mark}\x1b[0m"
    sys.stdout.write(f"{mark} {tick.name:<9} {show(tick.found)}\n")
    for number, line in enumerate(tick.fix.splitlines()):
        sys.stdout.write(f"{'':<11} {'    ' if number else 'try:'} {show(line)}\n")
    sys.stdout.flush()
