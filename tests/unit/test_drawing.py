"""Pictures: what is drawn is where it belongs, in both forms, and no text gets out of its place."""

from __future__ import annotations

import struct
import zlib
from xml.etree import ElementTree

from holdfast.present.drawing import font, png, svg
from holdfast.present.drawing.shapes import Area, Box, Line, Picture, Words

SVG = "{http://www.w3.org/2000/svg}"
RED, BLUE = "#ff0000", "#0000ff"


def dots(data: bytes) -> tuple[int, int, list[list[str]]]:
    """Width, height and colours of a PNG with a palette, by a reader of its own."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    parts: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + content)
        parts[kind] = content
        at += 12 + length
    width, height, depth, colour_type, *_ = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (depth, colour_type) == (8, 3)
    palette = [f"#{parts[b'PLTE'][at : at + 3].hex()}" for at in range(0, len(parts[b"PLTE"]), 3)]
    raw = zlib.decompress(parts[b"IDAT"])
    rows = [raw[row * (width + 1) : (row + 1) * (width + 1)] for row in range(height)]
    assert {row[0] for row in rows} == {0}
    return width, height, [[palette[dot] for dot in row[1:]] for row in rows]


def test_a_box_and_a_line_are_where_they_belong() -> None:
    picture = Picture(20, 10, (Box(2, 3, 4, 5, RED), Line(((10, 1), (18, 1)), BLUE, 1)))
    width, height, found = dots(png.render(picture))
    assert (width, height) == (40, 20)
    assert {(x, y) for y in range(20) for x in range(40) if found[y][x] == RED} == {
        (x, y) for x in range(4, 12) for y in range(6, 16)
    }
    blue = {(x, y) for y in range(20) for x in range(40) if found[y][x] == BLUE}
    assert {y for _, y in blue} == {1, 2}
    assert min(blue)[0] in (19, 20)
    assert max(blue)[0] in (36, 37)
    assert found[0][0] == "#ffffff"


def test_an_area_is_filled_down_to_its_base() -> None:
    _, _, found = dots(png.render(Picture(10, 10, (Area(((1, 8), (5, 2)), 9, RED),))))
    heights = [sum(found[y][x] == RED for y in range(20)) for x in range(20)]
    assert heights[2] == 2
    assert heights[10] == 14
    assert heights[:2] == [0, 0]
    assert sorted(heights[2:11]) == heights[2:11]


def test_what_lies_outside_is_cut_off() -> None:
    shapes = (Line(((-5, -5), (50, 50)), RED, 2), Box(-4, 8, 100, 100, BLUE), Words(-3, 2, "wide" * 9, RED))
    width, height, _ = dots(png.render(Picture(10, 10, shapes)))
    assert (width, height) == (20, 20)


def test_letters_are_legible() -> None:
    _, _, found = dots(png.render(Picture(8, 10, (Words(0, 8, "L", RED),))))
    drawn = ["".join("#" if dot == RED else "." for dot in row[:10:2]) for row in found[2:16:2]]
    assert drawn == ["#....", "#....", "#....", "#....", "#....", "#....", "#####"]


def test_words_end_where_they_are_told_to() -> None:
    def columns(anchor: str) -> list[int]:
        words = Words(30, 10, "HH", RED, anchor)  # type: ignore[arg-type]
        found = dots(png.render(Picture(60, 14, (words,))))[2]
        return [x for x in range(120) if any(row[x] == RED for row in found)]

    assert columns("start")[0] == 60
    assert columns("end")[-1] == 57
    assert abs((columns("middle")[0] + columns("middle")[-1]) / 2 - 59) <= 1


def test_every_sign_of_ascii_has_a_shape_of_its_own() -> None:
    shapes = {font.rows(chr(code)) for code in range(32, 127)}
    assert len(shapes) == 95
    assert font.rows("é") == font.rows("?")
    assert font.rows("\x1b") == font.rows("?")


def test_svg_says_the_same() -> None:
    shapes = (
        Box(2, 3, 4, 5, RED),
        Line(((10, 1), (18, 1)), BLUE, 1.5),
        Area(((1, 8), (5, 2)), 9, RED),
        Words(30, 10, "busy", BLUE, "end"),
    )
    root = ElementTree.fromstring(svg.render(Picture(60, 14, shapes, "run 1")))
    assert root.get("viewBox") == "0 0 60 14"
    assert [node.get("points") for node in root.iter(f"{SVG}polyline")] == ["10,1 18,1"]
    assert [node.get("points") for node in root.iter(f"{SVG}polygon")] == ["1,9 1,8 5,2 5,9"]
    [words] = root.iter(f"{SVG}text")
    assert (words.text, words.get("text-anchor"), words.get("fill")) == ("busy", "end", BLUE)


def test_text_of_others_stays_text() -> None:
    hostile = "<script>alert(1)</script>&\"'\x1b\x00\udc80"
    data = svg.render(Picture(60, 14, (Words(0, 10, hostile, RED),), hostile))
    root = ElementTree.fromstring(data)
    assert {node.tag.removeprefix(SVG) for node in root.iter()} == {"svg", "title", "rect", "text"}
    [words] = root.iter(f"{SVG}text")
    assert words.text == "<script>alert(1)</script>&\"'???"
    assert dots(png.render(Picture(60, 14, (Words(0, 10, hostile, RED),), hostile)))[:2] == (120, 28)
