"""A disk that answers with an input/output error, on a sync and on a read, at every place a command comes by."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST, Result

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="NOT TESTED: strace makes the errors")
SYNCS = "fsync,fdatasync,syncfs"


def test_a_sync_that_fails_ends_the_submit_and_no_id_is_shown_that_may_be_gone(desk: Desk, tmp_path: Path) -> None:
    # A fixed identity: the names of the objects, and so the number of syncs, are the same each time.
    (desk.project / ".holdfast-project").write_text('{"id": "3f1c2a8e-0000-4000-8000-00000000000d", "name": "project"}')
    desk.script("print(open('data.txt').read())")
    desk.submit("train.py")
    places = []
    for number in range(1, 40):
        (desk.project / "data.txt").write_text(f"content {number}")
        result, calls = _under_strace(desk, tmp_path, SYNCS, f":when={number}", "submit", "-c", "local", "train.py")
        runs = {record["run_id"] for record in desk.holdfast("history", "list", "-o", "json").json}
        if not calls or "INJECTED" not in calls[-1]:
            assert result.code == 0, result
            break
        place = calls[-1].partition(str(desk.home))[2].partition(">")[0]
        places.append(place)
        assert result.code == 74, (place, result)
        assert "Input/output error" in result.err
        assert str(desk.home) in result.err
        assert not any("INJECTED" in call for call in calls[:-1]), "nothing is synced after a sync that failed"
        shown = [line.split()[-1] for line in result.text.splitlines() if line.startswith("RunId:")]
        assert set(shown) <= runs
        assert bool(shown) == place.endswith("client.jsonl"), (place, result)
        assert len(runs) == 1 + sum(place.endswith("/client.jsonl") for place in places)
        assert not list((desk.home / "runs").glob("*.tmp"))
    else:
        pytest.fail(f"a submit that never ends: {places}")
    print("\n".join(places))
    assert any(place.startswith("/objects") for place in places)
    assert any(place.startswith("/numbers") for place in places)
    assert any(place.endswith("run.json") for place in places)
    assert places.count("/runs") == 1
    desk.wait_for_end()
    assert desk.holdfast("store", "verify").code == 0


@pytest.mark.parametrize("name", ["run.json", "a1/events.jsonl", "a1/outputs.jsonl", "a1/metrics/", "client.jsonl"])
def test_a_file_that_cannot_be_read_costs_that_run_a_field_and_hides_no_other(
    desk: Desk, tmp_path: Path, name: str
) -> None:
    desk.script("import holdfast; holdfast.log('x', 1); open('outputs/y', 'w').write('z')")
    for _ in range(2):
        assert desk.submit("train.py").code == 0
    path = next(desk.attempt("1").parent.glob(f"{name}*.m" if name.endswith("/") else name))
    (desk.home / "index.sqlite").unlink()
    reads = "read,pread64,readv"
    result, calls = _under_strace(desk, tmp_path, reads, "", "history", "list", "--all", "-o", "json", path=path)
    assert "INJECTED" in "".join(calls)
    assert result.code == 0, result
    assert len(result.json) == 2
    assert result.json[0]["status"] == "Completed"
    verdict, _ = _under_strace(desk, tmp_path, reads, "", "store", "verify", path=path)
    assert verdict.code == 74
    assert str(path) in verdict.text
    records = desk.holdfast("history", "list", "-o", "json").json
    assert [record["status"] for record in records] == ["Completed", "Completed"], "a bad moment is not remembered"


@pytest.mark.parametrize(("name", "words"), [("log", ("logs",)), ("outputs/y", ("history", "info", "-a", "outputs/y"))])
def test_a_read_error_names_the_file(desk: Desk, tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
    desk.script("print('said'); open('outputs/y', 'w').write('z')")
    desk.submit("train.py")
    path = desk.attempt() / name
    result, _ = _under_strace(desk, tmp_path, "read,pread64", "", *words, path=path)
    assert result.code == 74
    assert "disk I/O error" in result.err
    assert str(path) in result.err


def test_an_index_that_cannot_be_read_is_done_without(desk: Desk, tmp_path: Path) -> None:
    desk.script("print('said')")
    desk.submit("train.py")
    desk.holdfast("history", "list")
    index = desk.home / "index.sqlite"
    result, calls = _under_strace(desk, tmp_path, "read,pread64", "", "history", "list", "-o", "json", path=index)
    assert "INJECTED" in "".join(calls)
    assert result.code == 0, result
    assert len(result.json) == 1


def _under_strace(
    desk: Desk, place: Path, calls: str, when: str, *words: str, path: Path | None = None
) -> tuple[Result, list[str]]:
    """Run a command whose own calls (not those of the runner it starts) fail; its result and the calls it made."""
    log = place / "calls"
    only = ["-P", str(path)] if path is not None else []
    command = ["strace", "-qq", "-y", "-o", str(log), *only, "-e", "signal=none", "-e", f"trace={calls}"]
    command += ["-e", f"inject={calls}:error=EIO{when}", str(HOLDFAST), *words]
    done = subprocess.run(command, cwd=desk.project, env=desk.env, capture_output=True, timeout=60, check=False)
    return Result(done.returncode, done.stdout, done.stderr.decode()), log.read_text().splitlines()
