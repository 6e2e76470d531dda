"""What a terminal shows of the bytes that a program prints: lines of coloured text and the place of the cursor.

It only draws. Sequences that ask the terminal something, set its title, write the clipboard or make links are dropped,
and nothing is ever sent back to the program. Control and bidirectional characters are shown as escapes by the page.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"[^\x00-\x1f\x7f-\x9f]+|\x1b\[([0-?]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]+[0-~]|\x1b[0-Z\\`-~]|[\x00-\x1a\x1c-\x1f\x7f-\x9f]"
)
_LONGEST_SEQUENCE = 4096
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_FLAGS = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse"}
_OFF = {22: ("bold", "faint"), 23: ("italic",), 24: ("underline",), 27: ("inverse",)}
_LINES = dict(zip("jklmnqtuvwx", "┘┐┌└┼─├┤┴┬│", strict=True))
_KEPT = 2000  # lines above the screen
MOST_ROWS, MOST_COLUMNS = 200, 400
Piece = tuple[str, str]  # class, text
_Cell = tuple[str, str]  # character, class


class Screen:
    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.above: deque[list[Piece]] = deque(maxlen=_KEPT)
        self.scrolled = 0  # lines that have left the screen at its top
        self.row = self.column = 0
        self.is_cursor_shown = True
        self.has_application_keys = False
        self.has_bracketed_paste = False
        self._cells = [self._blank() for _ in range(rows)]
        self._other: list[list[_Cell]] | None = None  # the main screen while a program uses the alternate one
        self._style: frozenset[str] = frozenset()
        self._class = ""
        self._saved = (0, 0)
        self._top, self._bottom = 0, rows - 1
        self._is_inserting = self._draws_lines = False
        self._pending = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        text = self._pending + self._decoder.decode(data)
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                if text[at] == "\x1b" and len(text) - at < _LONGEST_SEQUENCE:
                    break  # the rest of it comes with the next block
                at += 1
                continue
            at = match.end()
            token = match[0]
            if match[2]:
                self._sequence(match[1], match[2])
            elif token[0] == "\x1b":
                self._escape(token[1:])
            elif token[0] < " " or "\x7f" <= token[0] < "\xa0":
                self._control(token)
            else:
                self._print(token)
        self._pending = text[at:]

    def resize(self, rows: int, columns: int) -> None:
        """Lines that no longer fit are cut, as most terminals do while a program draws again."""
        while len(self._cells) > rows and self.row < len(self._cells) - 1:
            self._cells.pop()
        while len(self._cells) > rows:
            self._leave(self._cells.pop(0))
            self.row -= 1
        self.rows, self.columns = rows, columns
        self._cells = [(line + self._blank())[:columns] for line in self._cells]
        self._cells += [self._blank() for _ in range(rows - len(self._cells))]
        self._other = None if self._other is None else [self._blank() for _ in range(rows)]
        self._top, self._bottom = 0, rows - 1
        self._go(self.row, self.column)

    def lines(self) -> list[list[Piece]]:
        return [_pieces(line) for line in self._cells]

    def letters_before_cursor(self) -> int:
        """Of the cursor's line; a wide letter takes two columns."""
        return sum(bool(letter) for letter, _ in self._cells[self.row][: min(self.column, self.columns - 1)])

    def _print(self, text: str) -> None:
        for letter in text:
            self._put(_LINES.get(letter, letter) if self._draws_lines else letter)

    def _put(self, letter: str) -> None:
        line = self._cells[self.row]
        if combining(letter) or letter in "\u200d\ufe0f":
            before = max(0, min(self.column, self.columns) - 1)
            if len(line[before][0]) < 8:
                line[before] = (line[before][0] + letter, line[before][1])
            return
        wide = 2 if east_asian_width(letter) in "WF" else 1
        if self.column + wide > self.columns:  # the last column was written: wrap now
            self.column = 0
            self._down()
            line = self._cells[self.row]
        if self._is_inserting:
            line[self.column : self.column] = [(" ", "")] * wide
            del line[self.columns :]
        line[self.column] = (letter, self._class)
        if wide == 2:
            line[self.column + 1] = ("", self._class)
        self.column += wide

    def _control(self, letter: str) -> None:
        if letter in "\n\x0b\x0c\x84":
            self._down()
        elif letter == "\x85":
            self.column = 0
            self._down()
        elif letter == "\r":
            self.column = 0
        elif letter == "\b":
            self.column = max(0, min(self.column, self.columns - 1) - 1)
        elif letter == "\t":
            self.column = min(self.columns - 1, (self.column // 8 + 1) * 8)
        elif letter in "\x0e\x0f":
            self._draws_lines = letter == "\x0e"

    def _escape(self, text: str) -> None:
        if text == "7":
            self._saved = (self.row, self.column)
        elif text == "8":
            self._go(*self._saved)
        elif text == "D":
            self._down()
        elif text == "E":
            self.column = 0
            self._down()
        elif text == "M":
            self._up()
        elif text == "c":
            self.__init__(self.rows, self.columns)  # type: ignore[misc]
        elif text in ("(0", "(B"):
            self._draws_lines = text == "(0"

    def _sequence(self, text: str, final: str) -> None:
        if text[:1] in "<=>" and text:
            return
        if text[:1] == "?":
            if final in "hl":
                for number in _numbers(text[1:]):
                    self._mode(number, final == "h")
            return
        numbers = _numbers(text)
        first = numbers[0] if numbers else 0
        if final == "m":
            self._colour(numbers or [0])
        elif final in _MOVES:
            _MOVES[final](self, max(1, first), numbers)
        elif final == "J":
            self._erase_screen(first)
        elif final == "K":
            self._erase_line(first)
        elif final in "hl" and first == 4:
            self._is_inserting = final == "h"

    def _mode(self, number: int, is_on: bool) -> None:
        if number == 1:
            self.has_application_keys = is_on
        elif number == 25:
            self.is_cursor_shown = is_on
        elif number == 2004:
            self.has_bracketed_paste = is_on
        elif number in (47, 1047, 1049) and is_on != (self._other is not None):
            if is_on:
                self._saved = (self.row, self.column)
                self._other, self._cells = self._cells, [self._blank() for _ in range(self.rows)]
            else:
                self._cells, self._other = self._other or self._cells, None
                self._go(*self._saved)
            self._top, self._bottom = 0, self.rows - 1

    def _colour(self, numbers: list[int]) -> None:
        style, at = set(self._style), 0
        while at < len(numbers):
            number = numbers[at]
            at += 1
            if number == 0:
                style = set()
            elif number in _FLAGS:
                style.add(_FLAGS[number])
            elif number in _OFF:
                style -= set(_OFF[number])
            elif number in (38, 48):
                name, used = _of_many(numbers[at:])
                at += used
                style = _with_colour(style, "fg" if number == 38 else "bg", name)
            elif number // 10 in (3, 4, 9, 10) and number % 10 < 8:
                style = _with_colour(style, "fg" if number // 10 in (3, 9) else "bg", _COLOURS[number % 10])
            elif number in (39, 49):
                style = _with_colour(style, "fg" if number == 39 else "bg", "")
        self._style = frozenset(style)
        self._class = " ".join(sorted(style))

    def _erase_screen(self, what: int) -> None:
        if what in (0, 1):
            self._erase_line(what)
        rows = range(self.row + 1, self.rows) if what == 0 else range(self.row if what == 1 else self.rows)
        for row in rows:
            self._cells[row] = self._blank()
        if what == 3:
            self.above.clear()

    def _erase_line(self, what: int) -> None:
        line, at = self._cells[self.row], min(self.column, self.columns - 1)
        begin, end = {0: (at, self.columns), 1: (0, at + 1)}.get(what, (0, self.columns))
        line[begin:end] = [(" ", "")] * (end - begin)

    def _region(self, first: int, numbers: list[int]) -> None:
        bottom = numbers[1] if len(numbers) > 1 and numbers[1] else self.rows
        if first < bottom <= self.rows:
            self._top, self._bottom = first - 1, bottom - 1
            self._go(0, 0)

    def _insert_lines(self, count: int, at: int) -> None:
        for _ in range(min(count, self.rows)):
            if self._top <= at <= self._bottom:
                del self._cells[self._bottom]
                self._cells.insert(at, self._blank())

    def _delete_lines(self, count: int, at: int) -> None:
        for _ in range(min(count, self.rows)):
            if self._top <= at <= self._bottom:
                del self._cells[at]
                self._cells.insert(self._bottom, self._blank())

    def _shift(self, count: int, is_insert: bool) -> None:
        line, at = self._cells[self.row], min(self.column, self.columns - 1)
        count = min(count, self.columns - at)
        if is_insert:
            line[at:at] = [(" ", "")] * count
            del line[self.columns :]
        else:
            del line[at : at + count]
            line.extend([(" ", "")] * count)

    def _blank_out(self, count: int) -> None:
        line, at = self._cells[self.row], min(self.column, self.columns - 1)
        end = min(self.columns, at + count)
        line[at:end] = [(" ", "")] * (end - at)

    def _go(self, row: int, column: int) -> None:
        self.row = max(0, min(row, self.rows - 1))
        self.column = max(0, min(column, self.columns - 1))

    def _down(self) -> None:
        if self.row != self._bottom:
            self.row = min(self.row + 1, self.rows - 1)
            return
        line = self._cells.pop(self._top)
        if self._top == 0 and self._other is None:
            self._leave(line)
        self._cells.insert(self._bottom, self._blank())

    def _up(self) -> None:
        if self.row == self._top:
            self._insert_lines(1, self._top)
        else:
            self.row = max(0, self.row - 1)

    def _leave(self, line: list[_Cell]) -> None:
        self.above.append(_pieces(line))
        self.scrolled += 1

    def _blank(self) -> list[_Cell]:
        return [(" ", "")] * self.columns


_MOVES: dict[str, Callable[[Screen, int, list[int]], None]] = {
    "A": lambda screen, count, _: screen._go(screen.row - count, screen.column),
    "B": lambda screen, count, _: screen._go(screen.row + count, screen.column),
    "C": lambda screen, count, _: screen._go(screen.row, screen.column + count),
    "D": lambda screen, count, _: screen._go(screen.row, min(screen.column, screen.columns - 1) - count),
    "E": lambda screen, count, _: screen._go(screen.row + count, 0),
    "F": lambda screen, count, _: screen._go(screen.row - count, 0),
    "G": lambda screen, count, _: screen._go(screen.row, count - 1),
    "`": lambda screen, count, _: screen._go(screen.row, count - 1),
    "d": lambda screen, count, _: screen._go(count - 1, screen.column),
    "H": lambda screen, count, numbers: screen._go(count - 1, (numbers[1] if len(numbers) > 1 else 1) - 1),
    "f": lambda screen, count, numbers: screen._go(count - 1, (numbers[1] if len(numbers) > 1 else 1) - 1),
    "L": lambda screen, count, _: screen._insert_lines(count, screen.row),
    "M": lambda screen, count, _: screen._delete_lines(count, screen.row),
    "S": lambda screen, count, _: screen._delete_lines(count, screen._top),
    "T": lambda screen, count, _: screen._insert_lines(count, screen._top),
    "P": lambda screen, count, _: screen._shift(count, False),
    "@": lambda screen, count, _: screen._shift(count, True),
    "X": lambda screen, count, _: screen._blank_out(count),
    "r": lambda screen, count, numbers: screen._region(count, numbers),
    "s": lambda screen, _count, _: screen._escape("7"),
    "u": lambda screen, _count, _: screen._escape("8"),
}


def _numbers(text: str) -> list[int]:
    parts = text.replace(":", ";").split(";")[:32]
    return [int(part) if part.isascii() and part.isdigit() and len(part) < 6 else 0 for part in parts] if text else []


def _of_many(numbers: list[int]) -> tuple[str, int]:
    """One of the eight colours that is nearest to one of 256, or to red, green and blue; how many numbers it took."""
    if numbers[:1] == [5] and len(numbers) > 1:
        number = numbers[1]
        if number < 16:
            return _COLOURS[number % 8], 2
        if number < 232:
            number -= 16
            return _nearest(number // 36 * 51, number // 6 % 6 * 51, number % 6 * 51), 2
        return _nearest(*[(number - 232) * 10] * 3), 2
    if numbers[:1] == [2] and len(numbers) > 3:
        return _nearest(*numbers[1:4]), 4
    return "", 1


def _nearest(red: int, green: int, blue: int) -> str:
    return _COLOURS[(red > 127) + 2 * (green > 127) + 4 * (blue > 127)]


def _with_colour(style: set[str], kind: str, name: str) -> set[str]:
    kept = {flag for flag in style if not flag.startswith(f"{kind}-")}
    return {*kept, f"{kind}-{name}"} if name else kept


def _pieces(line: list[_Cell]) -> list[Piece]:
    """Neighbours of one class joined; blanks at the end are left out."""
    end = len(line)
    while end and line[end - 1] == (" ", ""):
        end -= 1
    pieces: list[Piece] = []
    for letter, style in line[:end]:
        if pieces and pieces[-1][0] == style:
            pieces[-1] = (style, pieces[-1][1] + letter)
        else:
            pieces.append((style, letter))
    return pieces
