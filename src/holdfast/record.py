"""Frozen records with named fields that cost almost nothing at start-up.

A frozen dataclass costs 16 ms to import and most of a millisecond a class, a NamedTuple brings ``typing`` (5 ms) and
takes a tenth of a millisecond a class; a submit meets forty of them and has 80 ms for everything. Type checkers see a
frozen dataclass.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: bool):
        return lambda base: base


@dataclass_transform(frozen_default=True)
class Record:
    """Fields are the annotations of the class, in order; a value given in the class is the default."""

    _fields: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)

    def __init__(self, *values: object, **named: object) -> None:
        fields = self._fields
        if len(values) == len(fields) and not named:  # a list of 100,000 runs makes millions of them
            self.__dict__.update(zip(fields, values, strict=True))
            return
        given = dict(zip(fields, values, strict=False), **named)
        if len(values) > len(fields) or len(given) != len(values) + len(named):
            raise TypeError(f"{type(self).__name__} takes {fields}, not {values} and {named}")
        for name in given if len(given) != len(fields) else ():
            if name not in fields:
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
        for name in fields:
            if name not in given and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} needs {name!r}")
        self.__dict__.update(given)

    def _replace(self, **changes: object) -> Self:
        return type(self)(**{**self._asdict(), **changes})

    def _asdict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self._fields}

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"
