"""Reads a map key by key: each method takes a key and a type, and returns the value or adds a finding."""

from __future__ import annotations

from holdfast.amlconfig.nodes import Mapping, Scalar, Sequence
from holdfast.amlconfig.types import GpuRequest, Item
from holdfast.runner import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Literal, TypeVar

    from holdfast.amlconfig.nodes import Node
    from holdfast.amlconfig.source import Source
    from holdfast.amlconfig.types import Raw

    Choice = TypeVar("Choice", bound=str)

_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")
# Looking for a similar word is slow, so only this many get a suggestion.
_UNKNOWN_NAMED = 20
_LONGEST_WORD = 60
MOST_GPUS = 1024


class Form:
    """One map of ``source``. ``known`` are the keys it may have; what is asked twice answers twice."""

    def __init__(self, source: Source, node: Mapping, known: Collection[str]) -> None:
        self.source = source
        self.known = known
        self.is_json = node.flow
        self.nodes: dict[str, Node] = {}
        self.keys: dict[str, Scalar] = {}
        for key, value in node.entries:
            self._enter(key, value)

    def text(self, name: str) -> str | None:
        """Text without blanks around it."""
        node = self._given(name)
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self._expected(name, node, "one value", f"write {name}: value")
            return None
        text = node.text.strip()
        if text != node.text:
            self.warn(name, "spaces inside the quotes are not part of the value", f"write {name}: {text}")
        return text

    def choice(self, name: str, choices: tuple[Choice, ...]) -> Choice | None:
        text = self.text(name)
        if text is None:
            return None
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        self.error(name, f"{name} cannot be {text!r}", f"write {name}: {' or '.join(choices)}")
        return None

    def flag(self, name: str) -> bool | None:
        text = self.text(name)
        if text is None:
            return None
        if text.lower() in _TRUE or text.lower() in _FALSE:
            return text.lower() in _TRUE
        self.error(name, f"{name} must be true or false, not {text!r}", f"write {name}: true")
        return None

    def number(self, name: str, lowest: int, highest: int, example: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) < 10 and lowest <= int(text) <= highest:
            return int(text)
        self.error(
            name, f"{name} must be a number from {lowest} to {highest}, not {text!r}", f"write {name}: {example}"
        )
        return None

    def duration(self, name: str, *, or_none: bool = False) -> float | None:
        """Seconds; with ``or_none`` they may be 0."""
        from holdfast.quantities import parse_duration

        text = self.text(name)
        if or_none and text == "0":
            return 0.0
        seconds = None if text is None else parse_duration(text)
        if text is not None and seconds is None:
            self.error(name, f"{text!r} is not a duration", f"write {name}: 30s, 20m, 4h or 2d")
        return seconds

    def decimal(self, name: str, what: str, example: str) -> float | None:
        """A positive number, which may have a fraction."""
        text = self.text(name)
        if text is None:
            return None
        whole, _, part = text.partition(".")
        if text.isascii() and whole.isdigit() and (part or "0").isdigit() and len(text) < 9 and float(text) > 0:
            return float(text)
        self.error(name, f"{text!r} is not {what}", f"write {name}: {example}")
        return None

    def size(self, name: str, lowest: int = 1, *, or_zero: bool = False) -> int | None:
        """Bytes. ``lowest`` catches a number whose unit was forgotten."""
        from holdfast.quantities import parse_size

        text = self.text(name)
        if or_zero and text == "0":
            return 0
        size = None if text is None else parse_size(text)
        if text is not None and size is None:
            self.error(name, f"{text!r} is not a size", f"write {name}: 500MB or 10GB")
        elif size is not None and size < lowest:
            self.error(name, f"{name} of {text} is too small", f"write {name}: 500MB or 10GB")
            return None
        return size

    def path(self, name: str) -> str | None:
        """A file or folder of the project, with ``/`` whatever the author's system."""
        text = self.text(name)
        return None if text is None else self._inside(name, text)

    def paths(self, name: str) -> tuple[str, ...] | None:
        texts = self.texts(name)
        if texts is None:
            return None
        return tuple(path for path in (self._inside(name, text) for text in texts) if path is not None)

    def texts(self, name: str) -> tuple[str, ...] | None:
        items = self.items(name)
        return None if items is None else tuple(item.text for item in items)

    def items(self, name: str) -> tuple[Item, ...] | None:
        """A list of scalars; numbers in it are text too."""
        nodes = self.entries(name)
        if nodes is None:
            return None
        for node in nodes:
            if not isinstance(node, Scalar):
                self._expected(name, node, "a list of plain values", f"write {name}: and below it one '- value' a line")
        return tuple(self.item(node) for node in nodes if isinstance(node, Scalar))

    def words(self, name: str) -> list[tuple[str, Scalar]] | None:
        """Words of a command line and where they stand: a list, or one text taken apart as a shell does it."""
        node = self._given(name)
        if isinstance(node, Scalar):
            return self._split(name, node)
        nodes = self.entries(name)
        return None if nodes is None else [word for item in nodes for word in self._option_and_value(name, item)]

    def entries(self, name: str) -> list[Node] | None:
        """A list of anything."""
        node = self._given(name)
        if node is None:
            return None
        if isinstance(node, Sequence):
            return node.items
        self._expected(name, node, "a list", f"write {name}: and below it one '- value' a line")
        return None

    def item(self, node: Scalar) -> Item:
        line, column = self.source.at(node.line, node.column)
        return Item(node.text, line + 1, column + 1)

    def text_map(self, name: str) -> dict[str, str] | None:
        """A map of names to text: values stay as written, ``010`` and ``true`` included."""
        node = self.mapping(name)
        if node is None:
            return None
        form = Form(self.source, node, ())
        texts: dict[str, str] = {}
        for key, value in form.nodes.items():
            if isinstance(value, Scalar):
                texts[key] = "" if value.is_null else value.text
            else:
                form.error(key, f"{key} must be one value", f"put it in quotes: {key}: '...'")
        return texts

    def mapping(self, name: str) -> Mapping | None:
        node = self._given(name)
        if node is None or isinstance(node, Mapping):
            return node
        self._expected(name, node, "a map", f"write {name}: and below it one indented 'key: value' a line")
        return None

    def gpus(self, name: str) -> GpuRequest | None:
        node = self._given(name)
        if not isinstance(node, Mapping):
            count = self._gpu_count(name)
            return None if count is None else GpuRequest(count)
        form = Form(self.source, node, ("count", "memory", "name", "shared"))
        form.warn_unknown()
        count = form._gpu_count("count")
        shared = form.flag("shared") or False
        return GpuRequest(1 if count is None else count, form.size("memory"), form.text("name"), shared)

    def extra(self, expected: Iterable[str] = ()) -> dict[str, Raw]:
        """The keys that were not read: each is kept and, unless it is expected, gets a warning."""
        self.warn_unknown(expected)
        return {name: raw(node) for name, node in self.nodes.items() if name not in self.known}

    def warn_unknown(self, expected: Iterable[str] = ()) -> None:
        known = {*self.known, *expected}
        unknown = [name for name in self.keys if name not in known]
        for name in unknown[:_UNKNOWN_NAMED]:
            self._warn_unknown(name, self.keys[name])
        if len(unknown) > _UNKNOWN_NAMED:
            key = self.keys[unknown[_UNKNOWN_NAMED]]
            more = len(unknown) - _UNKNOWN_NAMED
            self.source.warn(key.line, key.column, f"{more} more unknown keys have no effect")

    def absent(self, name: str) -> bool:
        """No such key, or nothing after it."""
        return self._given(name) is None

    def line(self, name: str, text: str) -> str:
        """The line a person would add to this file."""
        return f'"{name}": "{text}",' if self.is_json else f"{name}: {text}"

    def warn(self, name: str, message: str, hint: str = "") -> None:
        self.source.warn(*self.place(name), message, hint)

    def error(self, name: str, message: str, hint: str = "") -> None:
        self.source.error(*self.place(name), message, hint)

    def place(self, name: str) -> tuple[int, int]:
        """Where findings about this key point: to its value if that can be seen on one line, else to the key."""
        node = self.nodes[name]
        seen = bool(node.text) or node.quoted if isinstance(node, Scalar) else node.flow
        at = node if seen else self.keys[name]
        return at.line, at.column

    def _enter(self, key: Scalar, value: Node) -> None:
        name = key.text
        if name not in self.known:
            meant = next((known for known in self.known if known.lower() == name.lower()), name)
            if meant != name:
                self.source.warn(key.line, key.column, f"{name!r} is read as {meant!r}", f"write {meant}")
                name = meant
        if name in self.keys:
            first = self.keys[name].line + 1
            message = f"{name} is set on line {first} and again on line {key.line + 1}; the last one is used"
            self.source.warn(key.line, key.column, message, f"delete line {first}")
        self.nodes[name] = value
        self.keys[name] = key

    def _given(self, name: str) -> Node | None:
        node = self.nodes.get(name)
        return None if isinstance(node, Scalar) and (node.is_null or not node.text.strip()) else node

    def _expected(self, name: str, node: Node, wanted: str, hint: str) -> None:
        kind = {Scalar: "one value", Sequence: "a list", Mapping: "a map"}[type(node)]
        self.source.error(node.line, node.column, f"{name} takes {wanted}; this is {kind}", hint)

    def _split(self, name: str, node: Scalar) -> list[tuple[str, Scalar]]:
        import shlex

        try:
            return [(word, node) for word in shlex.split(node.text)]
        except ValueError:
            self.error(name, f"a quote in {name} is not closed", f"write {name}: and below it one '- word' a line")
            return []

    def _option_and_value(self, name: str, node: Node) -> list[tuple[str, Scalar]]:
        """One word, or the two of ``- --ulimit nofile=1024``: no option has a blank in its name."""
        if not isinstance(node, Scalar):
            self._expected(name, node, "a list of plain values", f"write {name}: and below it one '- word' a line")
            return []
        option, _, value = node.text.strip().partition(" ")
        if option.startswith("-") and "=" not in option and value:
            return [(option, node), (value.strip(), node)]
        return [(node.text, node)]

    def _gpu_count(self, name: str) -> int | Literal["all"] | None:
        text = self.text(name)
        if text is None:
            return None
        if text.lower() == "all":
            return "all"
        if text.isascii() and text.isdigit() and len(text) < 5 and int(text) <= MOST_GPUS:
            return int(text)
        self.error(name, f"{name} is a number from 0 to {MOST_GPUS}, or all; not {text!r}", f"write {name}: 1")
        return None

    def _inside(self, name: str, text: str) -> str | None:
        path = text.replace("\\", "/")
        parts = [word for word in path.split("/") if word not in ("", ".")]
        try:
            inside = untrusted.relative("/".join(parts)) if parts else "."
        except untrusted.Untrusted:
            inside = ""
        if not inside or path.startswith(("/", "~")) or path[1:2] == ":":
            self.error(name, f"{text} is outside the project", "name a path inside the project folder")
            return None
        return inside

    def _warn_unknown(self, name: str, key: Scalar) -> None:
        from difflib import get_close_matches

        close = get_close_matches(name, self.known, n=1, cutoff=0.75) if len(name) <= _LONGEST_WORD else []
        hint = f"did you mean {close[0]}?" if close else ""
        self.source.warn(key.line, key.column, f"unknown key {name!r} has no effect", hint)


def raw(node: Node) -> Raw:
    """A node as plain data, its scalars as text."""
    if isinstance(node, Scalar):
        return None if node.is_null else node.text
    if isinstance(node, Sequence):
        return [raw(item) for item in node.items]
    return {key.text: raw(value) for key, value in node.entries}
