"""Plays commands at a real terminal and draws what it showed: ``python tools/transcript.py docs/demo.svg``.

With ``--gpu`` it plays a run on the SSH host ``gpu1``, which tools/gpu_proof/box.sh sets up.

The commands run for real, in a folder that is thrown away, each on a pseudo terminal of a fixed size. What is changed
afterwards is only what would tell where the picture was made: the folder becomes ``~``, the machine
``laptop`` and its Python ``/usr/bin/python3``.
"""

from __future__ import annotations

import os
import platform
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

COLUMNS, ROWS = 116, 40
GPU_PROJECT = Path(__file__).resolve().parent / "gpu_proof" / "project"


class Scene(NamedTuple):
    """A line to type, and the lines of its answer to show: from the first on, or all of them."""

    line: str
    shown: int | None = None


SCENES = (
    Scene("holdfast project create --name digits --template digits"),
    Scene("cd digits"),
    Scene("holdfast submit -c local train.py --lr 0.1 --epochs 10"),
    Scene("holdfast submit -c local --no-wait train.py --lr 0.01"),
    Scene("holdfast history list"),
    Scene("holdfast info -r 1", shown=25),
)


GPU_SCENES = (
    Scene("holdfast attach ada@gpu1"),
    Scene("cd mnist"),
    Scene("holdfast submit -c gpu1 --gpus 1 train.py /data/mnist 6"),
    Scene("holdfast runs"),
    Scene("holdfast info -r 1", shown=10),
)


class Style(NamedTuple):
    """How a character looks: a colour's name, or none, and whether it is bold or faint."""

    colour: str = ""
    bold: bool = False
    faint: bool = False


PLAIN = Style()
PROMPT = Style("green", bold=True)
TYPED = Style(bold=True)
Cell = tuple[str, Style]
Line = list[Cell]


def main(argv: list[str]) -> int:
    *option, path = argv or [""]
    if option not in ([], ["--gpu"]) or not path.endswith(".svg"):
        print("usage: python tools/transcript.py [--gpu] FILE.svg", file=sys.stderr)
        return 2
    lines = play(GPU_SCENES, {"mnist/train.py": GPU_PROJECT / "mnist.py"}) if option else play(SCENES)
    Path(path).write_text(draw(lines), encoding="utf-8")
    return 0


def play(scenes: tuple[Scene, ...], files: dict[str, Path] | None = None) -> list[Line]:
    """Every scene's line and answer, as a terminal would hold them, in a folder with copies of ``files``."""
    found: list[Line] = []
    with tempfile.TemporaryDirectory() as place:
        for name, source in (files or {}).items():
            os.makedirs(os.path.dirname(os.path.join(place, name)))
            shutil.copy(source, os.path.join(place, name))
        folder = place
        for scene in scenes:
            found.append([("$", PROMPT), (" ", PLAIN), *((letter, TYPED) for letter in scene.line)])
            words = shlex.split(scene.line)
            if words[0] == "cd":
                folder = os.path.join(folder, words[1])
                continue
            answer = screen(_anonymous(perform(words, folder, place), place))
            found += answer[: scene.shown]
            if scene.shown is not None and len(answer) > scene.shown:
                found.append([("…", Style(faint=True))])
            found.append([])
        perform(["holdfast", "logs", "-f"], folder, place)  # the last run must be over before its folder goes
    return found[:-1]


def perform(words: list[str], folder: str, home: str) -> str:
    """What a command writes to its terminal."""
    ours, theirs = pty.openpty()
    _resize(theirs)
    env = {
        "HOME": home,
        "LANG": "C.UTF-8",
        "PAGER": "cat",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
    }
    process = subprocess.Popen(
        words, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    written = bytearray()
    while block := _read(ours):
        written += block
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"{shlex.join(words)} ended with code {process.returncode}:\n{written.decode()}")
    return written.decode("utf-8")


def screen(text: str) -> list[Line]:
    """The lines a terminal shows for this text: colours kept, carriage return and erasing obeyed, the rest dropped."""
    lines: list[Line] = [[]]
    at, style = 0, PLAIN
    for found in re.finditer(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b.|[^\x1b]", text, re.DOTALL):
        word = found.group()
        if word == "\n":
            lines.append([])
            at = 0
        elif word == "\r":
            at = 0
        elif found[2] == "m":
            style = restyled(style, found[1])
        elif found[2] == "K":
            del lines[-1][at:]
        elif word.isprintable():
            if at == COLUMNS:
                lines.append([])
                at = 0
            lines[-1][at : at + 1] = [(word, style)]
            at += 1
    return lines if lines[-1] else lines[:-1]


def restyled(style: Style, codes: str) -> Style:
    for code in map(int, codes.split(";") if codes else ["0"]):
        if code == 0:
            style = PLAIN
        elif code in (1, 2):
            style = style._replace(bold=code == 1, faint=code == 2)
        elif code == 22:
            style = style._replace(bold=False, faint=False)
        elif code == 39:
            style = style._replace(colour="")
        elif 30 <= code % 60 <= 37:
            style = style._replace(colour=_NAMES[code % 10])
    return style


_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_COLOURS = {
    "": "#d7dae0",
    "black": "#5c6370",
    "red": "#f07178",
    "green": "#9ece6a",
    "yellow": "#e5c07b",
    "blue": "#7aa2f7",
    "magenta": "#c792ea",
    "cyan": "#56c8d8",
    "white": "#ffffff",
}
_CELL, _LEADING, _SIZE, _MARGIN, _BAR = 8.43, 19, 14, 18, 36
_FONTS = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"


def draw(lines: list[Line]) -> str:
    """The lines in a window, as SVG. Text is put at its own columns and charts are drawn, whatever fonts there are."""
    width = round(2 * _MARGIN + COLUMNS * _CELL)
    height = _BAR + len(lines) * _LEADING + _MARGIN
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        "<title>A terminal session with Holdfast</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#1a1b26"/>',
        *(
            f'<circle cx="{20 + 20 * number}" cy="18" r="6" fill="{colour}"/>'
            for number, colour in enumerate(("#f07178", "#e5c07b", "#9ece6a"))
        ),
        f'<g font-family="{_FONTS}" font-size="{_SIZE}" fill="{_COLOURS[""]}">',
    ]
    for number, line in enumerate(lines):
        top = _BAR + number * _LEADING
        body += [_piece(_MARGIN + column * _CELL, top, text, style) for column, text, style in runs(line)]
    return "\n".join([*body, "</g>", "</svg>", ""])


