"""The blocks of data flows that are known: sources of data, and steps from frame to frame."""

import io
import os
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from ._holdfast_flow import Block

# The numbers of the original's types of columns.
_TYPES = {0: "string", 1: "boolean", 2: "integer", 3: "decimal", 4: "date"}
_NAMES = {"string": 0, "text": 0, "boolean": 1, "logical": 1, "integer": 2, "long": 2, "decimal": 3, "numeric": 3}
_ENCODINGS = {0: "utf-8-sig", 1: "iso-8859-1", 2: "iso-8859-1", 3: "ascii", 4: "utf-16", 5: "utf-32", 8: "cp1252"}
_LITERAL = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " "}


class Text:
    """Files that were found and not parsed yet."""

    def __init__(self, paths: "list[str]") -> "None":
        self.paths = paths


def find_file(block: "Block", path: "str") -> "str":
    """A file named in a flow: beside the flow, in the project, or, for a path of another machine, by its name there."""
    if "://" in path:
        raise block.error(f"{path} is not in the project; download it and name the file")
    plain = path.replace("\\", "/")
    here, name = os.path.dirname(os.path.abspath(block.file)), plain.rpartition("/")[2]
    places = [os.path.join(here, plain), plain, os.path.join(here, name), name, os.path.join("data", name)]
    for candidate in places:
        if os.path.exists(candidate):
            return candidate
    raise block.error(f"{path} does not exist, nor does {name} in the project; put the file beside {block.file}")


def reference(block: "Block") -> "str":
    """The file that another flow is in."""
    path = _first(block.arguments, ("reference", "relativePath", "path", "packagePath", "dataSourcePath", "filePath"))
    if not isinstance(path, str):
        raise block.error("it names no file")
    return path


def _source(block: "Block") -> "Text":
    path = _first(block.arguments, ("path", "resourceDetails", "dataSource", "filePath", "uri"))
    paths = path if isinstance(path, list) else [path]
    if not paths or not all(isinstance(item, str) for item in paths):
        raise block.error("it names no file; only files of the project can be read")
    return Text([find_file(block, str(item)) for item in paths])


def _parse_delimited(text: "pd.DataFrame | Text", block: "Block") -> "pd.DataFrame":
    pandas = import_module("pandas")
    if not isinstance(text, Text):
        raise block.error("the data has been parsed before")
    arguments = block.arguments
    separator = str(arguments.get("separator") or arguments.get("delimiter") or ",")
    skip = arguments.get("skipRows") or arguments.get("skipLinesCount") or 0
    mode = arguments.get("columnHeadersMode", arguments.get("promoteHeadersMode", 3))
    if not isinstance(skip, int) or not isinstance(mode, int):
        raise block.error("skipRows and columnHeadersMode are not numbers")
    encoding = _ENCODINGS.get(arguments.get("fileEncoding", 0), "utf-8-sig")  # type: ignore[call-overload]
    frames = []
    for path in text.paths:
        with open(path, "rb") as source:
            content = source.read().decode(encoding)
        frames.append(
            pandas.read_csv(
                io.StringIO(content),
                sep=_LITERAL.get(separator.lower(), separator),
                header=0 if mode else None,
                skiprows=skip,
                dtype=str,
                comment=arguments.get("commentLineCharacter") or None,
            )
        )
    frame = pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    if not mode:
        frame.columns = [f"Column{number + 1}" for number in range(len(frame.columns))]
    return frame


