"""A second machine attached to the same box sees, follows and ends what the first one started there."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from conftest import eventually

if TYPE_CHECKING:
    from conftest import Desk
    from ssh.conftest import Laptop
    from sshlab import User

PULL = ("history", "pull", "-c", "lab1")
LOGGING = """
import holdfast
for step in range(20): holdfast.log('loss', step)
open('outputs/m', 'w').write('model')
"""
FED = """
import time, os
print('waiting', flush=True)
while not os.path.exists(os.path.expanduser('~/go')): time.sleep(0.02)
print('went on', flush=True)
"""


def test_runs_of_another_client(attached: Laptop, second: Laptop, ada: User) -> None:
    attached.script(LOGGING)
    attached.script(FED, "fed.py")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "fed.py").code == 0
    theirs = [attached.record("1"), attached.record("2")]
    shutil.copy(attached.project / ".holdfast-project", second.project)  # a second copy of the same project
    result = second.holdfast(*PULL)
    assert (result.code, result.err) == (0, "2 runs added from lab1, 0 were already known\n"), result
    for words in ((), ("--all",)):
        listed = second.holdfast("history", "list", *words, "-o", "json").json
        assert [row["run_id"] for row in listed] == [row["run_id"] for row in reversed(theirs)]
    done, open_ = theirs[0]["run_id"], theirs[1]["run_id"]
    assert second.record(done)["loss"] == theirs[0]["loss"]
    assert second.holdfast("history", "info", "-r", done, "-a", "outputs/m").out == b"model"
    assert second.holdfast("return", "-r", done).code == 0
    assert (second.project / "outputs" / "m").read_text() == "model"
    for name in ("log", "events.jsonl", "plan.json", "outputs.jsonl"):
        assert (second.attempt(done) / name).read_bytes() == (attached.attempt(done) / name).read_bytes()
    with second.start("logs", "-f", "-r", open_) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == b"waiting\n"
        ada.write("go", "")
        assert watching.communicate(timeout=60)[0] == b"went on\n"
        assert watching.returncode == 0
    assert second.record(open_)["status"] == "Completed"
    assert second.holdfast(*PULL).err == "0 runs added from lab1, 2 were already known\n"


def test_runs_of_other_projects_alone_are_told_with_the_command_that_lists_them(
    attached: Laptop, second: Laptop
) -> None:
    attached.script("print('said')")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    result = second.holdfast(*PULL)
    assert result.code == 0
    assert "of other projects: holdfast runs --all lists runs of all projects" in result.err
    assert second.holdfast("history", "list", "-o", "json").json == []
    assert [row["run_id"] for row in second.holdfast("runs", "--all", "-o", "json").json] == [
        attached.record()["run_id"]
    ]
    shutil.copy(attached.project / ".holdfast-project", second.project)
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert "of other projects" not in second.holdfast(*PULL).err


def test_one_client_ends_what_the_other_started(attached: Laptop, second: Laptop) -> None:
    attached.script("import time; print('up', flush=True); time.sleep(600)")
    attached.script("print('mine')", "quick.py")
    second.script("print('mine')", "quick.py")
    assert second.holdfast("submit", "-c", "lab1", "quick.py").code == 0
    assert attached.holdfast("submit", "-c", "lab1", "quick.py").code == 0
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    found = second.holdfast(*PULL, "-o", "json").json
    assert (len(found["new"]), found["here"], found["refused"]) == (2, 1, 0)
    run_id = attached.record()["run_id"]
    kept = json.loads((second.attempt(run_id).parent / "run.json").read_text())
    assert (kept["origin_number"], kept["run_number"], kept["project_root"]) == (2, 2, "")
    assert kept["reached_by"]["address"] == "gpu1.lab"
    assert second.holdfast("cancel", "-r", run_id).code == 0
    eventually(lambda: second.record(run_id)["status"] == "Canceled")
    assert attached.record()["status"] == "Canceled"


def test_runs_that_make_no_sense_stay_there(attached: Laptop, second: Laptop, ada: User) -> None:
    attached.script("print('said')")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    uid = attached.record()["uid"]
    request = json.loads(ada.path(f".holdfast/runs/{uid}/run.json").read_text())
    for number, change in enumerate(({"project_id": "../../escaped"}, {"uid": uid}, {"arguments": "x"})):
        other = f"{number:032x}"
        ada.write(f".holdfast/runs/{other}/run.json", json.dumps({**request, "uid": other, **change}))
        ada.write(f".holdfast/runs/{other}/a1/events.jsonl", "")
    before = {path for path in second.home.parent.rglob("*") if second.home not in path.parents}
    result = second.holdfast(*PULL)
    assert result.code == 0
    assert "1 run added from lab1, 0 were already known; 3 runs there cannot be read" in result.err
    assert [path.name for path in (second.home / "runs").iterdir()] == [uid]
    assert {path for path in second.home.parent.rglob("*") if second.home not in path.parents} == before


def test_what_is_in_ones_own_store_need_not_come(desk: Desk) -> None:
    desk.script("print('said')")
    assert desk.submit("train.py").code == 0
    result = desk.holdfast("history", "pull", "-c", "local")
    assert (result.code, result.err) == (0, "0 runs added from local, 1 was already known\n")
    assert desk.holdfast("history", "pull").code == 2
