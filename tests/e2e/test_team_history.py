"""``history push`` and ``pull``: the runs of several people in one folder, and a store restored from it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from conftest import HOLDFAST, Desk, as_user
from holdfast.runner.store.jsonl import sealed

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = """
import holdfast, os, sys
holdfast.log("acc", float(sys.argv[1]))
print("trained with", sys.argv[1])
os.makedirs("outputs/deep", exist_ok=True)
open("outputs/deep/model.bin", "wb").write(sys.argv[1].encode() * 1000)
open("outputs/caf\\u00e9 .txt", "w").write("x")
open("side.txt", "w").write("beside")
"""
PUSH_AND_DIE = """
import os, signal, sys
from holdfast.engine.transfer import push_history
from holdfast.store.shared.local_folder import opened
from holdfast.store import runs
from holdfast.store.home import open_home

def on_bytes(done, total, size):
    if (done, size > 0) >= (int(sys.argv[2]), True):
        os.kill(os.getpid(), signal.SIGKILL)

home = open_home()
push_history.push(home, sorted(runs.uids(home)), opened(sys.argv[1], home, create=True), on_bytes)
"""
PULL_AND_DIE = """
import os, signal, sys
from holdfast import project
from holdfast.engine.transfer import pull_history
from holdfast.store.shared.local_folder import opened
from holdfast.store.home import open_home

def on_run(done, total, size):
    if size > 0:
        os.kill(os.getpid(), signal.SIGKILL)

home = open_home()
pull_history.pull(home, project.find("."), opened(sys.argv[1], home), pull_history.Wanted(""), on_run)
"""
ALICE, BOB, MALLORY, TEAM = 54321, 54322, 54323, 54400
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can be two users")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alice with two runs and labels, bob with one run, in checkouts of one project."""
    top = tmp_path_factory.mktemp("people")
    for name, values in (("alice", ("0.5", "0.75")), ("bob", ("0.25",))):
        (top / name).mkdir()
        desk = Desk(top / name)
        desk.env["USER"] = name
        desk.script(SCRIPT)
        desk.script("x = 1", "pkg/part.py")
        if name == "bob":
            shutil.copy(top / "alice/project/.holdfast-project", desk.project)
        for value in values:
            assert desk.submit("train.py", value).code == 0
    alice = desk_at(top / "alice")
    alice.holdfast("tag", "-r", "2", "dataset=v3", "kept")
    alice.holdfast("note", "-r", "1", "the first")
    alice.holdfast("archive", "-r", "1")
    return top


def desk_at(place: Path) -> Desk:
    """A person whose folders are there already."""
    desk = Desk.__new__(Desk)
    (place / "made").mkdir()
    fresh = Desk(place / "made")
    shutil.rmtree(place / "made")
    desk.__dict__.update(fresh.__dict__)
    desk.user_home, desk.home, desk.project = place / "user", place / "store", place / "project"
    desk.env.update(HOME=str(desk.user_home), HOLDFAST_HOME=str(desk.home), USER=place.name)
    return desk


class Team:
    def __init__(self, place: Path, template: Path) -> None:
        self.place = place
        for name in ("alice", "bob"):
            shutil.copytree(template / name, place / name, symlinks=True)
        self.alice, self.bob = desk_at(place / "alice"), desk_at(place / "bob")
        self.share = place / "share"
        self.share.mkdir()

    def newcomer(self, name: str = "carol") -> Desk:
        """A person without runs, in a checkout of the project."""
        (self.place / name).mkdir()
        desk = Desk(self.place / name)
        desk.env["USER"] = name
        shutil.copytree(self.alice.project, desk.project, dirs_exist_ok=True)
        return desk

    def give(self, name: str, uid: int) -> None:
        subprocess.run(["chown", "-R", f"{uid}:{uid}", self.place / name], check=True)


@pytest.fixture
def team(tmp_path: Path, template: Path) -> Team:
    return Team(tmp_path, template)


@pytest.fixture
def open_team(template: Path) -> Iterator[Team]:
    """The same in a folder that other users can enter."""
    with TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        yield Team(Path(place), template)