def runs(line: Line) -> list[tuple[int, str, Style]]:
    """Words of one look, with the column they begin at. A character of a chart is never in one piece with letters."""
    found: list[tuple[int, str, Style]] = []
    for column, (letter, style) in enumerate(line):
        column_before, text, style_before = found[-1] if found else (column, "", style)
        is_next = column_before + len(text) == column and style_before == style
        if text and is_next and _is_drawn(text[-1]) == _is_drawn(letter):
            found[-1] = (column_before, text + letter, style)
        else:
            found.append((column, letter, style))
    return [
        (column + piece.start(), piece.group(), style)
        for column, text, style in found
        for piece in re.finditer(r"\S+(?: \S+)*", text)
    ]


def _piece(left: float, top: float, text: str, style: Style) -> str:
    colour = _COLOURS[style.colour]
    if _is_drawn(text):
        path = "".join(_strokes(left + at * _CELL, top, letter) for at, letter in enumerate(text))
        thick = _CELL if text[0] in _BLOCKS else 2 if text[0] in _BRAILLE else 1
        cap = ' stroke-linecap="round"' if text[0] in _BRAILLE else ""
        return f'<path d="{path}" stroke="{colour}" stroke-width="{thick}"{cap}/>'
    look = f' fill="{colour}"' if style.colour else ""
    look += ' font-weight="bold"' if style.bold else ""
    look += ' opacity="0.6"' if style.faint else ""
    x = f"{left:.2f}" if text.isascii() else " ".join(f"{left + at * _CELL:.2f}" for at in range(len(text)))
    look += f' textLength="{len(text) * _CELL:.2f}"' if text.isascii() else ""
    return f'<text x="{x}" y="{top + _SIZE}"{look}>{escape(text)}</text>'


_BLOCKS = "▁▂▃▄▅▆▇█"
_BRAILLE = "".join(map(chr, range(0x2800, 0x2900)))
_BRAILLE_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
_BOX_ARMS = {"│": "ud", "┤": "udl", "├": "udr", "└": "ur", "─": "lr", "┼": "udlr", "┴": "ulr"}


def _is_drawn(text: str) -> bool:
    return text[0] in _BLOCKS or text[0] in _BRAILLE or text[0] in _BOX_ARMS


def _strokes(left: float, top: float, letter: str) -> str:
    """A character of a chart as pen movements: dots, a bar, or arms from the middle of the cell."""
    middle, centre = left + _CELL / 2, top + _LEADING / 2
    if letter in _BLOCKS:
        height = _LEADING * (_BLOCKS.index(letter) + 1) / 10
        return f"M{middle:.2f} {top + _LEADING - 2:.2f}v{-height:.2f}"
    if letter in _BRAILLE:
        dots = [place for bit, place in enumerate(_BRAILLE_DOTS) if (ord(letter) - 0x2800) >> bit & 1]
        places = [(left + _CELL * (0.25 + 0.5 * x), top + _LEADING * (0.125 + 0.25 * y)) for x, y in dots]
        return "".join(f"M{x:.2f} {y:.2f}h0" for x, y in places)
    arms = {
        "u": f"v{-_LEADING / 2:.2f}",
        "d": f"v{_LEADING / 2:.2f}",
        "l": f"h{-_CELL / 2:.2f}",
        "r": f"h{_CELL / 2:.2f}",
    }
    return "".join(f"M{middle:.2f} {centre:.2f}{arms[arm]}" for arm in _BOX_ARMS[letter])


def _anonymous(text: str, place: str) -> str:
    text = text.replace(os.path.realpath(place), "~").replace(place, "~")
    text = text.replace(os.path.realpath(sys.executable), "/usr/bin/python3")
    return re.sub(rf"^(host +){re.escape(platform.node())}", r"\1laptop", text, flags=re.MULTILINE)


def _read(terminal: int) -> bytes:
    """The next piece; nothing at the end, which Linux tells by an error."""
    select.select([terminal], [], [])
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def _resize(terminal: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
