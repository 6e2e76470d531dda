"""What a person can run into: nothing there yet, a full disk, a file or an index that is gone, an odd clock."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import Desk
from web.client import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKETIME = next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
HOOK = """
import os, sys
notes = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(notes, b"ready\\n")
def note(event, _):
    if event == "pickle.find_class":
        os.write(notes, b"unpickled\\n")
sys.addaudithook(note)
"""
PICKLES = """
import os, pickle
class Payload:
    def __reduce__(self):
        return (os.system, ("touch {mark}",))
os.makedirs("outputs", exist_ok=True)
data = pickle.dumps(Payload())
for name in ("model.pkl", "model.pt", "model.joblib"):
    open(f"outputs/{{name}}", "wb").write(data)
head = b"{{'descr': '|O', 'fortran_order': False, 'shape': (1,), }}".ljust(117) + b"\\n"
open("outputs/objects.npy", "wb").write(b"\\x93NUMPY\\x01\\x00" + len(head).to_bytes(2, "little") + head + data)
"""


@pytest.fixture
def files(desk: Desk, server: Server) -> tuple[str, Path]:
    project = next(row["id"] for row in server.get("/projects.json").json if row["root"] == str(desk.project))
    return f"/projects/{project}", desk.project


def _digest(server: Server, files: str, name: str) -> str:
    match = re.search(r'name="digest" value="([0-9a-f]+)"', server.get(f"{files}/files?file={name}").text)
    assert match
    return match[1]


def test_file_that_was_deleted_while_shown_is_not_made_again(server: Server, files: tuple[str, Path]) -> None:
    address, folder = files
    (folder / "gone.txt").write_text("text")
    digest = _digest(server, address, "gone.txt")
    (folder / "gone.txt").unlink()
    answer = server.post(f"{address}/save", {"file": "gone.txt", "content": "mine", "digest": digest})
    assert (answer.status, "cannot be opened" in answer.text) == (400, True), answer
    assert not (folder / "gone.txt").exists()
    assert server.get(f"{address}/files?file=gone.txt").status == 400


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "small", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_file_is_unchanged_after_a_save_on_a_full_disk(server: Server, small_disk: Path) -> None:
    (small_disk / "notes.txt").write_text("before")
    address = server.post("/add-folder", {"folder": str(small_disk)}).headers["location"]
    digest = _digest(server, address, "notes.txt")
    answer = server.post(f"{address}/save", {"file": "notes.txt", "content": "x" * 500_000, "digest": digest})
    assert answer.status in (400, 500)
    assert "the file could not be saved; it is unchanged" in answer.text
    assert "No space left" in answer.text
    assert (small_disk / "notes.txt").read_text() == "before"
    assert server.post(f"{address}/save", {"file": "notes.txt", "content": "y", "digest": digest}).status == 303


def test_index_that_is_removed_is_built_again(desk: Desk, server: Server, uid: str) -> None:
    before = server.get("/rows.json").json
    for path in desk.home.glob("index.sqlite*"):
        path.unlink()
    assert f"/runs/{uid}" in server.get("/runs").text
    assert desk.submit("train.py", "--lr", "0.1").code == 0  # this builds it, in another process
    assert server.get("/rows.json").json["total"] == before["total"] + 1


def test_two_servers_of_one_store_show_the_same(desk: Desk, server: Server, uid: str) -> None:
    second = Server(desk, "--port", "0").sign_in()
    try:
        assert second.host != server.host
        assert server.post(f"/runs/{uid}/labels", {"note": "from the first"}).status == 303
        assert second.get(f"/runs/{uid}.json").json["description"] == "from the first"
        assert second.get("/rows.json").json["total"] == server.get("/rows.json").json["total"]
        assert second.ask("GET", "/runs", {"Cookie": server.cookie}, signed_in=False).status == 401
    finally:
        assert second.stop() == 0
    assert server.get("/runs").status == 200


def test_pages_without_any_run_say_what_to_do_next(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    server = Server(desk, "--port", "0").sign_in()
    try:
        for path in ("/runs", "/jobs"):
            page = html.unescape(server.get(path).text)
            assert "holdfast submit -c local train.py" in page, path
        assert "New Project" in server.get("/projects").text
        paths = ("/runs?chart=parallel", "/targets", "/settings", "/help", "/runs.csv", "/points.json?axis=metrics.x")
        for path in paths:
            assert server.get(path).status == 200, path
        assert server.get("/compare").status == 400
    finally:
        server.stop()


def test_without_a_browser_the_address_and_a_code_are_printed(desk: Desk) -> None:
    env = {"PATH": str(Path(sys.executable).parent), "BROWSER": "", "DISPLAY": ""}
    with desk.start("ui", "--port", "0", env=env) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(2)]
        process.terminate()
        error = process.communicate()[1].decode()
    assert [line[0] for line in lines] == [b"address", b"code"]
    assert "no browser was found; open the address and type the code" in error


@pytest.mark.skipif(FAKETIME is None, reason="NOT TESTED: libfaketime sets the clock")
def test_run_of_a_clock_in_the_future_is_shown(desk: Desk, server: Server) -> None:
    clock = {"LD_PRELOAD": FAKETIME or "", "FAKETIME": "+2d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    assert desk.submit("train.py", "--lr", "0.7", env=clock).code == 0
    row = server.get("/rows.json?where=params.lr=0.7&columns=run_number,created_utc").json["rows"][0]
    assert not row["cells"][1].startswith("-")
    assert server.get(f"/runs/{row['uid']}").status == 200
    assert server.get(f"/runs/{row['uid']}/curves.json").json["curves"]


def test_no_page_unpickles_what_a_run_left(desk: Desk, tmp_path: Path) -> None:
    mark, notes = tmp_path / "mark", tmp_path / "notes"
    desk.script(PICKLES.format(mark=mark), "pickles.py")
    assert desk.submit("pickles.py").code == 0
    uid = desk.record("last")["uid"]
    (tmp_path / "sitecustomize.py").write_text(HOOK.format(path=str(notes)))
    before = dict(desk.env)
    desk.env["PYTHONPATH"] = str(tmp_path)
    try:
        assert desk.holdfast("history", "list").code == 0
        server = Server(desk, "--port", "0").sign_in()
        for name in ("model.pkl", "model.pt", "model.joblib", "objects.npy"):
            for path in (
                f"outputs?name=outputs/{name}",
                f"outputs.json?name=outputs/{name}",
                f"file?name=outputs/{name}",
            ):
                assert server.get(f"/runs/{uid}/{path}").status == 200, path
        for path in (f"/runs/{uid}", "/runs", f"/compare?run={uid}&run={uid}"):
            assert server.get(path).status in (200, 400)
        server.stop()
        planted = "import os, pickle; pickle.loads(pickle.dumps(os.getcwd))"
        assert set(notes.read_text().splitlines()) == {"ready"}
        assert desk.holdfast("-c", planted, command=sys.executable).code == 0
        assert "unpickled" in notes.read_text()  # the hook finds it
    finally:
        desk.env.clear()
        desk.env.update(before)
    assert not mark.exists()
