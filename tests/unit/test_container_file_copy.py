"""Copying a run's files out of a container: one entry that fails costs itself alone and is named."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

from holdfast.runner.container import file_copy

if TYPE_CHECKING:
    from pathlib import Path


def test_entries_that_cannot_be_written_are_named_and_the_others_come(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    stream = archive(("work/a", b"1"), ("work/a/below-a-file", b"2"), ("work/back\\slash", b"3"), ("work/z", b"4"))
    lost = file_copy._take_all(stream, str(tmp_path))
    assert len(lost) == 1
    assert "below-a-file" in lost[0]
    assert sorted(os.listdir(tmp_path / "work")) == ["a", "back\\slash", "z"]


def test_second_name_of_a_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("s")
    stream = archive(("work/model", b"weights"), ("work/again", "work/model"), ("work/x", "secret"), ("work/y", "../z"))
    lost = file_copy._take_all(stream, str(tmp_path / "work" / ".."))
    assert (tmp_path / "work" / "again").read_text() == "weights"
    assert len(lost) == 1, lost


def test_archive_that_ends_early_is_said_and_an_empty_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    whole = archive(("work/a", b"1" * 5000), ("work/b", b"2" * 5000)).read()
    assert file_copy._take_all(io.BytesIO(whole[:8000]), str(tmp_path)) != []
    assert (tmp_path / "work" / "a").read_bytes() == b"1" * 5000
    assert file_copy._take_all(io.BytesIO(b""), str(tmp_path)) == []


def archive(*entries: tuple[str, bytes | str]) -> io.BytesIO:
    """A tar stream of files (bytes) and hard links (the name of their file)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.LNKTYPE, content
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    out.seek(0)
    return out
