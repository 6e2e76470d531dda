"""Which entries an archive of runs may have."""

from __future__ import annotations

import stat
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipInfo

import pytest

from holdfast.errors import UsageError
from holdfast.store.archive_names import check, clash, clashes, name_problem

UID = "0123456789abcdef" * 2
RUN = f"runs/{UID}"
OBJECT = f"objects/ab/{'0' * 62}"


def entry(name: str, offset: int = 0, size: int = 10, packed: int = 10) -> ZipInfo:
    found = ZipInfo(name)
    found.header_offset, found.file_size, found.compress_size = offset, size, packed
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("holdfast-runs.json", OBJECT, f"{RUN}/run.json", f"{RUN}/client.jsonl", f"{RUN}/git.diff"),
        *(f"{RUN}/a1/events.jsonl", f"{RUN}/a9999/plan.json", f"{RUN}/a1/metrics/x.bin", f"{RUN}/a1/gpu/0"),
        f"{RUN}/a1/outputs/deep/er/model.bin",
    ],
)
def test_files_of_runs_are_accepted(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *((f"{RUN}/a1/outputs/../x", "leads out"), ("/etc/passwd", "leads out"), ("", "leads out")),
        (f"{RUN}/a1/outputs/\udcff", "not a string"),
        *((f"{RUN}/a0/plan.json", "not a file of a run"), (f"{RUN}/a10000/plan.json", "not a file of a run")),
        *((f"{RUN}/a1/other", "not a file of a run"), (f"{RUN}/a1/metrics/x/y", "not a file of a run")),
        *((f"{RUN[:-1]}/run.json", "not a file of a run"), (f"{RUN}0/run.json", "not a file of a run")),
        *((OBJECT[:-1], "not a file of a run"), (f"{OBJECT}0", "not a file of a run")),
        *(("objects/a/" + "0" * 62, "not a file of a run"), ("objects/AB/" + "0" * 62, "not a file of a run")),
        (f"{RUN}/a1/outputs/a\\b", "not a file of a run"),
        *((f"{RUN}/a1/outputs/a.", "not a valid file name"), (f"{RUN}/a1/outputs/a /b", "not a valid file name")),
        (f"{RUN}/a1/outputs/a\x07", "not a valid file name"),
    ],
)
def test_other_names_are_refused(name: str, problem: str) -> None:
    assert problem in name_problem(name)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("a", "b"), ""),
        (("a/b", "a/c", "ab"), ""),
        (("a", "A"), "'a' and 'A' would be the same file"),
        (("\u00e9", "e\u0301"), "'\\xe9' and 'e\\u0301' would be the same file"),
        (("ß", "SS"), "'\\xdf' and 'SS' would be the same file"),
        (("a/b/c", "A"), "'A' is a file and the folder of 'a/b/c'"),
        (("x/y", "a/b/c", "a/b"), "'a/b' is a file and the folder of 'a/b/c'"),
    ],
)
def test_two_names_for_one_file_are_a_clash(names: tuple[str, ...], problem: str) -> None:
    assert clash(names) == problem


def test_names_are_free_of_clashes_without_those_that_are_reported() -> None:
    names = ["a", "A", "b/c", "x/Y", "X/y", "A/d", "a/d/e"]
    reported = [name for name, _ in clashes(names)]
    assert reported == ["A", "X/y", "A/d", "a/d/e"]
    assert clash(name for name in names if name not in reported) == ""


def test_archive_as_it_is_written_is_accepted() -> None:
    files = [entry("holdfast-runs.json"), entry(f"{RUN}/run.json", 40), entry(OBJECT, 80, size=0, packed=0)]
    files[1].compress_type = ZIP_DEFLATED
    files[2].external_attr = (stat.S_IFREG | 0o644) << 16
    check(list(reversed(files)), 110, "x.zip")


def refusal(*files: ZipInfo, size: int = 1000) -> str:
    with pytest.raises(UsageError) as caught:
        check(list(files), size, "x.zip")
    assert caught.value.where == "x.zip"
    return str(caught.value.answer)


def test_entries_that_are_no_plain_files_are_refused() -> None:
    link, locked, packed, renamed = (entry("holdfast-runs.json") for _ in range(4))
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    locked.flag_bits = 1
    packed.compress_type = ZIP_BZIP2
    renamed.orig_filename = "holdfast-runs.json\0.exe"
    assert refusal(link) == "'holdfast-runs.json': it is not a regular file"
    assert refusal(locked) == "'holdfast-runs.json': it uses an unsupported compression"
    assert refusal(packed) == "'holdfast-runs.json': it uses an unsupported compression"
    assert refusal(renamed) == "'holdfast-runs.json\\x00.exe': it has two names"
    assert refusal(entry("other")) == "'other': this is not a file of a run"


def test_flags_other_than_encryption_are_accepted() -> None:
    named = entry("holdfast-runs.json")
    named.flag_bits, named.compress_type = 0x800, ZIP_STORED
    check([named], 100, "x.zip")


def test_entries_that_share_bytes_are_refused() -> None:
    first, second = entry("holdfast-runs.json", 5, packed=10), entry(OBJECT, 45)
    check([second, first], 100, "x.zip")
    second.header_offset = 44
    assert refusal(second, first) == f"'{OBJECT}' overlaps another file"
    assert "would be the same file" in refusal(first, first)


def test_archive_may_grow_two_hundred_times_and_64_mib() -> None:
    most = 200 * 100 + 64 * 1024 * 1024
    check([entry("holdfast-runs.json", size=most)], 100, "x.zip")
    assert refusal(entry("holdfast-runs.json", size=most + 1), size=100) == f"its 100 bytes would become {most + 1}"


def test_archive_has_at_most_two_million_entries() -> None:
    one = entry("other")
    assert refusal(*[one] * 2_000_001) == "it has 2000001 files"
    assert "not a file of a run" in refusal(*[one] * 2_000_000)
