"""A picture as PNG, drawn by Pillow, which is an optional dependency (``holdfast[png]``)."""

from __future__ import annotations

from holdfast.errors import UsageError
from holdfast.present.drawing.shapes import Area, Box, Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from PIL import ImageFont
    from PIL.ImageDraw import ImageDraw

    from holdfast.present.drawing.shapes import Picture, Point, Words

_SCALE = 2  # pixels for one unit of a picture
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}  # Pillow's names; s is the baseline


def render(picture: Picture) -> bytes:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        from holdfast.present.install_hint import install_hint

        what = "writing PNG needs the optional package Pillow, which is not installed"
        hint = f"write an .svg file, or: {install_hint('png')}"
        raise UsageError(what, answer=str(error), hint=hint) from error
    from io import BytesIO

    image = Image.new("RGB", (picture.width * _SCALE, picture.height * _SCALE), "#ffffff")
    canvas = ImageDraw.Draw(image)
    # Pillow brings this font with it, so the result does not depend on the fonts of the machine.
    fonts = {large: ImageFont.load_default((14 if large else 12) * _SCALE) for large in (False, True)}
    for shape in picture.shapes:
        if isinstance(shape, (Box, Line, Area)):
            _draw(canvas, shape)
        else:
            _write(canvas, shape, fonts[shape.large])
    data = BytesIO()
    image.save(data, "PNG", optimize=True)
    return data.getvalue()


def _draw(canvas: ImageDraw, shape: Box | Line | Area) -> None:
    if isinstance(shape, Box):
        corners = _scaled((shape.left, shape.top), (shape.left + shape.width, shape.top + shape.height))
        (left, top), (right, bottom) = corners
        # Pillow counts the last pixel in.
        canvas.rectangle((left, top, max(right - 1, left), max(bottom - 1, top)), shape.colour)
    elif isinstance(shape, Line) and len(shape.points) > 1:
        canvas.line(_scaled(*shape.points), shape.colour, max(1, round(shape.width * _SCALE)), "curve")
    elif isinstance(shape, Line):
        ((x, y),), radius = _scaled(*shape.points), shape.width * _SCALE / 2
        canvas.ellipse((x - radius, y - radius, x + radius, y + radius), shape.colour)
    else:
        (first, _), (last, _) = shape.points[0], shape.points[-1]
        canvas.polygon(_scaled((first, shape.base), *shape.points, (last, shape.base)), shape.colour)


def _write(canvas: ImageDraw, label: Words, font: ImageFont.ImageFont | ImageFont.FreeTypeFont) -> None:
    """What is not printable ASCII becomes a question mark: the built-in font has little else."""
    text = "".join(sign if sign.isascii() and sign.isprintable() else "?" for sign in label.text)
    [position] = _scaled((label.x, label.y))
    canvas.text(position, text, label.colour, font, _ANCHORS[label.anchor])


def _scaled(*points: Point) -> list[Point]:
    return [(round(x * _SCALE), round(y * _SCALE)) for x, y in points]