def _set_types(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    rows = _first(block.arguments, ("columnConversion", "columnConversions", "columnTypes", "conversions"))
    if isinstance(rows, dict):
        rows = [{"column": name, "typeProperty": kind} for name, kind in rows.items()]
    if not isinstance(rows, list):
        raise block.error("it names no columns and types")
    frame = frame.copy()
    for row in rows:
        kind = _first(row, ("typeProperty", "type", "dataType", "newType"))
        kind = _NAMES.get(str(kind).lower(), 4 if str(kind).lower() in ("date", "datetime") else kind)
        for column in _columns(row, block):
            frame[column] = _converted(frame[column], kind, block)
    return frame


def _converted(values: "pd.Series", kind: "object", block: "Block") -> "pd.Series":
    pandas = import_module("pandas")
    name = _TYPES.get(kind)  # type: ignore[call-overload]
    if name is None:
        raise block.error(f"the type {kind!r} is not known; known are {', '.join(_TYPES.values())}")
    if name == "string":
        return values.map(lambda value: value if pandas.isnull(value) else str(value))
    if name == "boolean":
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        return values.map(lambda value: known.get(str(value).strip().lower()))
    if name == "date":
        return pandas.to_datetime(values, errors="coerce")
    numbers = pandas.to_numeric(values, errors="coerce")
    return numbers.astype("int64") if name == "integer" and not numbers.isnull().any() else numbers


def _rename(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    pairs = _first(block.arguments, ("columnPairs", "renames"))
    if not isinstance(pairs, list):
        pairs = [block.arguments]
    names = {}
    for pair in pairs:
        new = _first(pair, ("newColumnId", "newColumnName", "newName", "to"))
        (old,) = _columns(pair, block)
        if not isinstance(new, str) or old not in frame.columns:
            raise block.error(f"{old!r} cannot be renamed to {new!r}")
        names[old] = new
    return frame.rename(columns=names)


def _drop(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    columns = _columns(block.arguments, block)
    return frame.drop([column for column in columns if column != "Path" or column in frame.columns], axis=1)


def _keep(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    return frame[_columns(block.arguments, block)]


def _filter_number(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    pandas = import_module("pandas")
    (column,) = _columns(block.arguments, block)
    operator, value = _condition(block)
    numbers = pandas.to_numeric(frame[column], errors="coerce")
    limit = float(value)  # type: ignore[arg-type]
    tests = {"=": numbers == limit, "!=": numbers != limit, "<": numbers < limit, "<=": numbers <= limit}
    tests.update({">": numbers > limit, ">=": numbers >= limit})
    if operator not in tests:
        raise block.error(f"the condition {operator!r} is not known; known are {', '.join(tests)}")
    return frame[tests[operator]].reset_index(drop=True)


def _filter_string(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    (column,) = _columns(block.arguments, block)
    operator, value = _condition(block)
    texts = frame[column].fillna("").astype(str)
    wanted = str(value)
    if block.arguments.get("ignoreCase"):
        texts, wanted = texts.str.lower(), wanted.lower()
    tests = {
        "=": texts == wanted,
        "!=": texts != wanted,
        "contains": texts.str.contains(wanted, regex=False),
        "notcontains": ~texts.str.contains(wanted, regex=False),
        "startswith": texts.str.startswith(wanted),
        "endswith": texts.str.endswith(wanted),
    }
    if operator not in tests:
        raise block.error(f"the condition {operator!r} is not known; known are {', '.join(tests)}")
    return frame[tests[operator]].reset_index(drop=True)


def _condition(block: "Block") -> "tuple[str, object]":
    operator = _first(block.arguments, ("operator", "condition", "comparison", "filterOperator"))
    value = _first(block.arguments, ("value", "filterValue", "operand"))
    names = {"equals": "=", "==": "=", "eq": "=", "notequals": "!=", "<>": "!=", "lessthan": "<", "greaterthan": ">"}
    names.update({"lessthanorequal": "<=", "greaterthanorequal": ">=", "doesnotcontain": "notcontains"})
    text = str(operator).replace(" ", "").lower()
    return names.get(text, text), value


def _derive(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    """A column by an expression in Python with ``row``; the flow is part of the project, as the script is."""
    name = _first(block.arguments, ("newColumnName", "newColumnId", "columnName", "codeBlockName"))
    expression = _first(block.arguments, ("customExpression", "expression", "code"))
    if not isinstance(name, str) or not isinstance(expression, str):
        raise block.error("it has no newColumnName or no expression in Python")
    try:
        compute = compile(expression.strip(), f"{block.file}:{block.line}", "eval")
        import math

        values = [eval(compute, {"row": row, "math": math}) for row in frame.to_dict("records")]
    except Exception as problem:
        raise block.error(f"the expression {expression!r} failed: {problem!r}") from problem
    frame = frame.copy()
    frame[name] = values
    return frame


def _unchanged(frame: "pd.DataFrame", _block: "Block") -> "pd.DataFrame":
    return frame


def _columns(arguments: "dict[str, object]", block: "Block") -> "list[str]":
    """Names of columns, in every shape that selections have."""
    value = _first(arguments, ("columnIds", "columnId", "columns", "column", "selectedColumns", "selectedColumn"))
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) for name in names):
        raise block.error("it names no columns")
    return [str(name) for name in names]


def _first(value: "object", keys: "tuple[str, ...]") -> "object":
    """What stands below the first of these keys; selections and resources are taken out of their wrapping."""
    if not isinstance(value, dict):
        return None
    return next((_unwrapped(value[key]) for key in keys if value.get(key) is not None), None)


def _unwrapped(value: "object") -> "object":
    wrappings = ("details", "selectedColumns", "selectedColumn", "resourceDetails", "path", "relativePath", "value")
    for _ in range(8):
        if isinstance(value, list) and value and isinstance(value[0], dict) and "path" in value[0]:
            return [item.get("path") for item in value if isinstance(item, dict)]
        if not isinstance(value, dict):
            break
        inner = next((value[name] for name in wrappings if value.get(name) is not None), None)
        if inner is None:
            break
        value = inner
    return value


SOURCES: "dict[str, Callable[[Block], Text]]" = {"DataSource": _source, "GetFiles": _source}
STEPS: "dict[str, Callable[[pd.DataFrame, Block], pd.DataFrame]]" = {
    "ParseDelimited": _parse_delimited,
    "SetColumnTypes": _set_types,
    "ColumnRename": _rename,
    "RenameColumns": _rename,
    "DeleteColumn": _drop,
    "DropColumns": _drop,
    "KeepColumns": _keep,
    "FilterNumber": _filter_number,
    "FilterString": _filter_string,
    "AddCustomColumn": _derive,
    # Paths are not added to the data, and all rows are read.
    "HandlePathColumn": _unchanged,
    "Sample": _unchanged,
}
