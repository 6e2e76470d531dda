"""A picture as SVG: self-contained, nothing fetched, nothing run."""

from __future__ import annotations

from xml.sax.saxutils import escape

from holdfast.present.drawing.shapes import Area, Box, Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.present.drawing.shapes import Picture, Point, Words

_FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def render(picture: Picture) -> bytes:
    size = f'width="{picture.width}" height="{picture.height}" viewBox="0 0 {picture.width} {picture.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONT}" font-size="12">',
        f"<title>{_text(picture.title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *map(_shape, picture.shapes),
        "</svg>",
    ]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _shape(shape: Box | Line | Area | Words) -> str:
    if isinstance(shape, Box):
        attributes = f'x="{shape.left:g}" y="{shape.top:g}" width="{shape.width:g}" height="{shape.height:g}"'
        return f'<rect {attributes} fill="{shape.colour}"/>'
    if isinstance(shape, Line):
        style = f'fill="none" stroke="{shape.colour}" stroke-width="{shape.width:g}" stroke-linejoin="round"'
        return f'<polyline points="{_points(shape.points)}" {style}/>'
    if isinstance(shape, Area):
        (first, _), (last, _) = shape.points[0], shape.points[-1]
        corners = ((first, shape.base), *shape.points, (last, shape.base))
        return f'<polygon points="{_points(corners)}" fill="{shape.colour}"/>'
    bold = ' font-size="14" font-weight="bold"' if shape.large else ""
    attributes = f'x="{shape.x:g}" y="{shape.y:g}" text-anchor="{shape.anchor}"'
    return f'<text {attributes} fill="{shape.colour}"{bold}>{_text(shape.text)}</text>'


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.5g},{y:.5g}" for x, y in points)


def _text(text: str) -> str:
    """What XML cannot hold at all becomes a question mark."""
    return escape("".join(sign if sign.isprintable() else "?" for sign in text))
