"""Runs that leave one store and come into another: whole, once, and never at a hostile archive's will."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from conftest import Desk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRIPT = """
import holdfast, os, sys
holdfast.log("acc", float(sys.argv[1]))
print("trained with", sys.argv[1])
os.makedirs("outputs/deep", exist_ok=True)
open("outputs/deep/model.bin", "wb").write(b"w" * 1000)
os.symlink("deep/model.bin", "outputs/latest")
"""
UID = "0123456789abcdef" * 2


@pytest.fixture
def archive(desk: Desk) -> Path:
    desk.script(SCRIPT)
    desk.script("x = 1", "pkg/part.py")
    for value in ("0.5", "0.75"):
        desk.submit("train.py", value)
    desk.holdfast("history", "tag", "-r", "2", "kept")
    path = desk.project / "runs.zip"
    done = desk.holdfast("history", "export", "--all", "--to", str(path))
    assert done.code == 0, done.err
    return path


@pytest.fixture
def other(tmp_path: Path, desk: Desk) -> Desk:
    """Another person, with a checkout of the same project and one run of their own."""
    place = tmp_path / "other"
    place.mkdir()
    other = Desk(place)
    other.script("print('mine')")
    return other


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def zipped(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return target.getvalue()


def test_exported_runs_can_be_imported(desk: Desk, archive: Path, other: Desk) -> None:
    (other.project / ".holdfast-project").write_bytes((desk.project / ".holdfast-project").read_bytes())
    other.submit("train.py")
    done = other.holdfast("history", "import", str(archive))
    assert done.code == 0, done.err
    assert "2 runs imported" in done.err
    listed = other.holdfast("history", "list", "-o", "json").json
    assert [(row["run_number"], row.get("acc")) for row in listed] == [(3, 0.75), (2, 0.5), (1, None)]
    mine, theirs = other.record("3"), desk.record("2")
    for name in (
        "run_id",
        "uid",
        "status",
        "acc",
        "duration",
        "arguments",
        "script_name",
        "tags",
        "properties",
        "user",
    ):
        assert mine[name] == theirs[name], name
    request = json.loads((other.attempt("3").parent / "run.json").read_bytes())
    assert request["origin_number"] == 2
    assert other.holdfast("logs", "-r", "3").text == "trained with 0.75\n"
    assert (other.attempt("3") / "outputs" / "deep" / "model.bin").read_bytes() == b"w" * 1000
    assert other.holdfast("restore", "-r", "3", "--to", "back").code == 0
    assert (other.project / "back" / "pkg" / "part.py").read_text() == "x = 1"
    assert other.holdfast("store", "verify").code == 0
    assert list(other.home.glob("import-*")) == []


def test_return_refuses_an_imported_run_of_another_project_and_download_does_not(archive: Path, other: Desk) -> None:
    other.submit("train.py")
    assert other.holdfast("history", "import", str(archive)).code == 0
    foreign = next(row["run_id"] for row in other.holdfast("runs", "-A", "-o", "json").json if row.get("acc") == 0.5)
    before = sorted(other.project.rglob("*"))
    for command in ("return", "restore"):
        refused = other.holdfast(command, "-r", foreign)
        assert refused.code == 2, refused
        assert "this run belongs to another project" in refused.err
    assert f"holdfast history download -r {foreign}" in other.holdfast("return", "-r", foreign).err
    assert sorted(other.project.rglob("*")) == before
    downloaded = other.holdfast("history", "download", "-r", foreign, "-d", "copies")
    assert downloaded.code == 0, downloaded
    assert (other.project / "copies/outputs/deep/model.bin").stat().st_size == 1000


def test_second_import_changes_nothing(archive: Path, other: Desk) -> None:
    other.holdfast("history", "import", str(archive))
    before = sorted(str(path.relative_to(other.home)) for path in (other.home / "runs").rglob("*"))
    done = other.holdfast("history", "import", str(archive))
    assert (done.code, "0 runs imported, 2 already present" in done.err) == (0, True)
    assert sorted(str(path.relative_to(other.home)) for path in (other.home / "runs").rglob("*")) == before


def test_an_imported_run_can_go_on_to_a_third(archive: Path, other: Desk, tmp_path: Path) -> None:
    other.holdfast("history", "import", str(archive))
    uid = other.holdfast("history", "list", "--all", "-o", "json").json[0]["uid"]
    assert other.holdfast("history", "export", "-r", uid, "--to", "one.zip").code == 0
    place = tmp_path / "third"
    place.mkdir()
    third = Desk(place)
    assert third.holdfast("history", "import", str(other.project / "one.zip")).code == 0
    request = json.loads((third.home / "runs" / uid / "run.json").read_bytes())
    assert request["origin_number"] == 2


def test_run_with_names_that_differ_in_case_is_exported_without_the_second(desk: Desk, other: Desk) -> None:
    desk.script("for name in ('Model.bin', 'model.bin'): open(f'outputs/{name}', 'w').write(name)")
    desk.submit("train.py")
    exported = desk.holdfast("history", "export", "-r", "1", "--to", "runs.zip")
    assert exported.code == 0, exported
    assert "'a1/outputs/Model.bin' and 'a1/outputs/model.bin' would be the same file on some" in exported.err
    assert "holdfast history download -r project" in exported.err
    (other.project / ".holdfast-project").write_bytes((desk.project / ".holdfast-project").read_bytes())
    imported = other.holdfast("history", "import", str(desk.project / "runs.zip"))
    assert imported.code == 0, imported
    returned = other.holdfast("return")
    assert returned.code == 74, returned
    assert "outputs/model.bin: it is no longer in the store" in returned.err
    assert (other.project / "outputs/Model.bin").read_text() == "Model.bin"


def test_it_is_a_plain_zip(desk: Desk, archive: Path) -> None:
    files = contents(archive)
    uid = desk.record("1")["uid"]
    assert files[f"runs/{uid}/a1/log"] == b"trained with 0.5\n"
    assert files[f"runs/{uid}/a1/outputs/deep/model.bin"] == b"w" * 1000
    assert f"runs/{uid}/a1/alive" not in files
    assert json.loads(files["holdfast-runs.json"])["runs"]


@pytest.mark.parametrize("note", [b"garbage", b"[]", b'{"v": 1, "kind": "holdfast-runs", "runs": []}', None])
def test_archive_with_a_damaged_list_of_runs_is_refused(archive: Path, other: Desk, note: bytes | None) -> None:
    damaged = other.project / "damaged.zip"
    with zipfile.ZipFile(damaged, "w") as target:
        for name, content in contents(archive).items():
            if name != "holdfast-runs.json":
                target.writestr(name, content)
        if note is not None:
            target.writestr("holdfast-runs.json", note)
    refused = other.holdfast("history", "import", str(damaged))
    assert (refused.code, "its list of runs (holdfast-runs.json)" in refused.err) == (2, True), refused


def test_open_runs_stay(desk: Desk) -> None:
    desk.script("import time; time.sleep(60)")
    desk.submit("--no-wait", "train.py")
    assert desk.holdfast("history", "export", "-r", "1", "--to", "a.zip").code == 2
    assert desk.holdfast("history", "export", "--to", "a.zip").code == 2
    assert list(desk.project.glob("a.zip*")) == []
    desk.holdfast("cancel")


def hostile(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Archives that a reader of ours must not follow, each with what is wrong about it."""
    uid = next(name for name in files if name.endswith("/run.json")).split("/")[1]
    run = f"runs/{uid}"
    for name in (
        *("../evil", "/etc/evil", "..\\evil", "C:/evil", "evil", "runs/evil", f"{run}/../../evil", f"{run}/a1/../x"),
        *(
            f"{run}/a1/outputs/../../../../evil",
            f"{run}/a1/outputs//x",
            f"{run}/a1/work/x",
            f"{run}/a1/workspace/x",
            f"{run}/a1/alive",
        ),
        *(f"{run}/a1/outputs/nul\x07", f"{run}/a1/outputs/x/", "objects/../evil", "objects/ab/cd", "settings.json"),
        *(f"{run}/a1/outputs/{'x' * 300}", f"{run}/a1/outputs/" + "d/" * 2500 + "x", f"runs/{UID}x/run.json"),
    ):
        yield name, zipped({**files, name: b"evil"})
    yield "case", zipped({**files, f"{run}/a1/LOG": b"evil", f"{run}/a1/outputs/DEEP/model.bin": b"evil"})
    yield "output that is not in the manifest", zipped({**files, f"{run}/a1/outputs/more": b"evil"})
    yield "file as folder", zipped({**files, f"{run}/a1/outputs/deep": b"", f"{run}/a1/outputs/deep/x": b""})
    yield "other log", zipped({**files, f"{run}/a1/log": b"evil"})
    yield "second attempt", zipped({**files, f"{run}/a2/log": b"evil"})
    request = json.loads(files[f"{run}/run.json"])
    for field, value in (
        *(("uid", UID), ("run_id", "../evil"), ("run_number", "x"), ("project_id", "../../evil"), ("tree", "../x")),
        *(("arguments", "x"), ("created_ns", "now"), ("run_number", -1)),
    ):
        changed = json.dumps({**request, field: value}).encode() + b"\n"
        yield f"run.json with another {field}", zipped({**files, f"{run}/run.json": changed})
    yield "run.json that is none", zipped({**files, f"{run}/run.json": b"[" * 100_000})
    some = next(name for name in files if name.startswith("objects/"))
    yield "object with other content", zipped({**files, some: b"evil"})
    for name in [name for name in files if name.startswith("objects/")]:
        if files[name].startswith(b"x = 1"):
            yield "snapshot without a part", zipped({key: data for key, data in files.items() if key != name})
    yield "no zip", b"PK\x03\x04 evil"
    yield "empty", b""
    whole = zipped(files)
    yield "cut off", whole[: len(whole) // 2]
    at = whole.index(some.encode()) + len(some) + 3  # in the packed bytes of a file
    yield "damaged", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


def test_hostile_archives_are_refused_whole(desk: Desk, archive: Path, other: Desk, tmp_path: Path) -> None:
    files = contents(archive)
    bad = tmp_path / "bad.zip"
    for what, data in hostile(files):
        bad.write_bytes(data)
        done = other.holdfast("history", "import", str(bad))
        assert (done.code, "ERROR: this archive is refused" in done.err) == (2, True), (what, done.err, done.text)
        assert not (other.home / "runs").exists() or list((other.home / "runs").iterdir()) == [], what
        assert [path.name for path in other.home.glob("*") if path.name.startswith("import-")] == [], what
    assert list(tmp_path.rglob("*evil*")) == []
    bad.write_bytes(zipped(files))
    assert other.holdfast("history", "import", str(bad)).code == 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("link", "it is not a regular file"),
        ("fifo", "it is not a regular file"),
        ("twice", "would be the same file"),
        ("bomb", "bytes would become 2"),
        ("overlap", "overlaps another file"),
        ("encrypted", "unsupported compression"),
    ],
)
def test_what_only_a_zip_can_say(archive: Path, other: Desk, tmp_path: Path, kind: str, words: str) -> None:
    files = contents(archive)
    run = "/".join(next(name for name in files if name.endswith("/run.json")).split("/")[:2])
    bad = tmp_path / "bad.zip"
    entry = zipfile.ZipInfo(f"{run}/a1/outputs/evil")
    entry.external_attr = {"link": stat.S_IFLNK, "fifo": stat.S_IFIFO}.get(kind, stat.S_IFREG) << 16
    content = b"/etc/passwd"
    if kind == "bomb":
        entry.compress_type, content = zipfile.ZIP_DEFLATED, bytes(200 << 20)
    if kind == "twice":
        entry = zipfile.ZipInfo(f"{run}/a1/log")
    bad.write_bytes(zipped(files))
    with zipfile.ZipFile(bad, "a") as made, _quietly(kind):
        made.writestr(entry, content)
    data = bad.read_bytes()
    if kind == "encrypted":
        data = _patched(data, entry.filename, 8, b"\x01\x00")
    if kind == "overlap":
        data = _patched(data, entry.filename, 42, b"\x00\x00\x00\x00")
    bad.write_bytes(data)
    done = other.holdfast("history", "import", str(bad))
    assert (done.code, words in done.err) == (2, True), done.err
    assert not (other.home / "runs").exists()


def _quietly(kind: str) -> Any:
    """Python warns of a name that it writes twice."""
    import contextlib

    return pytest.warns(UserWarning, match="Duplicate name") if kind == "twice" else contextlib.nullcontext()


def _patched(data: bytes, name: str, at: int, words: bytes) -> bytes:
    """Other bytes in the line of the zip's directory about a file."""
    line = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))
    return data[: line + at] + words + data[line + at + len(words) :]


def test_run_whose_request_was_changed_is_refused(archive: Path, other: Desk, tmp_path: Path) -> None:
    files = {
        name: data.replace(b'"script":"train.py"', b'"script":"evil.py"') for name, data in contents(archive).items()
    }
    with zipfile.ZipFile(tmp_path / "changed.zip", "w") as changed:
        for name, data in files.items():
            changed.writestr(name, data)
    result = other.holdfast("history", "import", str(tmp_path / "changed.zip"))
    assert result.code == 2, result
    assert "run.json was changed: its checksum is wrong" in result.err
    assert other.holdfast("history", "list", "--all", "-o", "json").json == []
