"""Steps that choose rows by conditions on a column.

The numbers of the conditions are those of packages that Microsoft and others published with what their steps do.
A number that was not seen in any of them is an error: to guess would give other rows without a word.
"""

from importlib import import_module

from . import _holdfast_errors as errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pandas as pd

    from ._holdfast_flow import Block

_KEEP = 0  # filterResult; 1 removes the rows
_ANY = 1  # clauseRelationship; 0: all of the conditions
_EQUAL, _NOT_EQUAL, _NULL, _NOT_NULL, _ERROR, _NOT_ERROR, _LESS = 0, 1, 2, 3, 4, 5, 8
_SHOWN = {0: "equals", 1: "does not equal", 2: "is null", 3: "is not null", 4: "is error", 5: "is not error"}


def filter_numbers(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    (column,) = block.columns(block.arguments)
    numbers = import_module("pandas").to_numeric(frame[column], errors="coerce")
    return _filtered(frame, column, numbers, block, {**_SHOWN, _LESS: "is less than"})


def filter_texts(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    (column,) = block.columns(block.arguments)
    return _filtered(frame, column, frame[column], block, _SHOWN)


def _filtered(
    frame: "pd.DataFrame", column: "str", values: "pd.Series", block: "Block", known: "dict[int, str]"
) -> "pd.DataFrame":
    clauses = block.arguments.get("clauses")
    if not isinstance(clauses, list) or not clauses or not all(isinstance(clause, dict) for clause in clauses):
        raise block.error("it has no clauses")
    failed = errors.marked(frame, column)
    masks = [_matches(values, failed, clause, block, known) for clause in clauses]
    chosen = masks[0]
    for mask in masks[1:]:
        chosen = chosen | mask if block.number("clauseRelationship", _ANY, range(2)) == _ANY else chosen & mask
    if block.number("filterResult", _KEEP, range(2)) != _KEEP:
        chosen = ~chosen
    return frame[chosen].reset_index(drop=True)


def _matches(
    values: "pd.Series", failed: "pd.Series", clause: "dict[str, object]", block: "Block", known: "dict[int, str]"
) -> "pd.Series":
    operator, value = clause.get("operator"), clause.get("value")
    if operator not in known:
        shown = ", ".join(f"{number} ({name})" for number, name in known.items())
        raise block.error(f"the operator {operator!r} is not known; known are {shown}. Do this in the script instead")
    without_value = {
        _NULL: values.isnull() & ~failed,
        _NOT_NULL: values.notnull() | failed,
        _ERROR: failed,
        _NOT_ERROR: ~failed,
    }
    if operator in without_value:
        return without_value[operator]
    if value is None:
        raise block.error(f"the operator {operator} ({known[operator]}) has no value")
    if values.dtype.kind in "iufb":
        value = float(str(value))
    elif not isinstance(value, str):
        value = str(value)
    if operator == _LESS:
        return values < value
    return values == value if operator == _EQUAL else values != value
