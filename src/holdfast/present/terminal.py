"""What a terminal can show, and what may be shown on it.

Everything a run printed, and every name it chose, is foreign text: on a terminal it is filtered or escaped, so that
it can colour and redraw its own lines but not retitle the window, switch modes, answer for the keyboard or hide what
was written before it. Into a pipe or a file nothing is filtered and nothing is coloured.
"""

from __future__ import annotations

import codecs
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

DEFAULT_WIDTH = 80
# Letters by their category, and yet nothing is seen of them.
_BLANK = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
# Changes the direction of text, or has no width; joiners are kept, as scripts and emoji need them.
_MISLEADING = (
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f" + _BLANK
)


def is_tty(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # a closed stream is not a terminal
        return False


def use_colour(stream: TextIO) -> bool:
    """Colour only ever goes to a terminal. NO_COLOR turns it off, FORCE_COLOR overrules TERM=dumb."""
    if not is_tty(stream) or os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or os.environ.get("TERM") != "dumb"


def width(stream: TextIO) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def show(text: str) -> str:
    """Foreign one-line text made safe to print: what acts on a terminal or cannot be seen is written as escapes."""
    if _is_plain(text):
        return text
    return "".join(char if char.isprintable() and char not in _BLANK else _escaped(char) for char in text)


def neutralise(text: str) -> str:
    """Text of several lines, our own colours in it, without anything else that acts on a terminal or misleads the eye.

    The last line of defence, below ``show``: every write of ours to a terminal passes it.
    """
    if _is_plain(text.replace("\n", "")):
        return text
    import re

    return re.sub(_ACTING, lambda match: _escaped(match.group()), text)


def _is_plain(text: str) -> bool:
    return text.isprintable() and (text.isascii() or not any(char in text for char in _BLANK))


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode()


def display_width(text: str) -> int:
    """Columns the text takes on a terminal: two for East Asian wide characters, none for combining marks."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def clip(text: str, columns: int) -> str:
    """The text, or as much of it as fits with an ellipsis at the end."""
    if display_width(text) <= columns:
        return text
    while text and display_width(text) > columns - 1:
        text = text[: min(len(text) - 1, columns)]
    return f"{text}…"


def wrap(line: str, columns: int, indent: int) -> list[str]:
    """A line in parts that fit, broken at spaces, the further ones indented. A word that is too wide stays whole."""
    if display_width(line) <= columns:
        return [line]
    lines, current, is_empty = [], line[:indent], True
    for word in line[indent:].split(" "):
        if not is_empty and display_width(f"{current} {word}") > columns:
            lines.append(current.rstrip())
            current, is_empty = " " * indent, True
        current, is_empty = (f"{current}{word}" if is_empty else f"{current} {word}"), False
    return [*lines, current]


def human_bytes(count: float) -> str:
    """1234567 is "1.2 MB": decimal units, as disks and networks are sold."""
    if abs(count) < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if abs(count) < 999.5:
            return f"{count:.1f} {unit}" if abs(count) < 99.95 else f"{count:.0f} {unit}"
    return f"{count / 1000:.1f} PB"


def young_note(count: int, size: int) -> str:
    """That a cleanup keeps things for an hour, since a command may just be using them; empty if there are none."""
    return f"{count} more ({human_bytes(size)}) kept: younger than an hour" if count else ""


def human_duration(seconds: float) -> str:
    """The two largest units that matter: "0.42 s", "12.3 s", "3 min 20 s", "1 h 05 min", "2 d 3 h"."""
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    return f"{hour} h {minute:02} min" if hour else f"{minute} min {second:02} s"


class EscapeFilter:
    """Lets a run's log through to a terminal without giving it the terminal.

    Kept: text, newline, carriage return, tab, backspace, colours, erasing within the line, and the cursor moves that
    progress bars make. Dropped: every other control character and sequence. Characters that turn the direction of text
    round, or cannot be seen, are shown as escapes. Bytes that are not UTF-8 become U+FFFD,
    because two halves of a C1 control left by a dropped sequence would otherwise meet. How the log is cut into chunks
    makes no difference, and no more than one sequence of ``_LONGEST`` characters is ever held back.
    """

    def __init__(self) -> None:
        import re

        # Compiled here, as compiling costs a millisecond and a run followed in a pipe needs no filter.
        self._special = re.compile(_SPECIAL)
        self._string_end = re.compile(_STRING_END)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._in_string = False
        self._coloured = False

    def feed(self, chunk: bytes) -> bytes:
        return self._clean(self._held + self._decoder.decode(chunk)).encode()

    def finish(self) -> bytes:
        """What is still to be written at the end of the log; resets a colour that was left on."""
        rest = self._clean(self._held + self._decoder.decode(b"", final=True))
        return (rest + ("\x1b[0m" if self._coloured else "")).encode()

    def _clean(self, text: str) -> str:
        self._held = ""
        kept = []
        at = 0
        while True:
            if self._in_string:
                end = self._string_end.search(text, at)
                if end is None:
                    break
                self._in_string = False
                at = end.end()
            match = self._special.search(text, at)
            if match is None:
                kept.append(text[at:])
                break
            kept.append(text[at : match.start()])
            at = match.end()
            if match.lastgroup == "keep":
                kept.append(match.group())
                if text[at - 1] == "m":
                    self._coloured = match.group() not in ("\x1b[m", "\x1b[0m")
            elif match.lastgroup == "misleading":
                kept.append(_escaped(match.group()))
            elif match.lastgroup == "string":
                self._in_string = True
            elif match.lastgroup == "unfinished":
                self._held = match.group()
        return "".join(kept)


_LONGEST = 64
_CSI = rf"\x1b\[[0-?]{{0,{_LONGEST - 19}}}[ -/]{{0,16}}"
_SPECIAL = (
    r"(?P<keep>\x1b\[[0-9;:]{0,45}[ABCDGKm])"
    rf"|{_CSI}[@-~]"
    r"|(?P<string>\x1b[PX\]^_])"
    rf"|(?P<unfinished>(?:{_CSI}|\x1b[ -/]{{0,16}})\Z)"
    r"|\x1b[ -/]{0,16}[0-Z\\`-~]"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    rf"|(?P<misleading>[{_MISLEADING}])"
)
_ACTING = rf"\x1b(?!\[[0-9;]*[AJKm])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f{_MISLEADING}]"
# A newline ends a string although terminals would read on: a line of a log must not be able to hide the next one.
_STRING_END = r"[\x07\x18\x1a\x9c]|(?=[\x1b\n])"


class Progress:
    """One line on stderr that says what is going on, once that takes longer than a second. Never in a pipe."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._next = clock() + 1.0
        self._visible = False
        self._wanted = is_tty(stream) and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def update(self, text: str) -> None:
        now = self._clock()
        if not self._wanted or now < self._next:
            return
        self._next = now + 0.1
        self._visible = True
        self._stream.write(f"\r\x1b[K{clip(show(text), width(self._stream) - 1)}")
        self._stream.flush()

    def clear(self) -> None:
        if self._visible:
            self._visible = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()
