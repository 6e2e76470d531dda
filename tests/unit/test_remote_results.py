"""How the value of a remote function is encoded where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas
import polars
import pytest

from holdfast.script_api.remote_call import CannotReturn, Encoder

if TYPE_CHECKING:
    from pathlib import Path

FRAMES = {
    "mixed": pandas.DataFrame({"a": [1, "x"]}),
    "repeated": pandas.DataFrame([[1, 2]], columns=["a", "a"]),
    "complex": pandas.DataFrame({"a": [1j]}),
    "objects": polars.DataFrame({"a": [object()]}),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_data_frame_that_arrow_cannot_hold_is_refused_like_other_values(frame: Any, tmp_path: Path) -> None:
    with pytest.raises(CannotReturn) as caught:
        Encoder(str(tmp_path), ", or pickle it").encode({"a": frame}, "result", 0)
    text = str(caught.value)
    assert text.startswith("result['a'] is a data frame that Arrow has no form for (")
    assert text.endswith("or write it to a file in holdfast.outputs(), or pickle it")


def test_data_frame_for_a_full_or_missing_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        Encoder(str(tmp_path / "missing"), "").encode(pandas.DataFrame({"a": [1]}), "result", 0)
