"""Pictures: what is drawn is where it belongs, in both forms, and no text gets out of its place."""

from __future__ import annotations

import io
from xml.etree import ElementTree

from PIL import Image

from holdfast.present.drawing import png, svg
from holdfast.present.drawing.shapes import Area, Box, Line, Picture, Words

SVG = "{http://www.w3.org/2000/svg}"
RED, BLUE = "#ff0000", "#0000ff"


def dots(data: bytes) -> tuple[int, int, list[list[str]]]:
    """Width, height and colours of a PNG."""
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG"
        width, height = image.size
        raw = image.convert("RGB").tobytes().hex()
    rows = [
        [f"#{raw[at : at + 6]}" for at in range(row * width * 6, (row + 1) * width * 6, 6)] for row in range(height)
    ]
    return width, height, rows


def test_a_box_and_a_line_are_where_they_belong() -> None:
    picture = Picture(20, 10, (Box(2, 3, 4, 5, RED), Line(((10, 1), (18, 1)), BLUE, 1)))
    width, height, found = dots(png.render(picture))
    assert (width, height) == (40, 20)
    assert {(x, y) for y in range(20) for x in range(40) if found[y][x] == RED} == {
        (x, y) for x in range(4, 12) for y in range(6, 16)
    }
    blue = {(x, y) for y in range(20) for x in range(40) if found[y][x] == BLUE}
    assert {y for _, y in blue} in ({1, 2}, {2, 3})
    assert min(blue)[0] in (19, 20)
    assert max(blue)[0] in (36, 37)
    assert found[0][0] == "#ffffff"


def test_an_area_is_filled_down_to_its_base() -> None:
    _, _, found = dots(png.render(Picture(10, 10, (Area(((1, 8), (5, 2)), 9, RED),))))
    heights = [sum(found[y][x] == RED for y in range(20)) for x in range(20)]
    assert heights[2] in (2, 3)
    assert heights[10] in (14, 15)
    assert heights[:2] == [0, 0]
    assert sorted(heights[2:11]) == heights[2:11]


def test_what_lies_outside_is_cut_off() -> None:
    shapes = (Line(((-5, -5), (50, 50)), RED, 2), Box(-4, 8, 100, 100, BLUE), Words(-3, 2, "wide" * 9, RED))
    width, height, _ = dots(png.render(Picture(10, 10, shapes)))
    assert (width, height) == (20, 20)


def test_text_in_a_png_is_anchored_as_in_svg() -> None:
    def columns(anchor: str) -> list[int]:
        words = Words(30, 10, "HH", "#000000", anchor)  # type: ignore[arg-type]
        found = dots(png.render(Picture(60, 14, (words,))))[2]
        assert all(dot == "#ffffff" for row in found[21:] for dot in row), "letters stand on the baseline"
        return [x for x in range(120) if any(int(row[x][1:3], 16) < 128 for row in found)]

    assert columns("start")[0] in range(59, 64)
    assert columns("end")[-1] in range(56, 61)
    assert abs((columns("middle")[0] + columns("middle")[-1]) / 2 - 60) <= 2


def test_png_shows_a_question_mark_for_letters_that_its_font_lacks() -> None:
    def drawn(text: str) -> bytes:
        return png.render(Picture(60, 14, (Words(0, 10, text, RED),)))

    assert drawn("caf\u00e9 \x1b") == drawn("caf? ?")
    assert drawn("caf\u00e9") != drawn("cafe")


def test_a_point_alone_is_a_dot() -> None:
    found = dots(png.render(Picture(10, 10, (Line(((5, 5),), RED, 4),))))[2]
    red = [(x, y) for y in range(20) for x in range(20) if found[y][x] == RED]
    assert (10, 10) in red
    assert 40 <= len(red) <= 70
    assert {x for x, _ in red} == {y for _, y in red} <= set(range(6, 15))


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
