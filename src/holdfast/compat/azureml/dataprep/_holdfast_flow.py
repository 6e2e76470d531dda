"""Evaluates the data flows of ``.dprep`` and ``.dsource`` files, block by block, with pandas.

A block that is not known, or that has arguments that are not, is an error with the file, the line and the block.
"""

import json
import os
import re

from . import _holdfast_blocks as blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pandas as pd

_DEEPEST = 16  # references from file to file
_LARGEST = 64 << 20


class DataPrepError(ValueError):
    """A data flow that cannot be evaluated here."""


class Block:
    """One step as written in a file."""

    def __init__(self, file: "str", line: "int", kind: "str", arguments: "dict[str, object]") -> "None":
        self.file = file
        self.line = line
        self.kind = kind
        self.arguments = arguments

    def error(self, problem: "str") -> "DataPrepError":
        return DataPrepError(f"{self.file}:{self.line}: block {self.kind}: {problem}")


def evaluate(
    path: "str", index: "int" = 0, given: "dict[str, object] | None" = None, depth: "int" = 0
) -> "pd.DataFrame":
    """The frame that a data flow ends with; ``given`` are frames by the file of the data source they replace."""
    if depth > _DEEPEST:
        raise DataPrepError(f"{path}: data flows refer to each other without end")
    replaced = _given_for(path, given)
    if replaced is not None:
        return replaced
    frame = None
    for block in read(path, index):
        frame = _step(frame, block, given, depth)
    if frame is None:
        raise DataPrepError(f"{path}: the data flow reads no data")
    return frame


def read(path: "str", index: "int" = 0) -> "list[Block]":
    """The enabled blocks of one data flow."""
    with open(path, "rb") as source:
        text = source.read(_LARGEST).decode("utf-8-sig")
    try:
        content = json.loads(text)
        activities = content["activities"]
        activity = activities[index]
        steps = activity["blocks"]
        rows = [(str(step["type"]), step.get("arguments") or {}) for step in steps if step.get("isEnabled", True)]
    except IndexError:
        raise DataPrepError(f"{path}: there is no data flow {index}; it has {len(activities)}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise DataPrepError(
            f"{path}: not a data flow of the original, which is JSON with activities: {problem!r}"
        ) from None
    before = sum(len(other.get("blocks") or ()) for other in activities[:index] if isinstance(other, dict))
    lines = _lines(text)[before:]
    numbers = [number for number, step in enumerate(steps) if step.get("isEnabled", True)]
    return [
        Block(path, lines[number] if number < len(lines) else 1, _short(kind), arguments)
        for number, (kind, arguments) in zip(numbers, rows)  # noqa: B905 - Python 3.6 has no strict
    ]


def _step(
    frame: "pd.DataFrame | None", block: "Block", given: "dict[str, object] | None", depth: "int"
) -> "pd.DataFrame":
    if block.kind == "ReferenceActivity":
        target = blocks.reference(block)
        return evaluate(blocks.find_file(block, target), 0, given, depth + 1)
    if block.kind in blocks.SOURCES:
        return blocks.SOURCES[block.kind](block)
    if block.kind not in blocks.STEPS:
        known = ", ".join(sorted([*blocks.SOURCES, *blocks.STEPS, "ReferenceActivity"]))
        raise block.error(f"this block is not supported; supported are {known}. Do this step in the script instead")
    if frame is None:
        raise block.error("no data has been read before it")
    try:
        return blocks.STEPS[block.kind](frame, block)
    except KeyError as problem:
        columns = ", ".join(map(str, frame.columns))
        raise block.error(f"there is no column {problem}; there are: {columns}") from None


def _given_for(path: "str", given: "dict[str, object] | None") -> "pd.DataFrame | None":
    for name, frame in (given or {}).items():
        if os.path.basename(str(name).replace("\\", "/")) == os.path.basename(path):
            to_pandas = getattr(frame, "toPandas", None)
            return to_pandas() if to_pandas is not None else frame
    return None


def _lines(text: "str") -> "list[int]":
    """The line of each block's type, in order; types of other things have no such name."""
    matches = re.finditer(r'"type"\s*:\s*"[^"\n]*Block"|"type"\s*:\s*"Microsoft\.DPrep\.[^"\n]*"', text)
    lines, line, position = [], 1, 0
    for match in matches:
        line += text.count("\n", position, match.start())
        position = match.start()
        lines.append(line)
    return lines


def _short(kind: "str") -> "str":
    """``Microsoft.DPrep.ParseDelimitedBlock`` is ParseDelimited."""
    name = kind.rpartition(".")[2]
    return name[: -len("Block")] if name.endswith("Block") else name
