"""Where a run's time went, on its card: a bar for each part, as long as its share."""

from __future__ import annotations

from holdfast import ledger
from holdfast.present import terminal, terminal_plot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.model import Json

_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEAST_S = 0.0005  # below a millisecond nothing is worth a line
_WORDS = {
    "begin": "holdfast starts and reads the project's settings",
    "snapshot": "the project is read and stored",
    "connect": "waiting for the target",
    "ship": "missing files are sent",
    "environment": "the environment is solved, downloaded and built",
    "queue": "waiting for a GPU",
    "start": "from the request to the start of the script",
    "run": "the script",
    "close": "outputs are collected and hashed",
    "fetch": "results are downloaded and verified",
    "other": "other",
}


def section(recorded: Json | None, stream: TextIO) -> list[str]:
    """Nothing of a run that no part is known of yet."""
    parts, wall = (recorded or {}).get("parts"), (recorded or {}).get("wall_s")
    if not isinstance(parts, dict) or not isinstance(wall, float):
        return []
    lengths = {name: parts.get(name) for name in ledger.PARTS}
    shown = {name: length for name, length in lengths.items() if isinstance(length, float) and length >= _LEAST_S}
    if not shown:
        return []
    whole = "from the command to its end" if (recorded or {}).get("whole") else "as far as measured"
    fancy = terminal_plot.can_draw(stream)
    lines = ["", f"{'time':<11}{_seconds(wall)} {whole}"]
    for name, length in shown.items():
        share = length / wall if wall else 0.0
        cells = f"  {name:<12}{_seconds(length):>10} {share:>5.0%}  {_bar(share, fancy):<{_BAR}}"
        explanation = f"  {_WORDS[name]}" if terminal.width(stream) >= 120 else ""
        lines.append((cells + explanation).rstrip())
    return lines


def _bar(share: float, fancy: bool) -> str:
    eighths = round(min(1.0, share) * _BAR * 8)
    if not fancy:
        return "#" * round(eighths / 8)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def _seconds(length: float) -> str:
    if length < 1:
        return f"{length * 1000:.0f} ms"
    return f"{length:.2f} s" if length < 60 else terminal.human_duration(length)
