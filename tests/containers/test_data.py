"""Data of a run in a container: mounted read-only at its own path, or copied where nothing can be mounted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from containers.conftest import Seat

pytestmark = pytest.mark.parametrize("ground", ["docker", "remote-podman"], indirect=True)

READ = """
import errno, os
path = os.environ["HOLDFAST_DATA_SET"]
assert os.path.realpath("data/set") == os.path.realpath(path)
print("content", open(os.path.join(path, "deep", "a.txt")).read())
try:
    open(os.path.join(path, "new"), "w")
except OSError as error:
    print("refused with", errno.errorcode[error.errno])
"""


def test_data_is_mounted_read_only_in_a_container(seat: Seat, tmp_path: Path) -> None:
    folder = tmp_path / "sets" / "digits"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.txt").write_text("of the set")
    result = seat.submit(READ, "--data", f"set={folder}")
    assert result.code == 0, result
    assert "content of the set\n" in result.text
    assert "refused with EROFS\n" in result.text
    assert seat.desk.record()["data"][0]["files"] == 1


def test_data_is_copied_into_a_container_without_shared_folders(seat: Seat, tmp_path: Path) -> None:
    file = tmp_path / "set.txt"
    file.write_text("of the file")
    seat.target("sharedVolumes: false")
    script = "import os; print(open('data/set').read(), os.environ['HOLDFAST_DATA_SET'])"
    result = seat.submit(script, "--data", f"set={file}")
    assert result.code == 0, result
    assert "of the file " in result.text
