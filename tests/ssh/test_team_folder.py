"""``history push`` and ``pull`` with a folder on a machine over SSH: ``lab1:team/history``."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from conftest import eventually
from holdfast.runner.store.store_identity import store_identity
from ssh.conftest import Laptop
from ssh.test_muted_runners import NEVER, mute, replace_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sshlab import Host, Lab, User

SCRIPT = """
import holdfast, os, sys
holdfast.log("acc", float(sys.argv[1]))
os.makedirs("outputs/deep", exist_ok=True)
open("outputs/deep/model.bin", "wb").write(os.urandom(int(sys.argv[2])))
open("outputs/empty", "w")
"""
MEGABYTE = 1_000_000
FOLDER = "lab1:team/history"


def with_runs(laptop: Laptop, *values: str, size: int = 1000) -> None:
    laptop.script(SCRIPT)
    laptop.script("x = 1", "pkg/deep/part.py")
    for value in values:
        result = laptop.holdfast("submit", "-c", "local", "--env", "none", "train.py", value, str(size))
        assert result.code == 0, result


def history(laptop: Laptop, verb: str, *words: str) -> dict[str, Any]:
    result = laptop.holdfast("history", verb, *words, "-o", "json")
    assert result.code == 0, result
    rows: dict[str, Any] = result.json
    return rows


def accuracies(laptop: Laptop) -> list[float]:
    return [row["acc"] for row in laptop.holdfast("history", "list", "--all", "-o", "json").json]


@pytest.fixture
def team(ada: User) -> Path:
    ada.run("mkdir", "-p", "team/history")
    return ada.path("team/history")


@pytest.fixture
def bob_there(gpu1: Host) -> User:
    return gpu1.user("bob")


@pytest.fixture
def bob(attached: Laptop, lab: Lab, gpu1: Host, bob_there: User, tmp_path: Path) -> Iterator[Laptop]:
    """Another person with an account of their own, and a folder of the machine in which all users can write."""
    (tmp_path / "bob").mkdir()
    made = Laptop(tmp_path / "bob", lab.client(tmp_path / "bob-home", "bob"))
    bob_there.authorize(made.client.key())
    assert made.attach(bob_there, gpu1).code == 0
    gpu1.run("mkdir", "-m", "1777", "/home/shared")
    yield made
    made.close_connections()
    gpu1.run("rm", "-rf", "/home/shared")


def test_runs_come_back_with_code_outputs_and_labels_on_another_laptop(
    attached: Laptop, second: Laptop, team: Path, tmp_path: Path
) -> None:
    with_runs(attached, "0.5", "0.75")
    attached.holdfast("tag", "-r", "2", "dataset=v3")
    assert len(history(attached, "push", FOLDER)["new"]) == 2
    again = history(attached, "push", FOLDER)
    assert (again["new"], again["present"], again["bytes"], again["labels"]) == ([], 2, 0, 0)
    assert [path.name for path in team.glob("*/objects/tmp/*")] in ([], ["lock"])

    assert len(history(second, "pull", "-A", FOLDER)["new"]) == 2
    assert accuracies(second) == [0.75, 0.5]
    assert second.holdfast("store", "verify").code == 0
    run = second.holdfast("history", "list", "--all", "-o", "json").json[0]["run_id"]
    assert second.record(run)["tags"] == {"dataset": "v3"}
    project = attached.project / ".holdfast-project"
    (second.project / ".holdfast-project").write_bytes(project.read_bytes())
    assert second.holdfast("restore", "-r", run, "--to", str(tmp_path / "code")).code == 0
    assert (tmp_path / "code/pkg/deep/part.py").read_text() == "x = 1"
    assert second.holdfast("download", "-r", run, "-d", str(tmp_path / "out")).code == 0
    assert 1000 in [path.stat().st_size for path in (tmp_path / "out").rglob("model.bin")]

    second.holdfast("tag", "-r", run, "seen")
    assert history(second, "push", "-A", FOLDER)["labels"] == 1
    assert history(attached, "pull", FOLDER)["labels"] == 1
    assert attached.record("2")["tags"] == {"dataset": "v3", "seen": True}


def test_folder_is_the_one_that_a_push_by_path_writes(attached: Laptop, team: Path, ada: User) -> None:
    """The same bytes by both ways, so that a folder can be mounted today and named by its target tomorrow."""
    with_runs(attached, "0.5")
    history(attached, "push", f"lab1:{ada.home}/team/history")
    history(attached, "push", "lab1:~/team/history")
    by_target = contents(team)
    copy = attached.project.parent / "copy"
    shutil.copytree(team, copy)
    assert attached.holdfast("store", "verify", "--folder", str(copy)).code == 0
    local = attached.project.parent / "local"
    local.mkdir(mode=0o755)
    history(attached, "push", str(local))
    assert contents(local) == by_target


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Files with their content, folders, and the mode of each; without what only a push over a connection uses."""
    paths = (path for path in folder.rglob("*") if path.parts[-2:-1] != ("tmp",))
    paths = (path for path in paths if path.parts[-2:] not in (("objects", "tmp"), ("objects", "arriving")))
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else b"", path.stat().st_mode)
        for path in paths
    }