def listed(desk: Desk, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = desk.holdfast("runs", "--archived", "-o", "json", *words).json
    return [{name: value for name, value in row.items() if name != "shared_by"} for row in rows]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def push(desk: Desk, folder: Path, *words: str) -> dict[str, Any]:
    done = desk.holdfast("history", "push", str(folder), "-o", "json", *words)
    assert done.code == 0, done
    found: dict[str, Any] = done.json
    return found


def pull(desk: Desk, folder: Path, *words: str) -> dict[str, Any]:
    done = desk.holdfast("history", "pull", str(folder), "-o", "json", *words)
    assert done.code == 0, done
    found: dict[str, Any] = done.json
    return found


def test_runs_of_two_people_become_one_history_in_both_stores(team: Team) -> None:
    assert len(push(team.alice, team.share)["new"]) == 2
    before = files(team.share)
    assert len(push(team.bob, team.share)["new"]) == 1
    assert before.items() <= files(team.share).items()  # nothing of alice was changed
    assert len(pull(team.bob, team.share)["new"]) == 2
    pull(team.alice, team.share)
    a, b = listed(team.alice), listed(team.bob)
    assert {row["uid"]: row["acc"] for row in a} == {row["uid"]: row["acc"] for row in b}
    assert sorted((row["user"], row["acc"], row["hidden"]) for row in b) == [
        ("alice", 0.5, True),
        ("alice", 0.75, False),
        ("bob", 0.25, False),
    ]
    (theirs,) = listed(team.bob, "--where", "author = 'alice' and tags.kept = true")
    assert (theirs["tags"], theirs["run_number"]) == ({"dataset": "v3", "kept": True}, 3)
    titles = team.bob.holdfast("runs", "-o", "table", "--columns", "run,author,acc").out.decode()
    assert "alice" in titles
    assert "bob" in titles
    assert b"author" in team.bob.holdfast("info", "-r", "3", "-o", "table").out
    assert team.bob.record("3")["shared_by"]
    assert b"trained with 0.75" in team.bob.holdfast("logs", "-r", "3").out


def test_pulled_run_is_compared_restored_downloaded_and_seen_from_python(team: Team, tmp_path: Path) -> None:
    push(team.alice, team.share)
    pull(team.bob, team.share)
    compared = team.bob.holdfast("compare", "-r", "1", "-r", "3", "-o", "json")
    assert compared.code == 0, compared
    assert "0.75" in json.dumps(compared.json)
    team.bob.script("changed", "pkg/part.py")
    assert b"pkg/part.py" in team.bob.holdfast("diff", "-r", "3").out
    assert team.bob.holdfast("restore", "-r", "3", "--to", str(tmp_path / "code")).code == 0
    assert (tmp_path / "code/pkg/part.py").read_text() == "x = 1"
    out = tmp_path / "out"
    assert team.bob.holdfast("download", "-r", "3", "-d", str(out)).code == 0
    contents = files(out)
    assert b"0.75" * 1000 in contents.values()
    assert b"beside" in contents.values()
    seen = team.bob.python("""
import json, holdfast
print(json.dumps([[run.record["user"], run.metrics["acc"].last] for run in holdfast.runs(sort="acc", archived=True)]))
""")
    assert seen.json == [["bob", 0.25], ["alice", 0.5], ["alice", 0.75]], seen


def test_second_push_and_pull_bring_only_what_is_new(team: Team) -> None:
    push(team.alice, team.share)
    assert push(team.alice, team.share) == {
        "new": [], "present": 2, "open": [], "left_out": [], "labels": 0, "bytes": 0,
    }  # fmt: skip
    pull(team.bob, team.share)
    assert push(team.bob, team.share)["present"] == 2  # runs of others are not sent back
    team.alice.submit("train.py", "0.9")
    assert len(push(team.alice, team.share)["new"]) == 1
    assert len(pull(team.bob, team.share)["new"]) == 1
    team.bob.holdfast("delete", "-r", "3", "-y")
    assert pull(team.bob, team.share)["new"] == []  # what was deleted does not come back from the trash


def test_run_that_has_not_ended_is_named_and_pushed_next_time(team: Team) -> None:
    team.alice.script("import os, time\nwhile not os.path.exists(os.environ['GO']): time.sleep(0.01)", "wait.py")
    go = team.place / "go"
    team.alice.submit("--detach", "-e", f"GO={go}", "wait.py")
    first = team.alice.holdfast("history", "push", str(team.share))
    assert first.code == 0
    assert "2 runs pushed" in first.err
    assert f"not ended, left for the next push: {team.alice.record()['run_id']}" in first.err
    go.touch()
    team.alice.wait_for_end()
    assert len(push(team.alice, team.share)["new"]) == 1


def test_labels_of_both_people_meet_and_the_newest_counts(team: Team) -> None:
    push(team.alice, team.share)
    pull(team.bob, team.share)
    team.bob.holdfast("tag", "-r", "3", "dataset=v4", "seen")
    team.bob.holdfast("tag", "-r", "3", "--remove", "kept")
    team.alice.holdfast("tag", "-r", "2", "mine=1")
    team.alice.holdfast("note", "-r", "2", "by alice")
    push(team.bob, team.share)
    push(team.alice, team.share)
    pull(team.alice, team.share)
    pull(team.bob, team.share)
    a, b = team.alice.record("2"), team.bob.record("3")
    assert a["tags"] == b["tags"] == {"dataset": "v4", "seen": True, "mine": 1}
    assert a["description"] == b["description"] == "by alice"
    ahead = time.time_ns() + 9 * 365 * 86_400 * 10**9  # the clock was wrong at that time
    with open(team.bob.home / "runs" / str(b["uid"]) / "client.jsonl", "ab") as lines:
        lines.write(sealed({"wall_ns": ahead, "type": "note", "text": "by bob in years"}))
    team.alice.holdfast("note", "-r", "2", "by alice again")
    push(team.bob, team.share)
    push(team.alice, team.share)
    pull(team.bob, team.share)
    assert team.bob.record("3")["description"] == "by alice again"
    assert pull(team.alice, team.share)["labels"] == pull(team.bob, team.share)["labels"] == 0


def test_empty_store_and_pull_of_everything_give_the_same_history(team: Team) -> None:
    other = team.place / "alice/other"
    other.mkdir()
    (other / "train.py").write_text(SCRIPT)
    team.alice.holdfast("submit", "-c", "local", "train.py", "0.1", cwd=other)
    team.alice.holdfast("delete", "-r", "1", "-y", "--now")  # numbers have a gap
    push(team.alice, team.share, "-A")
    restored = team.newcomer("alice2")
    assert len(pull(restored, team.share, "-A")["new"]) == 2
    assert listed(restored, "-A") == listed(team.alice, "-A")
    same = ("ledger", "packages", "attempts", "run_number", "tags", "description", "outputs")
    mine, theirs = restored.record("2"), team.alice.record("2")
    assert {name: mine[name] for name in same} == {name: theirs[name] for name in same}
    for kind in ("runs", "objects"):
        before, after = files(team.alice.home / kind), files(restored.home / kind)
        changed = {name for name in before if before[name] != after.get(name)}
        own = ("run.json", "client.jsonl", "alive", "objects/tmp/lock", "/lock")
        assert {name for name in changed if not name.endswith(own)} == set()
    assert restored.holdfast("store", "verify").code == 0
    assert restored.submit("train.py", "0.2").code == 0
    assert restored.record()["run_number"] == 3
    assert len(push(restored, team.share)["new"]) == 1  # the restored ones are there already


def test_project_only_is_shared_unless_all_are_asked_for(team: Team) -> None:
    other = team.place / "alice/other"
    other.mkdir()
    (other / "train.py").write_text(SCRIPT)
    team.alice.holdfast("submit", "-c", "local", "train.py", "0.1", cwd=other)
    assert len(push(team.alice, team.share)["new"]) == 2
    assert len(push(team.alice, team.share, "-A")["new"]) == 1
    assert len(pull(team.bob, team.share)["new"]) == 2
    told = team.bob.holdfast("history", "pull", str(team.share))
    assert "1 run of other projects skipped, --all adds them" in told.err
    assert len(pull(team.bob, team.share, "-A")["new"]) == 1


def test_killed_push_is_finished_by_the_next(team: Team) -> None:
    died = team.alice.python(PUSH_AND_DIE, str(team.share), "1")
    assert died.code == -9, died
    (part,) = (path for path in team.share.iterdir() if path.is_dir())
    assert len(list((part / "runs").iterdir())) == 0
    (part / "tmp/1234.tmp").write_bytes(b"half a file")
    assert pull(team.bob, team.share)["new"] == []  # no run is seen that is not complete
    assert len(push(team.alice, team.share)["new"]) == 2
    assert list((part / "tmp").iterdir()) == []
    assert len(pull(team.bob, team.share)["new"]) == 2
    assert team.bob.holdfast("store", "verify", "--folder", str(team.share)).code == 0


def test_killed_pull_is_finished_by_the_next(team: Team) -> None:
    push(team.alice, team.share)
    died = team.bob.python(PULL_AND_DIE, str(team.share))
    assert died.code == -9, died
    assert len(listed(team.bob)) == 1
    assert len(pull(team.bob, team.share)["new"]) == 2
    assert team.bob.holdfast("store", "verify").code == 0
    team.bob.holdfast("store", "prune")
    assert list(team.bob.home.glob("import-*")) == []


def test_verify_finds_flipped_bits_and_repair_and_push_heal_them(team: Team) -> None:
    push(team.alice, team.share)
    victims = [flip_a_bit(team.share, kind) for kind in ("objects", "runs", "labels")]
    seen = team.bob.holdfast("store", "verify", "--folder", str(team.share), "-o", "json")
    assert seen.code == 74
    assert {str(path) for path in victims} <= {row["path"] for row in seen.json}
    pulled = team.bob.holdfast("history", "pull", str(team.share), "-o", "json")
    assert (pulled.code, pulled.json["new"]) == (74, [])
    assert team.bob.holdfast("store", "verify", "--folder", str(team.share), "--repair").code == 74  # they are alice's
    assert team.alice.holdfast("store", "verify", "--folder", str(team.share), "--repair").code == 0
    push(team.alice, team.share)
    assert team.bob.holdfast("store", "verify", "--folder", str(team.share)).code == 0
    assert pull(team.bob, team.share)["labels"] == 3
    assert len(listed(team.bob)) == 3


def flip_a_bit(share: Path, kind: str) -> Path:
    paths = [path for path in share.glob(f"*/{kind}/**/*") if path.is_file()]
    victim = max(paths, key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.chmod(0o600)
    victim.write_bytes(data)
    return victim


def test_damaged_run_of_ones_own_costs_one_line(team: Team) -> None:
    log = team.alice.attempt("1") / "log"
    log.chmod(0o600)
    log.write_bytes(b"something else")
    (team.alice.attempt("2") / "outputs/deep/model.bin").write_bytes(b"edited")
    done = team.alice.holdfast("history", "push", str(team.share))
    assert done.code == 74
    assert "1 run pushed" in done.err
    lines = [line for line in done.err.splitlines() if line.startswith("skipped: ")]
    assert len(lines) == 2, lines
    assert any(": log: " in line for line in lines)
    assert any("outputs/deep/model.bin: it is not as the run left it" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("push", "missing"), "no such folder"),
        (("push", "gpu1:/srv/history"), "no run configuration or target named 'gpu1'"),
        (("push", "."), "not empty"),
        (("pull", "."), "no history was pushed"),
        (("pull", "missing"), "no such folder"),
        (("pull",), "name either a folder or"),
        (("push", "../store"), "in the store itself"),
    ],
)
def test_folder_that_cannot_be_used_is_refused(team: Team, words: tuple[str, ...], what: str) -> None:
    refused = team.alice.holdfast("history", *words)
    assert refused.code == 2
    assert what in refused.err
    assert "try: " in refused.err


