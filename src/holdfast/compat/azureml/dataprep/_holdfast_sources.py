"""Where a data flow takes its data from: files of the project, and how their lines become columns."""

import io
import os
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from ._holdfast_flow import Block

_ENCODINGS = {0: "utf-8-sig", 1: "iso-8859-1", 2: "iso-8859-1", 3: "ascii", 4: "utf-16", 5: "utf-32", 6: "utf-8-sig"}
_NO_HEADERS, _FIRST_FILE_ONLY = 0, 1  # columnHeadersMode; 2 and 3: every file has headers
_NO_SKIP, _SKIP_IN_FIRST = 0, 1  # skipRowsMode; 2: in every file


class Text:
    """Files that were found and not parsed yet."""

    def __init__(self, paths: "list[str]") -> "None":
        self.paths = paths


class Rows:
    """Rows from memory in place of the lines of a file."""

    def __init__(self, rows: "Sequence[Sequence[object]]") -> "None":
        self.rows = [list(row) for row in rows]


def find_file(block: "Block", path: "str") -> "str":
    """A file named in a flow: beside the flow, in the project, or, for a path of another machine, by its name there."""
    if "://" in path:
        raise block.error(f"{path} is not in the project; download it and name the file")
    plain = path.replace("\\", "/")
    here, name = os.path.dirname(os.path.abspath(block.file)), plain.rpartition("/")[2]
    candidates = [os.path.join(here, plain), plain, os.path.join(here, name), name, os.path.join("data", name)]
    for candidate in candidates:
        if os.path.isfile(candidate):
            inside = os.path.relpath(candidate)
            return candidate if inside.startswith("..") else inside
    raise block.error(f"{path} does not exist, nor does {name} in the project; put the file beside {block.file}")


def reference(block: "Block") -> "tuple[str, int | str]":
    """The file that another flow is in, and which of its flows."""
    target = block.arguments.get("reference")
    if not isinstance(target, dict):
        raise block.error("it refers to no data flow")
    if target.get("referencedStep") is not None or target.get("anonymousSteps") is not None:
        raise block.error("it refers to a step inside another data flow, which is not supported; refer to the whole")
    path = target.get("referenceContainerPath")
    activity = target.get("referencedActivityId")
    if path is not None and not isinstance(path, str):
        raise block.error("referenceContainerPath is not the name of a file")
    if path is None and not isinstance(activity, str):
        raise block.error("it names no file and no data flow")
    file = block.file if path is None else find_file(block, path)
    return file, activity if isinstance(activity, str) else 0


def source(block: "Block") -> "Text":
    """``path.resourceDetails`` is a list of ``path``."""
    path = block.arguments.get("path")
    details = path.get("resourceDetails") if isinstance(path, dict) else None
    paths = [item.get("path") for item in details or () if isinstance(item, dict)]
    if not paths or not all(isinstance(item, str) for item in paths):
        raise block.error("it names no file; only files of the project can be read")
    return Text([find_file(block, str(item)) for item in paths])


def parse_delimited(data: "Text | Rows", block: "Block") -> "pd.DataFrame":
    """Every column is text; empty fields are missing values, and nothing else is."""
    if not isinstance(data, (Text, Rows)):
        raise block.error("the data has been parsed before")
    mode = block.number("columnHeadersMode", 3, range(4))
    if isinstance(data, Rows):
        return _numbered(_of_rows(data.rows, mode != _NO_HEADERS), mode)
    frames: list[pd.DataFrame] = []
    for number, path in enumerate(data.paths):
        headers = mode != _NO_HEADERS and not (mode == _FIRST_FILE_ONLY and number)
        frame = _of_file(path, block, headers, number)
        if number and not headers and len(frame.columns) == len(frames[0].columns):
            frame.columns = frames[0].columns
        frames.append(frame)
    pandas = import_module("pandas")
    return _numbered(pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0], mode)


def _of_rows(rows: "list[list[object]]", headers: "bool") -> "pd.DataFrame":
    columns = [str(name) for name in rows[0]] if headers and rows else None
    frame: pd.DataFrame = import_module("pandas").DataFrame(rows[1:] if headers else rows, columns=columns)
    return frame


def _of_file(path: "str", block: "Block", headers: "bool", number: "int") -> "pd.DataFrame":
    mode = block.number("skipRowsMode", 2, range(3))
    skip = block.number("skipRows", 0)
    separator = str(block.arguments.get("separator") or ",")
    code = block.number("fileEncoding", 0)
    if code not in _ENCODINGS:
        raise block.error(f"the fileEncoding {code} is not known; save {path} as UTF-8 and write 0")
    with open(path, "rb") as file:
        content = file.read()
    try:
        text = content.decode(_ENCODINGS[code])
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise block.error(
            f"{path}:{line}: not {_ENCODINGS[code].replace('-sig', '')} text; save it as UTF-8, or change fileEncoding"
        ) from None
    frame: pd.DataFrame = import_module("pandas").read_csv(
        io.StringIO(text),
        sep=separator,
        header=0 if headers else None,
        skiprows=0 if mode == _NO_SKIP or (mode == _SKIP_IN_FIRST and number) else skip,
        dtype=str,
        comment=block.arguments.get("commentLineCharacter") or None,
        keep_default_na=False,
        na_values=[""],
        engine="c" if len(separator) == 1 else "python",
    )
    if type(frame.index).__name__ != "RangeIndex":  # pandas takes what is too much at the left for names of rows
        raise block.error(f"{path}: a row has more fields than the {len(frame.columns)} headers")
    return frame


def _numbered(frame: "pd.DataFrame", mode: "int") -> "pd.DataFrame":
    if mode == _NO_HEADERS:
        frame.columns = [f"Column{number + 1}" for number in range(len(frame.columns))]
    return frame
