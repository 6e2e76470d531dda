"""Steps that change columns: their types, names, order and number."""

from importlib import import_module

from . import _holdfast_errors as errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from ._holdfast_flow import Block

_KINDS = {0: "string", 1: "boolean", 2: "integer", 3: "decimal", 4: "date"}
_REPLACE = 2
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def set_types(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    rows = block.arguments.get("columnConversion")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise block.error("columnConversion is not a list of columns and types")
    frame = frame.copy()
    for row in rows:
        kind = _KINDS.get(row.get("typeProperty"))
        if kind is None:
            known = ", ".join(f"{number} ({name})" for number, name in _KINDS.items())
            raise block.error(f"the typeProperty {row.get('typeProperty')!r} is not known; known are {known}")
        details = row.get("typeArguments") or {}
        for column in block.columns(row):
            _convert(frame, column, kind, details.get("dateTimeFormats") or ())
    return frame


def to_numbers(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    if block.number("decimalPoint", 0):
        raise block.error("only numbers with a decimal point are supported: decimalPoint 0")
    frame = frame.copy()
    for column in block.columns(block.arguments):
        _convert(frame, column, "decimal", ())
    return frame


def _convert(frame: "pd.DataFrame", column: "str", kind: "str", formats: "object") -> "None":
    before = frame[column]
    after = _dates(before, list(formats)) if kind == "date" else _CONVERTERS[kind](before)  # type: ignore[call-overload]
    errors.mark(frame, column, before.notnull() & after.isnull() | errors.marked(frame, column))
    frame[column] = after


def _strings(values: "pd.Series") -> "pd.Series":
    pandas = import_module("pandas")
    return values.map(lambda value: value if pandas.isnull(value) else str(value))


def _booleans(values: "pd.Series") -> "pd.Series":
    return values.map(lambda value: _BOOLEANS.get(str(value).strip().lower()))


def _decimals(values: "pd.Series") -> "pd.Series":
    numbers: pd.Series = import_module("pandas").to_numeric(values, errors="coerce")
    return numbers.astype("float64")


def _integers(values: "pd.Series") -> "pd.Series":
    numbers: pd.Series = import_module("pandas").to_numeric(values, errors="coerce")
    if numbers.dtype.kind == "f":
        numbers = numbers.where(numbers % 1 == 0)
    return numbers if numbers.isnull().any() else numbers.astype("int64")


def _dates(values: "pd.Series", formats: "list[str]") -> "pd.Series":
    pandas = import_module("pandas")
    if not formats:
        # pandas 2 takes the format of the first value for all, unless it is told not to.
        mixed = {"format": "mixed"} if int(pandas.__version__.partition(".")[0]) >= 2 else {}
        dates: pd.Series = pandas.to_datetime(values, errors="coerce", **mixed)
        return dates
    dates = pandas.to_datetime(values, errors="coerce", format=formats[0])
    for other in formats[1:]:
        dates = dates.fillna(pandas.to_datetime(values, errors="coerce", format=other))
    return dates


_CONVERTERS: "dict[str, Callable[[pd.Series], pd.Series]]" = {
    "string": _strings,
    "boolean": _booleans,
    "integer": _integers,
    "decimal": _decimals,
}


def rename(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    new = block.arguments.get("newColumnId")
    (old,) = block.columns(block.arguments)
    if not isinstance(new, str):
        raise block.error("it has no newColumnId")
    if old not in frame.columns:
        raise KeyError(old)
    return frame.rename(columns=errors.renamed({old: new}))


def drop(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    """A column of paths is dropped by some flows; it was never added here."""
    columns = [name for name in block.columns(block.arguments) if name != "Path" or name in frame.columns]
    return frame.drop(errors.with_marks(frame, columns), axis=1)


def keep(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    return frame[errors.with_marks(frame, block.columns(block.arguments))]


def fill(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    """``MissingValues`` with a value to write instead."""
    action, value = block.arguments.get("action"), block.arguments.get("replacementValue")
    if action != _REPLACE or value is None:
        known = f"only action {_REPLACE} with a replacementValue is supported"
        raise block.error(f"{known}; this is action {action!r} with {value!r}")
    frame = frame.copy()
    for column in block.columns(block.arguments):
        missing = frame[column].isnull() & ~errors.marked(frame, column)
        if missing.any():
            number = frame[column].dtype.kind in "if"
            frame[column] = frame[column].where(~missing, float(str(value)) if number else value)
    return frame


def distinct(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    return frame.drop_duplicates(block.columns(block.arguments)).reset_index(drop=True)
