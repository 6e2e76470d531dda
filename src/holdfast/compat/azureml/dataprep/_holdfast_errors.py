"""Values that could not be converted: missing in the result, and known to filters until then.

A column has a mark beside it, in a column of the same frame, so that the marks stay with their rows.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pandas as pd

_MARK = "\0error:"


def mark(frame: "pd.DataFrame", column: "str", failed: "pd.Series") -> "None":
    if failed.any():
        frame[_MARK + column] = failed
    elif _MARK + column in frame.columns:
        del frame[_MARK + column]


def marked(frame: "pd.DataFrame", column: "str") -> "pd.Series":
    """Which rows have an error in this column."""
    if _MARK + column in frame.columns:
        return frame[_MARK + column].astype(bool)
    return frame[column].isnull() & False


def names(frame: "pd.DataFrame") -> "list[str]":
    """The columns without the marks."""
    return [name for name in frame.columns if not str(name).startswith(_MARK)]


def with_marks(frame: "pd.DataFrame", columns: "list[str]") -> "list[str]":
    return columns + [_MARK + column for column in columns if _MARK + column in frame.columns]


def renamed(names: "dict[str, str]") -> "dict[str, str]":
    """New names of columns, and of their marks."""
    return {**names, **{_MARK + old: _MARK + new for old, new in names.items()}}


def without_marks(frame: "pd.DataFrame") -> "pd.DataFrame":
    kept = names(frame)
    return frame if len(kept) == len(frame.columns) else frame[kept]
