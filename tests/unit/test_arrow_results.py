"""Tables that a target sends are looked at before a library reads them."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import polars
import pyarrow
import pytest

from holdfast.api import arrow_results

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, table: pyarrow.Table, **options: object) -> Path:
    how = pyarrow.ipc.IpcWriteOptions(**options)
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema, options=how) as out:
        out.write_table(table, max_chunksize=2)
    return path


TABLE = pyarrow.table(
    {
        "number": [1, 2, None],
        "text": ["a", None, "c" * 99],
        "kind": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
        "list": [[1, 2], [], None],
        "struct": [{"a": 1.5, "b": [True]}, None, {"a": None, "b": []}],
        "map": pyarrow.array([[("k", 1)], [], None], type=pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "nothing": pyarrow.nulls(3),
    }
)


def test_tables_of_every_kind_of_column_come_back_as_they_were(tmp_path: Path) -> None:
    path = written(tmp_path / "table", TABLE)
    assert arrow_results.read("pyarrow", path).equals(TABLE)
    assert repr(arrow_results.read("pandas", path).to_dict()) == repr(TABLE.to_pandas().to_dict())
    assert arrow_results.read("pandas", written(tmp_path / "empty", TABLE.slice(0, 0))).shape == (0, 7)
    frame = polars.DataFrame({"a": [1, 2, None], "b": ["x", "y" * 50, None], "c": [[1], [], [2, 3]]})
    for name, each in (
        ("some", frame),
        ("none", polars.DataFrame()),
        ("many", polars.DataFrame({"a": range(999_999)})),
    ):
        each.write_ipc(tmp_path / name)
        assert arrow_results.read("polars", tmp_path / name).equals(each)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_table_is_refused_with_what_to_do(tmp_path: Path, kind: str, compression: str) -> None:
    path = written(tmp_path / "table", pyarrow.table({"a": [0] * 100_000}), compression=compression)
    with pytest.raises(ValueError, match=r"the table is compressed.*; write it to a file in outputs/ instead"):
        arrow_results.read(kind, path)


def test_part_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    """A short file could name a long part a million times."""
    path = written(tmp_path / "table", pyarrow.table({"a": [1, 2, 3, 4]}))
    data = bytearray(path.read_bytes())
    start = len(data) - 10 - struct.unpack_from("<i", data, len(data) - 10)[0]
    offsets = [at for at in range(start, len(data) - 8) if 0 < struct.unpack_from("<q", data, at)[0] < start]
    blocks = [at for at in offsets if data[struct.unpack_from("<q", data, at)[0] :][:4] == b"\xff" * 4]
    assert len(blocks) == 2
    data[blocks[1] : blocks[1] + 24] = data[blocks[0] : blocks[0] + 24]
    path.write_bytes(data)
    with pytest.raises(ValueError, match="the parts of the Arrow file overlap"):
        arrow_results.read("pyarrow", path)


def test_damaged_files_are_value_errors_or_errors_of_the_library(tmp_path: Path) -> None:
    whole, numbers = written(tmp_path / "table", TABLE).read_bytes(), random.Random(17)
    for count in range(2000):
        data = bytearray(whole[: numbers.randrange(1, len(whole))] if count % 4 == 0 else whole)
        for _ in range(numbers.randrange(4)):
            data[numbers.randrange(len(data))] = numbers.randrange(256)
        (tmp_path / "damaged").write_bytes(data)
        try:
            arrow_results.read("pyarrow", tmp_path / "damaged")
        except (ValueError, OSError, pyarrow.ArrowException):
            continue
