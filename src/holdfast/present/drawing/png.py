"""A picture as PNG: one byte a dot and a palette, drawn by hand, so that no library is needed for it."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise

from holdfast.present.drawing import font
from holdfast.present.drawing.shapes import Area, Box, Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.present.drawing.shapes import Picture, Point, Words

_WHITE = "#ffffff"
_SCALE = 2


def render(picture: Picture) -> bytes:
    colours = [_WHITE, *dict.fromkeys(shape.colour for shape in picture.shapes if shape.colour != _WHITE)]
    canvas = _Canvas(picture.width * _SCALE, picture.height * _SCALE, {name: at for at, name in enumerate(colours)})
    for shape in picture.shapes:
        canvas.draw(shape)
    palette = b"".join(bytes.fromhex(name[1:]) for name in colours)
    header = struct.pack(">IIBBBBB", canvas.width, canvas.height, 8, 3, 0, 0, 0)
    words = b"Title\0" + picture.title.encode("latin-1", "replace").replace(b"\0", b"?")
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"tEXt", words), (b"IDAT", canvas.packed()), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


class _Canvas:
    """Rows of dots, each the number of a colour. What lies outside is not drawn."""

    def __init__(self, width: int, height: int, colours: dict[str, int]) -> None:
        self.width = width
        self.height = height
        self._colours = colours
        self._rows = [bytearray(width) for _ in range(height)]

    def packed(self) -> bytes:
        return zlib.compress(b"".join(b"\0" + row for row in self._rows), 9)

    def draw(self, shape: Box | Line | Area | Words) -> None:
        colour = self._colours[shape.colour]
        if isinstance(shape, Box):
            left, top = _scaled(shape.left), _scaled(shape.top)
            self._fill(left, top, _scaled(shape.left + shape.width), _scaled(shape.top + shape.height), colour)
        elif isinstance(shape, Line):
            thick = max(1, round(shape.width * _SCALE))
            for start, end in pairwise(shape.points if len(shape.points) > 1 else shape.points * 2):
                self._stroke(start, end, thick, colour)
        elif isinstance(shape, Area):
            for start, end in pairwise(shape.points):
                self._shade(start, end, _scaled(shape.base), colour)
        else:
            self._write(shape, colour)

    def _fill(self, left: int, top: int, right: int, bottom: int, colour: int) -> None:
        left, right = max(left, 0), min(right, self.width)
        if right > left:
            dots = bytes((colour,)) * (right - left)
            for row in self._rows[max(top, 0) : max(bottom, 0)]:
                row[left:right] = dots

    def _stroke(self, start: Point, end: Point, thick: int, colour: int) -> None:
        (x0, y0), (x1, y1) = ((_scaled(x), _scaled(y)) for x, y in (start, end))
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        back = thick // 2
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step // steps - back, y0 + (y1 - y0) * step // steps - back
            self._fill(x, y, x + thick, y + thick, colour)

    def _shade(self, start: Point, end: Point, base: int, colour: int) -> None:
        (x0, y0), (x1, y1) = ((_scaled(x), _scaled(y)) for x, y in (start, end))
        for x in range(x0, x1 + 1):
            y = y0 + (y1 - y0) * (x - x0) // (x1 - x0) if x1 > x0 else min(y0, y1)
            self._fill(x, y, x + 1, base, colour)

    def _write(self, words: Words, colour: int) -> None:
        dot = _SCALE + 1 if words.large else _SCALE
        length = len(words.text) * font.ADVANCE * dot
        left = _scaled(words.x) - {"start": 0, "middle": length // 2, "end": length}[words.anchor]
        top = _scaled(words.y) - font.ABOVE * dot
        for place, sign in enumerate(words.text):
            for row, bits in enumerate(font.rows(sign)):
                for column in range(font.WIDE):
                    if bits >> (font.WIDE - 1 - column) & 1:
                        x, y = left + (place * font.ADVANCE + column) * dot, top + row * dot
                        self._fill(x, y, x + dot, y + dot, colour)


def _scaled(length: float) -> int:
    return round(length * _SCALE)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
