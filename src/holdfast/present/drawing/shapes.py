"""The shapes of a picture. Coordinates count from the upper left corner; colours are ``#rrggbb``."""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Point: TypeAlias = tuple[float, float]
    Anchor: TypeAlias = Literal["start", "middle", "end"]


class Box(Record):
    """A filled rectangle."""

    left: float
    top: float
    width: float
    height: float
    colour: str


class Line(Record):
    """Straight strokes from point to point."""

    points: tuple[Point, ...]
    colour: str
    width: float = 1.0


class Area(Record):
    """The area between a line whose points go to the right and the height ``base`` below it."""

    points: tuple[Point, ...]
    base: float
    colour: str


class Words(Record):
    """Text on one line; ``y`` is where its letters stand, ``x`` the side that ``anchor`` says."""

    x: float
    y: float
    text: str
    colour: str
    anchor: Anchor = "start"
    large: bool = False


class Picture(Record):
    """Shapes in the order in which they cover each other, on white."""

    width: int
    height: int
    shapes: tuple[Box | Line | Area | Words, ...]
    title: str = ""
