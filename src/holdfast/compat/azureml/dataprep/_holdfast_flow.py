"""Evaluates the data flows of ``.dprep`` and ``.dsource`` files, block by block, with pandas.

A block that is not known, or that has arguments that are not, is an error with the file, the line and the block.
"""

import json
import os
import re

from . import _holdfast_blocks as blocks
from . import _holdfast_errors as errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

_DEEPEST = 16  # references from file to file
_LARGEST = 64 << 20


class DataPrepError(ValueError):
    """A data flow that cannot be evaluated here."""


class Replacements:
    """Rows or frames of a script in place of data sources, by the names of their files, in any folder."""

    def __init__(self, given: "Mapping[str, object]") -> "None":
        for name, rows in given.items():
            if not isinstance(rows, (list, tuple)) and not hasattr(rows, "columns"):
                raise DataPrepError(f"the data for {name} is {rows!r:.80}, which is neither a list of rows nor a frame")
        self._rows = {_basename(name): rows for name, rows in given.items()}
        self._sources = []  # type: list[str]

    def of(self, path: "str") -> "object":
        self._sources.append(_basename(path))
        return self._rows.get(_basename(path))

    def check(self, path: "str") -> "None":
        """Data for a source that the flow does not have would be ignored, and other data read."""
        for name in sorted(set(self._rows) - set(self._sources)):
            known = ", ".join(sorted(set(self._sources)))
            raise DataPrepError(f"{path}: the data flow has no data source {name}; it has: {known}")


class Block:
    """One step as written in a file."""

    def __init__(self, file: "str", line: "int", kind: "str", arguments: "dict[str, object]") -> "None":
        self.file = file
        self.line = line
        self.kind = kind
        self.arguments = arguments

    def error(self, problem: "str") -> "DataPrepError":
        return DataPrepError(f"{self.file}:{self.line}: block {self.kind}: {problem}")

    def number(self, key: "str", default: "int", allowed: "range | None" = None) -> "int":
        value = self.arguments.get(key)
        if value is None:
            return default
        if not isinstance(value, int) or value < 0 or (allowed is not None and value not in allowed):
            raise self.error(f"{key} is {value!r}, which is not known")
        return value

    def columns(self, arguments: "dict[str, object]") -> "list[str]":
        """The columns of a step: by their names, or as the selections of packages from 2018."""
        for key in ("columnIds", "columnId", "columns", "column"):
            value = arguments.get(key)
            if isinstance(value, dict):
                details = value.get("details")
                value = next(iter(details.values()), None) if isinstance(details, dict) and len(details) == 1 else None
            names = value if isinstance(value, list) else [value]
            if names and all(isinstance(name, str) for name in names):
                return [str(name) for name in names]
        raise self.error("it names no columns")


def table(path: "str", index: "int" = 0, given: "Mapping[str, object] | None" = None) -> "pd.DataFrame":
    """The result of a data flow for a script; values that could not be converted are missing in it."""
    replacements = Replacements(given or {})
    frame = evaluate(path, index, replacements, 0)
    replacements.check(path)
    return errors.without_marks(frame)


def evaluate(path: "str", index: "int | str", given: "Replacements", depth: "int") -> "pd.DataFrame":
    """The frame that a data flow ends with."""
    if depth > _DEEPEST:
        raise DataPrepError(f"{path}: data flows refer to each other without end")
    replaced = given.of(path)
    if replaced is not None and not isinstance(replaced, (list, tuple)):
        to_pandas = getattr(replaced, "toPandas", None)
        return replaced if to_pandas is None else to_pandas()
    frame: object = None
    for block in read(path, index):
        if replaced is not None and block.kind in blocks.SOURCES:
            frame = blocks.Rows(replaced)
        else:
            frame = _step(frame, block, given, depth)
    if frame is None or isinstance(frame, blocks.UNPARSED):
        raise DataPrepError(f"{path}: the data flow reads no data")
    return frame


def read(path: "str", index: "int | str" = 0) -> "list[Block]":
    """The enabled blocks of one data flow, given by its number or its id."""
    try:
        with open(path, "rb") as source:
            text = _decoded(source.read(_LARGEST))
    except OSError as problem:
        raise DataPrepError(f"{path}: this file cannot be read: {problem.strerror}") from problem
    try:
        activities = json.loads(text)["activities"]
        number = _number(path, activities, index)
        steps = activities[number]["blocks"]
        rows = [(str(step["type"]), step.get("arguments") or {}) for step in steps]
    except DataPrepError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise DataPrepError(f"{path}: not a data flow, which is JSON with activities: {problem!r}") from None
    written = [str(step.get("type")) for other in activities[:number] for step in other.get("blocks") or ()]
    lines = _lines(text, [*written, *(kind for kind, _ in rows)])[len(written) :]
    all_blocks = [Block(path, line, _short(kind), arguments) for line, (kind, arguments) in zip(lines, rows)]  # noqa: B905
    return [block for block, step in zip(all_blocks, steps) if step.get("isEnabled", True)]  # noqa: B905 - Python 3.6


def _decoded(data: "bytes") -> "str":
    """Editors of Windows wrote UTF-8 or UTF-16, with a mark."""
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")


def _number(path: "str", activities: "list[dict[str, object]]", index: "int | str") -> "int":
    if isinstance(index, str):
        for number, activity in enumerate(activities):
            if activity.get("id") == index:
                return number
        if len(activities) == 1:
            return 0
        raise DataPrepError(f"{path}: there is no data flow with the id {index}; it has {len(activities)} others")
    if not 0 <= index < len(activities):
        raise DataPrepError(f"{path}: there is no data flow {index}; it has {len(activities)}, counted from 0")
    return index


def _step(frame: "object", block: "Block", given: "Replacements", depth: "int") -> "object":
    if block.kind == "ReferenceActivity":
        target, activity = blocks.reference(block)
        return evaluate(target, activity, given, depth + 1)
    if block.kind in blocks.SOURCES:
        return blocks.SOURCES[block.kind](block)
    if block.kind not in blocks.STEPS:
        known = ", ".join(sorted([*blocks.SOURCES, *blocks.STEPS, "ReferenceActivity"]))
        raise block.error(f"this block is not supported; supported are {known}. Do this step in the script instead")
    if frame is None:
        raise block.error("no data has been read before it")
    if isinstance(frame, blocks.UNPARSED) and block.kind not in ("ParseDelimited", *blocks.WITHOUT_EFFECT):
        raise block.error("the data has not been parsed before it")
    try:
        return blocks.STEPS[block.kind](frame, block)
    except DataPrepError:
        raise
    except KeyError as problem:
        columns = ", ".join(map(str, errors.names(frame)))
        raise block.error(f"there is no column {problem}; there are: {columns}") from None
    except (ValueError, TypeError, OSError, AttributeError, LookupError) as problem:
        raise block.error(f"it failed: {problem!r}") from problem


def _basename(path: "str") -> "str":
    return os.path.basename(path.replace("\\", "/"))


def _lines(text: "str", kinds: "list[str]") -> "list[int]":
    """The lines on which the blocks of these types begin, in the order in which they are written."""
    lines, position = [], 0
    for kind in kinds:
        match = re.compile(r'"type"\s*:\s*' + re.escape(json.dumps(kind))).search(text, position)
        position = match.end() if match is not None else position
        lines.append(text.count("\n", 0, position) + 1)
    return lines


def _short(kind: "str") -> "str":
    """``Microsoft.DPrep.ParseDelimitedBlock`` is ParseDelimited."""
    name = kind.rpartition(".")[2]
    return name[: -len("Block")] if name.endswith("Block") else name
