"""The blocks of data flows that are known, by the names that files have for them."""

from . import _holdfast_code as code
from . import _holdfast_columns as columns
from . import _holdfast_filters as filters
from . import _holdfast_sources as sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._holdfast_flow import Block


def _unchanged(frame: "object", _block: "Block") -> "object":
    return frame


UNPARSED = (sources.Text, sources.Rows)
Rows = sources.Rows
reference = sources.reference
SOURCES: "dict[str, Callable[[Block], object]]" = {"DataSource": sources.source, "GetFiles": sources.source}
# Paths are not added to the data, and all rows are read.
WITHOUT_EFFECT = ("HandlePathColumn", "Sample")
STEPS: "dict[str, Callable[..., object]]" = {
    "ParseDelimited": sources.parse_delimited,
    "SetColumnTypes": columns.set_types,
    "ConvertColumnFieldType": columns.to_numbers,
    "ColumnRename": columns.rename,
    "DeleteColumn": columns.drop,
    "DropColumns": columns.drop,
    "KeepColumn": columns.keep,
    "KeepColumns": columns.keep,
    "MissingValues": columns.fill,
    "SelectRowsOnDistinctValuesInColumn": columns.distinct,
    "FilterNumberColumn": filters.filter_numbers,
    "FilterStringColumn": filters.filter_texts,
    "AddCustomColumn": code.add_column,
    "Custom": code.transform,
    **dict.fromkeys(WITHOUT_EFFECT, _unchanged),
}