@as_root
def test_users_push_at_once_into_a_sticky_folder(open_team: Team) -> None:
    team = open_team
    team.share.chmod(0o1777)
    team.give("alice", ALICE)
    team.give("bob", BOB)
    words = (str(HOLDFAST), "history", "push", str(team.share))
    running = [
        desk.start(*as_user(uid)[1:], *words, command="setpriv", umask=0o077)
        for desk, uid in ((team.alice, ALICE), (team.bob, BOB))
    ]
    for process in running:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    parts = {part.stat().st_uid: part for part in team.share.iterdir() if part.is_dir()}
    assert set(parts) == {ALICE, BOB}
    for uid, part in parts.items():
        everything = [part, *part.rglob("*")]
        assert {path.stat().st_uid for path in everything} == {uid}
        assert not any(stat.S_IMODE(path.stat().st_mode) & 0o022 for path in everything)
    carol = team.newcomer()
    team.give("carol", MALLORY)
    done = carol.holdfast(
        *as_user(MALLORY)[1:], str(HOLDFAST), "pull", str(team.share), "-o", "json", command="setpriv"
    )
    assert (done.code, len(done.json["new"])) == (0, 3), done


@as_root
def test_group_folder_is_readable_for_its_group_and_for_no_other_user(open_team: Team) -> None:
    team = open_team
    os.chown(team.share, 0, TEAM)
    team.share.chmod(0o770)
    as_user(ALICE)

    def member(desk: Desk, *words: str) -> Any:
        uid = ALICE if desk is team.alice else BOB
        switch = (f"--reuid={uid}", f"--regid={uid}", f"--groups={TEAM}")
        done = desk.holdfast(*switch, str(HOLDFAST), *words, "-o", "json", command="setpriv")
        assert done.code == 0, done
        return done.json if done.out else None

    team.give("alice", ALICE)
    team.give("bob", BOB)
    member(team.alice, "push", str(team.share))
    member(team.bob, "push", str(team.share))
    assert len(member(team.bob, "pull", str(team.share))["new"]) == 2
    paths = [path for part in team.share.iterdir() for path in (part, *part.rglob("*"))]
    assert {path.stat().st_gid for path in paths} == {TEAM}
    assert not any(path.stat().st_mode & 0o007 for path in paths)
    # What bob archives is hidden for him, and not for alice, whose run it is.
    member(team.bob, "archive", "-r", "3")
    member(team.bob, "push", str(team.share))
    member(team.alice, "pull", str(team.share))
    assert (member(team.bob, "info", "-r", "3")["hidden"], member(team.alice, "info", "-r", "2")["hidden"]) == (
        True,
        False,
    )


