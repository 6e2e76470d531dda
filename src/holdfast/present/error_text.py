"""An error as lines: what happened, where, what was answered, what to try."""

from __future__ import annotations

from holdfast.present.terminal import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.errors import HoldfastError


def lines(error: HoldfastError, indent: str = "") -> list[str]:
    """The first line is what happened; the facts follow, indented."""
    shown = [show(error.what)]
    for label, text in (("at: ", error.where), ("answer: ", error.answer), ("try: ", error.hint)):
        for number, line in enumerate(text.splitlines()):
            shown.append(f"{indent}{label if not number else ' ' * len(label)}{show(line)}")
    return shown