def test_push_that_was_cut_off_goes_on_with_the_rest(
    attached: Laptop, second: Laptop, team: Path, lab: Lab, gpu1: Host
) -> None:
    with_runs(attached, "0.5", size=12 * MEGABYTE)
    lab.slow(gpu1, bytes_per_second=2_000_000)
    client = attached.start("history", "push", FOLDER)
    eventually(lambda: any(path.stat().st_size > 6 * MEGABYTE for path in team.glob("*/objects/arriving/*")))
    client.kill()
    client.communicate()
    attached.close_connections()
    lab.slow(gpu1)
    assert history(second, "pull", "-A", FOLDER)["new"] == []  # no run is seen that is not complete
    before = lab.traffic(gpu1).bytes_to
    assert len(history(attached, "push", FOLDER)["new"]) == 1
    assert lab.traffic(gpu1).bytes_to - before < 9 * MEGABYTE
    assert list(team.glob("*/objects/arriving/*")) == []
    assert len(history(second, "pull", "-A", FOLDER)["new"]) == 1


def test_damaged_and_planted_files_on_the_target_cost_one_line(attached: Laptop, second: Laptop, team: Path) -> None:
    with_runs(attached, "0.1", "0.2", "0.3", "0.4", "0.5")
    history(attached, "push", FOLDER)
    runs = {row["acc"]: row["uid"] for row in attached.holdfast("history", "list", "-o", "json").json}
    (part,) = (path for path in team.iterdir() if path.is_dir())

    def line(value: float) -> Path:
        return part / "runs" / f"{runs[value]}.json"

    digest = json.loads(line(0.1).read_bytes())["files"]["a1/outputs/deep/model.bin"][1]
    damaged = part / "objects" / digest[:2] / digest[2:]
    line(0.2).unlink()
    os.mkfifo(line(0.2))
    line(0.3).unlink()
    line(0.3).symlink_to("/etc/passwd")
    line(0.4).chmod(0o600)
    line(0.4).write_bytes(line(0.4).read_bytes().replace(b'"size"', b'"sign"').replace(b"outputs/", b"../../up/"))
    damaged.chmod(0o600)
    damaged.write_bytes(b"x" * 1000)
    (part / "labels" / ("0" * 64 + ".jsonl")).write_text("not these\n")
    result = second.holdfast("history", "pull", "-A", FOLDER, "-o", "json")
    assert result.code == 74, result
    assert len(result.json["new"]) == 1
    reasons = "\n".join(result.json["left_out"])
    assert "is damaged" in reasons
    assert "not a regular file" in reasons
    assert "does not match its name" in reasons
    assert len(result.json["left_out"]) == 5
    assert second.holdfast("store", "verify").code == 0


def test_verify_reads_a_folder_on_the_target_and_repair_and_push_heal_it(
    attached: Laptop, second: Laptop, team: Path, lab: Lab, gpu1: Host
) -> None:
    with_runs(attached, "0.5", "0.75", size=3 * MEGABYTE)
    attached.holdfast("tag", "-r", "2", "kept")
    history(attached, "push", FOLDER)
    verify = ("store", "verify", "--folder", FOLDER, "-o", "json")
    before = lab.traffic(gpu1).bytes_from
    intact = attached.holdfast(*verify)
    assert (intact.code, intact.json) == (0, []), intact
    assert lab.traffic(gpu1).bytes_from - before < MEGABYTE
    victims = [max(team.glob(f"*/{pattern}"), key=size_of) for pattern in ("objects/??/*", "runs/*", "labels/*")]
    for victim in victims:
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 1
        victim.chmod(0o600)
        victim.write_bytes(data)
    seen = second.holdfast(*verify)
    assert seen.code == 74, seen
    assert {f"{FOLDER}/{path.relative_to(team)}" for path in victims} <= {row["path"] for row in seen.json}
    assert second.holdfast(*verify, "--repair").code == 74  # they are another store's
    repaired = attached.holdfast(*verify, "--repair")
    assert (repaired.code, repaired.json) == (0, []), repaired
    history(attached, "push", FOLDER)
    assert second.holdfast(*verify).code == 0
    assert len(history(second, "pull", "-A", FOLDER)["new"]) == 2