@as_root
def test_part_that_another_user_made_in_ones_name_is_not_written_to(open_team: Team) -> None:
    team = open_team
    team.share.chmod(0o1777)
    push(team.bob, team.share)
    victim = team.place / "victim"
    victim.mkdir()
    team.give("alice", ALICE)
    os.chown(victim, ALICE, ALICE)
    trap = team.share / json.loads((team.alice.home / "store.json").read_text())["id"]
    trap.mkdir()
    trap.chmod(0o777)
    for name in ("objects", "runs", "labels", "tmp"):
        (trap / name).symlink_to(victim)
    for path in (trap, *trap.iterdir()):
        os.chown(path, MALLORY, MALLORY, follow_symlinks=False)
    words = (*as_user(ALICE)[1:], str(HOLDFAST), "history", "push", str(team.share))
    refused = team.alice.holdfast(*words, command="setpriv")
    assert refused.code == 74
    assert "belongs to another user" in refused.err
    assert f"uid {MALLORY}" in refused.err
    shutil.rmtree(trap)
    trap.symlink_to(victim)
    assert team.alice.holdfast(*words, command="setpriv").code == 74
    assert list(victim.iterdir()) == []


def plant(path: Path, kind: str) -> None:
    """Something of another user under this name."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to("elsewhere")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind.startswith("folder"):
        path.mkdir()
        path.chmod(int(kind.removeprefix("folder "), 8))
    else:
        path.write_text(kind)
    os.chown(path, MALLORY, MALLORY, follow_symlinks=False)


@as_root
def test_what_another_user_put_in_the_way_of_a_push_is_named_with_its_owner(open_team: Team) -> None:
    team = open_team
    team.share.chmod(0o1777)
    team.give("alice", ALICE)
    note, foreign = team.share / "holdfast-history.json", team.share / "notes.txt"
    part = team.share / json.loads((team.alice.home / "store.json").read_text())["id"]

    def refused(command: str, code: int, path: Path) -> str:
        words = (*as_user(ALICE)[1:], str(HOLDFAST), *command.split(), str(team.share))
        done = team.alice.holdfast(*words, command="setpriv")
        assert (done.code, path.name in done.err, f"uid {MALLORY}" in done.err) == (code, True, True), done.err
        assert "disk space" not in done.err
        return done.err

    plant(foreign, "mine")
    refused("history push", 2, foreign)
    foreign.unlink()
    for kind in ("folder 755", "folder 700", "file", "fifo", "link"):
        plant(part, kind)
        assert "the part of this store belongs to another user" in refused("history push", 74, part)
    plant(part, "file")
    part.unlink()
    for kind in ('{"v": 2, "kind": "holdfast-history"}', "garbage", "fifo", "link", "folder 755"):
        plant(note, kind)
        for command, code in (("history push", 2), ("history pull", 2), ("store verify --folder", 2)):
            assert "ask its owner" in refused(command, code, note)


def test_parts_are_a_history_without_the_file_that_marks_the_folder(team: Team) -> None:
    push(team.bob, team.share)
    (team.share / "holdfast-history.json").unlink()
    pull(team.alice, team.share)
    push(team.alice, team.share)
    assert (team.share / "holdfast-history.json").exists()


@as_root
def test_author_of_a_run_is_shown_beside_the_user_who_shared_it(open_team: Team) -> None:
    """A line may claim any user; the owner of the files is what the file system says."""
    team = open_team
    push(team.alice, team.share)
    for path in (part for part in team.share.rglob("*")):
        os.chown(path, MALLORY, MALLORY)
    pull(team.bob, team.share, "--author", f"uid {MALLORY}")
    assert (team.bob.record("3")["user"], team.bob.record("3")["shared_by"]) == ("alice", f"uid {MALLORY}")
    refused = team.bob.holdfast("history", "pull", str(team.share), "--author", "zoe")
    assert refused.code == 2
    assert "zoe" in refused.err


def rewritten(share: Path, version: object) -> tuple[Path, Path]:
    """A run and a file of labels as a Holdfast with this format version would have written them."""
    run = max(share.glob("*/runs/*.json"))
    document = json.loads(run.read_bytes())
    del document["crc"]
    run.chmod(0o600)
    run.write_bytes(sealed({**document, "v": version}))
    old = next(path for path in share.glob("*/labels/**/*.jsonl"))
    lines = [json.loads(line) for line in old.read_bytes().splitlines()]
    data = b"".join(sealed({**{key: line[key] for key in line if key != "crc"}, "v": version}) for line in lines)
    name = hashlib.sha256(data).hexdigest()
    labels = Path(str(old).replace(old.stem, name))
    labels.parent.mkdir(exist_ok=True)
    labels.write_bytes(data)
    old.unlink()
    return run, labels


def test_lines_of_a_newer_holdfast_are_skipped_by_name_and_not_repaired(team: Team) -> None:
    push(team.alice, team.share)
    run, labels = rewritten(team.share, 99)
    done = team.bob.holdfast("history", "pull", str(team.share))
    assert done.code == 74
    assert "1 run" in done.err
    lines = [line for line in done.err.splitlines() if line.startswith("skipped: ")]
    assert len(lines) == 2, lines
    assert all("format version 99: a newer Holdfast wrote it" in line for line in lines)
    assert [path.name in line for path, line in zip((run, labels), lines, strict=True)] == [True, True]
    assert len(listed(team.bob)) == 2
    verified = team.alice.holdfast("store", "verify", "--folder", str(team.share), "--repair", "-o", "json")
    assert verified.code == 74
    assert {row["path"] for row in verified.json} == {str(run), str(labels)}
    assert {row["todo"] for row in verified.json} == {"use the version of Holdfast that wrote it"}
    assert run.exists()
    assert labels.exists()


@pytest.mark.parametrize("version", ["2", True, 2.0])
def test_lines_whose_format_version_is_none_are_damaged(team: Team, version: object) -> None:
    push(team.alice, team.share)
    run, labels = rewritten(team.share, version)
    done = team.bob.holdfast("history", "pull", str(team.share))
    lines = [line for line in done.err.splitlines() if line.startswith("skipped: ")]
    assert (done.code, len(lines)) == (74, 2), lines
    assert all("is damaged: its format version is " in line for line in lines)
    verified = team.bob.holdfast("store", "verify", "--folder", str(team.share), "-o", "json")
    assert {row["path"] for row in verified.json} == {str(run), str(labels)}
    assert all("verify and push again" in row["todo"] for row in verified.json)
