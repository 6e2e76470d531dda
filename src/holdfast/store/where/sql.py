"""Compiles a query tree to SQL. Names become ids of the index and values are bound: no text of the user becomes SQL.

A comparison with something that a run does not have is false, so ``not (Accuracy > 0.9)`` finds runs without one too.
"""

from __future__ import annotations

from math import inf, nextafter

from holdfast.metrics.direction import less_is_better
from holdfast.quantities import parse_duration
from holdfast.record import Record
from holdfast.store.where.fields import FIELDS, HEADINGS, KEY_SHIFT, column, storable
from holdfast.store.where.grammar import Many, Not, Test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol, TypeAlias

    from holdfast.errors import UsageError
    from holdfast.store.where.grammar import Name, Node, Order, Value
    from holdfast.store.where.tokens import Source

    class Names(Protocol):
        """What the index knows: the number of a name of one kind (param, metric, tag), and all names."""

        def number(self, kind: str, name: str) -> int | None: ...

        def known(self) -> Sequence[str]: ...


Bound: TypeAlias = "int | float | str | None"
_PREFIXES = {
    "params": "param",
    "param": "param",
    "parameters": "param",
    "metrics": "metric",
    "metric": "metric",
    "tags": "tag",
    "tag": "tag",
}
_PARTS = ("last", "min", "max", "best", "points")
_EXACT_INTEGERS = 2**53


class Column(Record):
    """``kind`` is that of a field, param, metric, tag, or nothing: a name that was said to be one and no run has.

    ``row`` is what the joined row of the value is called, if it is joined.
    """

    title: str
    kind: str
    sql: str
    values: tuple[Bound, ...] = ()
    row: str = ""


class Clause(Record):
    sql: str
    values: tuple[Bound, ...] = ()


class Joins:
    """The values that a statement speaks of, each name joined once: in a pass over all runs, twice as quick as
    looking each value up by itself."""

    _MOST = 50  # SQLite joins 64 tables at most

    def __init__(self) -> None:
        self._known: dict[int, str] = {}
        self._required = ""

    def alias(self, number: int) -> str | None:
        """The alias of a name's row; None when there are too many."""
        if number not in self._known:
            if len(self._known) == self._MOST:
                return None
            self._known[number] = f"v{len(self._known)}"
        return self._known[number]

    def require(self, alias: str) -> None:
        """Runs without this value are not asked for."""
        self._required = self._required or alias

    def of_runs(self, hint: str = "") -> Clause:
        """What stands after FROM: runs, and their values."""
        return self._joined(Clause(f"runs r{hint}"))

    def of_values(self) -> Clause | None:
        """The same beginning with the values of one name, which all runs that are asked for have.

        They lie one after another in short rows, and only runs whose value fits are looked up.
        """
        first = next((number << KEY_SHIFT for number, alias in self._known.items() if alias == self._required), None)
        if first is None:
            return None
        row, last = self._required, first + (1 << KEY_SHIFT) - 1
        on = f"r.id = {row}.key - ? AND {row}.key BETWEEN ? AND ?"
        return self._joined(Clause(f"vals {row} CROSS JOIN runs r ON {on}", (first, first, last)), row)

    def _joined(self, start: Clause, present: str = "") -> Clause:
        more = {number: alias for number, alias in self._known.items() if alias != present}
        sql = "".join(f" LEFT JOIN vals {alias} ON {alias}.key = ? + r.id" for alias in more.values())
        return Clause(start.sql + sql, (*start.values, *(number << KEY_SHIFT for number in more)))


def where(source: Source, node: Node, names: Names, now: float, joins: Joins) -> Clause:
    """A condition over ``runs r`` and what is joined to it."""
    return _Compiler(source, names, now, joins).required(node)


def order(source: Source, orders: Sequence[Order], names: Names, now: float, joins: Joins) -> Clause:
    """The ORDER BY clause: runs without a value come last in both directions."""
    parts = [(resolve(source, item.name, names, now, joins), item.descending) for item in orders]
    sql = ", ".join(f"{part.sql} {'DESC' if descending else 'ASC'} NULLS LAST" for part, descending in parts)
    return Clause(sql, tuple(value for part, _ in parts for value in part.values))


def resolve(source: Source, name: Name, names: Names, now: float, joins: Joins | None = None) -> Column:
    """A fixed field, else a parameter, a metric, or a heading of the table of runs.

    ``params.``, ``metrics.`` and ``tags.`` say which is meant.
    """
    text = name.text
    if text in FIELDS:
        return _field(text, now)
    prefix, _, rest = text.partition(".")
    if prefix in _PREFIXES and rest:
        return _of_kind(_PREFIXES[prefix], text, rest, names, joins) or Column(text, "nothing", "NULL")
    field = _of_kind("param", text, text, names, joins) or _of_kind("metric", text, text, names, joins)
    if field is None and text in HEADINGS:
        return _heading(text, now)
    if field is None:
        raise _unknown(source, name, names)
    return field


def free_headings(names: Names) -> frozenset[str]:
    """The headings that mean no parameter and no metric."""
    return frozenset(text for text in HEADINGS if names.number("param", text) is names.number("metric", text) is None)


def _field(name: str, now: float) -> Column:
    if name == "duration":  # of a running run: until now
        return Column(name, "duration", "coalesce(r.duration, ? - r.started)", (now,))
    if name == "arguments":
        return Column(name, "text", "(SELECT w.text FROM words w WHERE w.run = r.id)")
    return Column(name, FIELDS[name], f"r.{column(name)}")