def size_of(path: Path) -> int:
    return path.stat().st_size


def test_two_users_of_a_machine_share_one_folder(attached: Laptop, bob: Laptop) -> None:
    with_runs(attached, "0.5")
    with_runs(bob, "0.25", "0.3")
    folder = "lab1:/home/shared"
    history(attached, "push", folder)
    history(bob, "push", folder)
    assert len(history(attached, "pull", "-A", folder)["new"]) == 2
    assert len(history(bob, "pull", "-A", "--author", "ada", folder)["new"]) == 1
    assert sorted(accuracies(bob)) == sorted(accuracies(attached)) == [0.25, 0.3, 0.5]
    run = bob.holdfast("history", "list", "--all", "--where", "acc = 0.5", "-o", "json").json[0]["run_id"]
    assert bob.record(run)["shared_by"] == "ada"
    none = bob.holdfast("history", "pull", "--author", "eve", folder)
    assert (none.code, "no store in this folder has this owner or id" in none.err) == (2, True), none


def test_part_that_another_user_made_in_the_stores_name_is_refused(
    attached: Laptop, bob: Laptop, bob_there: User, ada: User
) -> None:
    with_runs(attached, "0.5")
    store = store_identity(os.fsencode(attached.home))
    bob_there.run("mkdir", "-m", "777", f"/home/shared/{store}")
    result = attached.holdfast("history", "push", "lab1:/home/shared")
    assert result.code == 74, result
    assert "the part of this store belongs to another user" in result.err
    assert "owner: bob" in result.err
    bob_there.run("rmdir", f"/home/shared/{store}")
    bob_there.run("ln", "-s", f"{ada.home}/team", f"/home/shared/{store}")
    result = attached.holdfast("history", "push", "lab1:/home/shared")
    assert result.code == 74, result
    assert "belongs to another user" in result.err


@pytest.mark.parametrize(
    ("folder", "code", "message"),
    [
        ("lab1:nowhere", 2, "no such folder"),
        ("lab1:.holdfast", 2, "this folder is in the store itself"),
        ("lab1:full", 2, "this folder is not empty and has no history"),
        ("lab1:closed", 2, "this folder cannot be read"),
        ("lab1:locked", 74, "the shared folder cannot be written"),
        ("lab2:team", 2, "no run configuration or target named 'lab2'"),
    ],
)
def test_folder_that_cannot_be_used_is_named_before_anything_is_sent(
    attached: Laptop, ada: User, folder: str, code: int, message: str
) -> None:
    ada.run("sh", "-c", "mkdir -p full .holdfast && touch full/thesis && mkdir -m 0 closed && mkdir -m 555 locked")
    with_runs(attached, "0.5")
    result = attached.holdfast("history", "push", folder)
    assert (result.code, message in result.err) == (code, True), result
    assert "Traceback" not in result.err
    pulled = attached.holdfast("history", "pull", folder)
    assert pulled.code == 2, pulled


def test_runner_without_the_verb_is_named(attached: Laptop, team: Path, gpu1: Host) -> None:
    with_runs(attached, "0.5")
    replace_python(gpu1)
    gpu1.path("/var/tmp/unknown").write_text("history\n")
    mute(gpu1, others=NEVER)
    attached.close_connections()
    result = attached.holdfast("history", "push", FOLDER)
    assert result.code == 65, result
    assert "the runner on this target does not support shared folders of runs" in result.err
    assert list(team.iterdir()) == []


def test_disk_of_the_target_that_is_too_small_is_named(attached: Laptop, gpu1: Host, ada: User) -> None:
    ada.run("mkdir", "-p", "small")
    gpu1.run("mount", "-t", "tmpfs", "-o", "size=2m,mode=1777", "tmpfs", f"{ada.home}/small")
    try:
        with_runs(attached, "0.5", size=4 * MEGABYTE)
        result = attached.holdfast("history", "push", "lab1:small")
        assert result.code == 74, result
        assert "the target's disk is too full" in result.err
        assert "set root:" not in result.err
    finally:
        gpu1.run("umount", f"{ada.home}/small")
