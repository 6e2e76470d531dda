"""Data sets on a machine over SSH: sent once, kept by content, verified, shared between users, removed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import eventually
from ssh.conftest import Laptop
from ssh.test_links import Watched
from ssh.test_muted_runners import NEVER, mute, replace_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Result
    from sshlab import Host, Lab, User

LOOK = """
import hashlib, json, os
top = os.fsencode(os.environ["HOLDFAST_DATA_SET"])
assert os.path.realpath(b"data/set") == os.path.realpath(top), (os.path.realpath(b"data/set"), top)
found = {}
for folder, _, names in os.walk(top):
    for name in names:
        path = os.path.join(folder, name)
        with open(path, "rb") as source:
            found[os.fsdecode(os.path.relpath(path, top))] = hashlib.sha256(source.read()).hexdigest()
print(json.dumps(found, sort_keys=True))
"""
SPOIL = """
import os, sys
path = os.path.join(os.environ["HOLDFAST_DATA_SET"], "a.bin")
try:
    open(path, "ab")
except PermissionError:
    print("read-only")
os.chmod(path, 0o600)
with open(path, "r+b") as target:
    target.write(b"spoiled")
"""
WAIT = "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
MEGABYTE = 1_000_000
ODD = os.fsdecode(b"two\nlines \xff.bin")


class Folder:
    """A folder of data on the laptop, outside the project."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "deep").mkdir(parents=True)
        for name in ("a.bin", "deep/b.bin", f"deep/{ODD}"):
            self.change(name)

    def change(self, name: str, size: int = MEGABYTE) -> None:
        (self.path / name).write_bytes(os.urandom(size))

    def digests(self) -> dict[str, str]:
        import hashlib

        files = (path for path in self.path.rglob("*") if path.is_file())
        return {str(path.relative_to(self.path)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "sets" / "digits")


def submit(laptop: Laptop, folder: Folder, script: str = LOOK, *words: str) -> Result:
    laptop.script(script)
    return laptop.holdfast("submit", "-c", "lab1", "--data", f"set={folder.path}", *words, "train.py")


def found(result: Result) -> dict[str, str]:
    assert result.code == 0, result
    line = next(line for line in result.text.splitlines() if line.startswith("{"))
    digests: dict[str, str] = json.loads(line)
    return digests


def sets(laptop: Laptop) -> list[dict[str, Any]]:
    result = laptop.holdfast("data", "list", "-c", "lab1", "-o", "json")
    assert result.code == 0, result
    rows: list[dict[str, Any]] = result.json
    return rows


def test_data_is_sent_once_and_then_only_the_file_that_changed(
    attached: Laptop, folder: Folder, lab: Lab, gpu1: Host
) -> None:
    assert found(submit(attached, folder)) == folder.digests()
    first = attached.record()["data"]
    assert [(row["name"], row["files"], row["bytes"]) for row in first] == [("set", 3, 3 * MEGABYTE)]

    before = lab.traffic(gpu1).bytes_to
    assert found(submit(attached, folder)) == folder.digests()
    assert lab.traffic(gpu1).bytes_to - before < MEGABYTE / 4

    folder.change("deep/b.bin")
    before = lab.traffic(gpu1).bytes_to
    assert found(submit(attached, folder)) == folder.digests()
    assert MEGABYTE < lab.traffic(gpu1).bytes_to - before < 1.5 * MEGABYTE

    tree = attached.record()["data"][0]["tree"]
    assert tree != first[0]["tree"]
    rows = attached.holdfast("compare", "-r", "1", "-r", "3", "-o", "json").json["sections"]
    [section] = [section for section in rows if section["title"] == "data"]
    assert section["rows"] == [{"name": "set", "values": [first[0]["tree"][:12], tree[:12]], "differs": True}]
    assert {row["hash"] for row in sets(attached)} == {tree, first[0]["tree"]}


def test_upload_of_a_killed_client_goes_on_with_the_rest(
    attached: Laptop, folder: Folder, lab: Lab, gpu1: Host, ada: User
) -> None:
    folder.change("a.bin", 12 * MEGABYTE)
    attached.script(LOOK)
    arriving = ada.path(".holdfast/data/objects/arriving")
    lab.slow(gpu1, bytes_per_second=2_000_000)
    client = attached.start("submit", "-c", "lab1", "--data", f"set={folder.path}", "train.py")
    eventually(lambda: any(path.stat().st_size > 6 * MEGABYTE for path in arriving.glob("*")))
    client.kill()
    client.communicate()
    attached.close_connections()
    lab.slow(gpu1)
    assert attached.holdfast("history", "list", "-o", "json").json == []  # no run waits for data that is not there
    before = lab.traffic(gpu1).bytes_to
    assert found(submit(attached, folder)) == folder.digests()
    assert lab.traffic(gpu1).bytes_to - before < 9 * MEGABYTE
    assert list(arriving.glob("*")) == []


def test_data_that_a_script_spoiled_is_noticed_and_sent_again(
    attached: Laptop, folder: Folder, lab: Lab, gpu1: Host
) -> None:
    result = submit(attached, folder, SPOIL)
    assert result.code == 0, result
    assert "read-only\n" in result.text
    assert "data was written to while the script ran: set" in result.err
    assert attached.record()["data"][0]["changed"] is True

    before = lab.traffic(gpu1).bytes_to
    assert found(submit(attached, folder)) == folder.digests()
    assert lab.traffic(gpu1).bytes_to - before < 1.5 * MEGABYTE


def test_damage_behind_an_unchanged_time_is_noticed_and_verify_reads_everything(
    attached: Laptop, folder: Folder
) -> None:
    found(submit(attached, folder))
    spoil = (
        "import os; path = os.path.join(os.environ['HOLDFAST_DATA_SET'], 'a.bin'); before = os.stat(path); "
        "os.chmod(path, 0o600); file = open(path, 'r+b'); file.write(b'spoiled'); file.close(); "
        "os.chmod(path, 0o444); os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))"
    )
    result = submit(attached, folder, spoil)
    assert "data was written to while the script ran: set" in result.err, result
    checked = attached.holdfast("data", "verify", "-c", "lab1", "set")
    assert checked.code == 74, checked
    assert "damaged" in checked.err
    assert sets(attached) == []
    assert found(submit(attached, folder)) == folder.digests()
    checked = attached.holdfast("data", "verify", "-c", "lab1", "-o", "json")
    assert checked.code == 0, checked
    assert [(row["name"], row["state"], row["damaged"]) for row in checked.json] == [("set", "intact", 0)]
    assert "everything is intact" in checked.err


def test_sets_are_listed_pinned_and_removed_and_clean_gives_room_back(
    attached: Laptop, folder: Folder, ada: User
) -> None:
    found(submit(attached, folder))
    [row] = sets(attached)
    assert (row["name"], row["files"], row["bytes"], row["pinned"]) == ("set", 3, 3 * MEGABYTE, False)
    assert attached.holdfast("data", "pin", "-c", "lab1", row["hash"][:8]).code == 0
    note = ada.path(f".holdfast/data/{row['hash']}.json")
    old = time.time() - 7200
    for path in (note, *ada.path(".holdfast/data/objects").rglob("*")):
        os.utime(path, (old, old), follow_symlinks=False)

    def cleaned() -> dict[str, Any]:
        result = attached.holdfast("clean", "-c", "lab1", "--yes", "-o", "json")
        assert result.code == 0, result
        [part] = [part for part in result.json if part["what"] == "data sets"]
        part_row: dict[str, Any] = part
        return part_row

    assert (cleaned()["count"], cleaned()["why"]) == (0, "pinned")
    assert attached.holdfast("data", "pin", "-c", "lab1", "--off", "set").code == 0
    os.utime(note, (old, old))
    gone = cleaned()
    assert gone["count"] == 1
    assert 3 * MEGABYTE < gone["bytes"] < 3.2 * MEGABYTE
    assert sets(attached) == []
    kept = [path for path in ada.path(".holdfast/data").rglob("*") if path.is_file() and path.name != "lock"]
    assert kept == []

    assert found(submit(attached, folder)) == folder.digests()  # sent again, although it was noted as sent
    assert attached.holdfast("data", "remove", "-c", "lab1", "set").code == 0
    assert sets(attached) == []
    assert attached.holdfast("data", "remove", "-c", "lab1", "set").code == 2


def test_set_of_a_running_script_is_not_removed(attached: Laptop, folder: Folder) -> None:
    attached.script(WAIT)
    client = Watched(attached.start("submit", "-c", "lab1", "--data", f"set={folder.path}", "train.py"))
    client.wait_for(b"up\n")
    result = attached.holdfast("data", "remove", "-c", "lab1", "set")
    assert result.code == 2, result
    assert "is used by a run" in result.err
    assert sets(attached)[0]["in_use"] is True
    attached.holdfast("exec", "-r", "last", "--", "touch", "go")
    assert client.finish() == 0, client.err


def test_hint_for_data_left_out_by_gitignore_names_the_option_that_sends_it(attached: Laptop) -> None:
    attached.script("print(open('sets/data/in.csv').read())")
    attached.script("rows", "sets/data/in.csv")
    attached.script("data/\n", ".gitignore")
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert "use --data sets/data to send it" in result.err
    assert "--link" not in result.err
    linked = attached.holdfast("submit", "-c", "lab1", "--link", "sets/data", "train.py")
    assert "does not exist on the machine of the run; --data sends a folder" in linked.err
    sent = attached.holdfast("submit", "-c", "lab1", "--data", "sets/data", "train.py")
    assert "rows\n" in sent.text, sent


def test_hint_for_a_file_of_this_machine_names_the_option_that_sends_it(attached: Laptop, folder: Folder) -> None:
    file = folder.path / "a.bin"
    (attached.project / "train.py").write_text("import sys\nopen(sys.argv[1])\n")
    failed = attached.holdfast("submit", "-c", "lab1", "train.py", str(file))
    assert failed.code == 1, failed
    assert f"{file} is on this machine, but not on lab1" in failed.err
    assert f"send it with --data NAME={file}; the script finds it at data/NAME" in failed.err
    sent = attached.holdfast("submit", "-c", "lab1", "--data", f"a={file}", "train.py", "data/a")
    assert sent.code == 0, sent
    (attached.project / "train.py").write_text(
        f"print('No such file or directory: ' + repr({str(file)[::-1]!r}[::-1]))\n1/0\n"
    )
    assert "--data" not in attached.holdfast("submit", "-c", "lab1", "train.py").err, (
        "a file that the script does not name"
    )


def test_single_file_and_path_on_target_are_found_at_their_links(attached: Laptop, tmp_path: Path, ada: User) -> None:
    archive = tmp_path / "sets.tar"
    archive.write_bytes(b"archive")
    ada.write("there/c.txt", "on the target")
    config = attached.project / "aml_config" / "lab1.runconfig"
    config.write_text(config.read_text() + f"\ndata:\n  there: {{path_on_target: {ada.home}/there}}\n")
    attached.script("print(open('data/set').read(), open('data/there/c.txt').read())")
    result = attached.holdfast("submit", "-c", "lab1", "--data", f"set={archive}", "train.py")
    assert result.code == 0, result
    assert "archive on the target\n" in result.text
    rows = {row["name"]: row for row in attached.record()["data"]}
    assert rows["there"]["path_on_target"] == f"{ada.home}/there"
    assert rows["set"]["file"] == "sets.tar"
    ada.run("rm", "-r", "there")
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 74, result
    assert f"data there: {ada.home}/there does not exist on this machine" in result.err


def test_project_that_names_a_path_outside_needs_a_confirmation(attached: Laptop, folder: Folder) -> None:
    attached.script(LOOK)
    config = attached.project / "aml_config" / "lab1.runconfig"
    config.write_text(config.read_text() + f"\ndata: {{set: {folder.path}}}\n")
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 65, result
    assert f"data: let its runs read {folder.path}" in result.err
    assert "nothing was sent" in result.err
    attached.trust("lab1")
    assert found(attached.holdfast("submit", "-c", "lab1", "train.py")) == folder.digests()


def test_reproduce_uses_the_recorded_content_or_refuses(attached: Laptop, folder: Folder) -> None:
    found(submit(attached, folder))
    first, original = folder.digests(), (folder.path / "a.bin").read_bytes()
    folder.change("a.bin")
    result = attached.holdfast("reproduce", "-r", "1")
    assert json.dumps(first, sort_keys=True) in result.text + result.err, result  # the target still has it
    assert attached.record()["data"][0]["tree"] == attached.record("1")["data"][0]["tree"]
    assert attached.holdfast("data", "remove", "-c", "lab1", "set").code == 0
    result = attached.holdfast("reproduce", "-r", "1")
    assert result.code == 65, result
    assert "the data set is not what the run used" in result.err
    (folder.path / "a.bin").write_bytes(original)
    assert attached.holdfast("reproduce", "-r", "1").code == 0


@pytest.fixture
def bob(attached: Laptop, lab: Lab, gpu1: Host, tmp_path: Path) -> Iterator[Laptop]:
    """Another person with an account of their own; both use one shared folder of the machine."""
    place = tmp_path / "bob"
    place.mkdir()
    made = Laptop(place, lab.client(tmp_path / "bob-home", "bob"))
    user = gpu1.user("bob")
    user.authorize(made.client.key())
    result = made.attach(user, gpu1)
    assert result.code == 0, result
    gpu1.run("mkdir", "-m", "1777", "/home/shared")
    for desk in (attached, made):
        compute = desk.project / "aml_config" / "lab1.compute"
        compute.write_text(compute.read_text() + "sharedData: /home/shared\n")
    yield made
    made.close_connections()
    gpu1.run("rm", "-rf", "/home/shared")


def test_shared_set_is_used_by_another_user_only_as_long_as_it_is_what_was_hashed(
    attached: Laptop, bob: Laptop, folder: Folder, lab: Lab, gpu1: Host, ada: User
) -> None:
    refused = submit(attached, folder)
    assert refused.code == 65, refused
    assert "keep data where other users can read it: /home/shared" in refused.err
    attached.trust("lab1")
    bob.trust("lab1")
    assert found(submit(attached, folder)) == folder.digests()

    before = lab.traffic(gpu1).bytes_to
    assert found(submit(bob, folder)) == folder.digests()
    assert lab.traffic(gpu1).bytes_to - before < MEGABYTE
    [row] = sets(bob)
    assert row["folder"] == f"/home/shared/{row['hash']}"
    assert row["shared"] is True

    file = f"{row['folder']}/a.bin"
    spoil = f"chmod u+w {file}; printf no | dd of={file} conv=notrunc; touch -d '1980-01-01 00:00:00Z' {file}"
    ada.run("sh", "-c", spoil)  # neither its size nor its time tells
    assert found(submit(bob, folder)) == folder.digests()
    [row] = sets(bob)
    assert row["folder"] == f"/home/bob/.holdfast/data/{row['hash']}"


def test_planted_set_in_the_shared_folder_is_not_used(
    attached: Laptop, bob: Laptop, folder: Folder, gpu1: Host, ada: User
) -> None:
    attached.script(LOOK)
    plan = attached.holdfast("submit", "-c", "lab1", "--data", f"set={folder.path}", "--dry-run", "train.py")
    tree = plan.json["data"][0]["tree"]
    planted = f"/home/shared/{tree}"
    ada.run("sh", "-c", f"mkdir -p {planted}/deep && mkfifo {planted}/a.bin && ln -s /etc/passwd {planted}/deep/b.bin")
    uid = gpu1.run("id", "-u", "bob").stdout.strip()
    ada.run("mkdir", "-p", f"/home/shared/objects-{uid}")
    bob.trust("lab1")
    result = submit(bob, folder)
    assert found(result) == folder.digests()
    assert "sharedData: no data can be written to /home/shared" in result.err
    assert sets(bob)[0]["folder"].startswith("/home/bob/.holdfast/data/")


def test_runner_without_the_verb_data_is_named_and_data_on_the_target_still_works(
    attached: Laptop, folder: Folder, gpu1: Host, ada: User
) -> None:
    replace_python(gpu1)
    gpu1.path("/var/tmp/unknown").write_text("data\n")
    mute(gpu1, others=NEVER)
    attached.close_connections()
    result = submit(attached, folder)
    assert result.code == 65, result
    assert "the runner on this target does not support data sets" in result.err
    assert "use data: {path_on_target: ...}" in result.err
    assert "Traceback" not in result.err
    assert attached.holdfast("history", "list", "-o", "json").json == []  # refused before there is a run
    result = attached.holdfast("data", "list", "-c", "lab1")
    assert (result.code, "the runner on this target does not support data sets" in result.err) == (65, True), result
    ada.write("there/a.bin", "on the target")
    attached.script("print(open('data/set/a.bin').read())")
    config = attached.project / "aml_config" / "lab1.runconfig"
    config.write_text(f"{config.read_text()}data: {{set: {{path_on_target: {ada.home}/there}}}}\n")
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert (result.code, "on the target\n" in result.text) == (0, True), result