def _heading(name: str, now: float) -> Column:
    if name == "age":
        created = "substr(coalesce(r.created_utc, r.start_time_utc), 1, 19)"
        return Column(name, "duration", f"(? - CAST(strftime('%s', {created}) AS INTEGER))", (now,))
    return _field(HEADINGS[name], now)._replace(title=name)


def _of_kind(kind: str, title: str, name: str, names: Names, joins: Joins | None) -> Column | None:
    number = names.number(kind, name)
    if number is not None:
        return _stored(kind, title, number, "last", joins)
    base, _, part = name.rpartition(".")
    if kind != "metric" or part not in _PARTS or not base:
        return None
    number = names.number(kind, base)
    if part == "best":
        part = "min" if less_is_better(base) else "max"
    return None if number is None else _stored(kind, title, number, part, joins)


def _stored(kind: str, title: str, number: int, part: str, joins: Joins | None) -> Column:
    joined = joins.alias(number) if joins is not None else None
    row = joined or "v"
    # A metric that was logged once has its extremes in its last value.
    extremes = {"min": f"coalesce({row}.least, {row}.last)", "max": f"coalesce({row}.greatest, {row}.last)"}
    wanted = extremes.get(part, f"{row}.{part}")
    if joined:
        return Column(title, kind, wanted, row=joined)
    return Column(title, kind, f"(SELECT {wanted} FROM vals v WHERE v.key = ? + r.id)", (number << KEY_SHIFT,))


def _unknown(source: Source, name: Name, names: Names) -> UsageError:
    from difflib import get_close_matches

    known = {known.lower(): known for known in (*names.known(), *FIELDS, *HEADINGS)}
    near = [known[match] for match in get_close_matches(name.text[:200].lower(), list(known), n=3)]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    explicit = f"metrics.{name.text} means a metric of that name, logged or not" if name.text.isidentifier() else ""
    what = f"no run has a field, parameter or metric {name.text[:200]!r}"
    return source.mistake(what, name.at, hint + explicit)


class _Compiler:
    def __init__(self, source: Source, names: Names, now: float, joins: Joins) -> None:
        self._source = source
        self._names = names
        self._now = now
        self._joins = joins

    def required(self, node: Node) -> Clause:
        """A condition that must be true, so that unknown is as good as false and what it speaks of must be there."""
        if isinstance(node, Many) and node.joint == "AND":
            return _joint([self.required(part) for part in node.parts], node.joint)
        if isinstance(node, (Many, Not)) or node.sign == "null":
            return self.condition(node)
        field = resolve(self._source, node.name, self._names, self._now, self._joins)
        if field.row:
            self._joins.require(field.row)
        return Clause(*self._test(node, field))

    def condition(self, node: Node) -> Clause:
        if isinstance(node, Many):
            return _joint([self.condition(part) for part in node.parts], node.joint)
        if isinstance(node, Not):
            part = self.condition(node.part)
            return Clause(f"(NOT {part.sql})", part.values)
        field = resolve(self._source, node.name, self._names, self._now, self._joins)
        if node.sign == "null":
            return Clause(f"({field.sql} IS NULL)", field.values)
        sql, values = self._test(node, field)
        return Clause(f"ifnull({sql}, 0)", values)

    def _test(self, node: Test, field: Column) -> tuple[str, tuple[Bound, ...]]:
        if node.sign in ("like", "~"):
            sign = "LIKE" if node.sign == "like" else "GLOB"
            return f"{field.sql} {sign} ?", (*field.values, storable(str(node.values[0])))
        values = tuple(self._value(value, field, node.at) for value in node.values)
        if node.sign == "in":
            return f"{field.sql} IN ({', '.join('?' * len(values))})", (*field.values, *values)
        return _compared(field, node.sign, values[0])

    def _value(self, value: Value, field: Column, at: int) -> int | float | str:
        """The value as the column holds it."""
        if field.kind == "duration" and isinstance(value, str):
            seconds = parse_duration(value)
            if seconds is None:
                raise self._source.mistake(
                    "this is not a duration", at, "use seconds, or text such as '90s', '2h', '1h30m'"
                )
            return seconds
        if field.kind == "text":
            return storable(_spelled(value))
        if field.kind in ("number", "truth", "duration") and isinstance(value, str):
            what = {"truth": "true or false"}.get(field.kind, "a number")
            raise self._source.mistake(
                f"{field.title} is {what}", at, "numbers, true and false are written without quotes"
            )
        if isinstance(value, str):
            return storable(value)
        return int(value) if isinstance(value, bool) else value


def _joint(parts: Sequence[Clause], joint: str) -> Clause:
    sql = f" {joint} ".join(part.sql for part in parts)
    return Clause(f"({sql})", tuple(value for part in parts for value in part.values))


def _compared(field: Column, sign: str, value: int | float | str) -> tuple[str, tuple[Bound, ...]]:
    """For SQLite all text is greater than all numbers; a person compares numbers with numbers and text with text."""
    if isinstance(value, str) and sign in ("<", "<=") and field.kind != "text":
        return f"({field.sql} >= '' AND {field.sql} {sign} ?)", (*field.values, *field.values, value)
    if not isinstance(value, str) and sign in (">", ">="):
        return f"{field.sql} BETWEEN ? AND ?", (*field.values, value if sign == ">=" else _above(value), inf)
    return f"{field.sql} {sign} ?", (*field.values, value)


def _above(value: int | float) -> int | float:
    """The least number greater than this one."""
    if isinstance(value, int) and abs(value) >= _EXACT_INTEGERS:
        return value + 1
    return nextafter(value, inf)


def _spelled(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
