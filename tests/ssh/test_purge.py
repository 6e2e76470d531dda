"""``detach --purge``: the machine is as it was before it was attached, and no result is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from conftest import eventually
from ssh.conftest import PASSWORD

if TYPE_CHECKING:
    from conftest import Desk
    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User

PURGE = ("computetarget", "detach", "lab1", "--purge")
WAITING = "import time; print('up', flush=True); time.sleep(600)"


def test_purge_leaves_the_machine_as_it_was(laptop: Laptop, gpu1: Host, ada: User) -> None:
    def seen() -> tuple[object, ...]:
        return ada.files(), ada.sockets(), ada.processes()

    before = seen()
    assert laptop.attach(ada, gpu1, "--password", PASSWORD).code == 0
    laptop.script("import holdfast; holdfast.log('x', 1); open('outputs/m', 'w').write('kept')")
    assert laptop.holdfast("submit", "-c", "lab1", "train.py").code == 0
    laptop.script(WAITING, "wait.py")
    assert laptop.holdfast("submit", "-c", "lab1", "--no-wait", "wait.py").code == 0
    run_id = laptop.record()["run_id"]
    assert seen() != before
    refused = laptop.holdfast(*PURGE)
    assert (refused.code, run_id in refused.err, f"holdfast cancel -r {run_id}" in refused.err) == (2, True, True)
    assert ".ssh" in {Path(name).name for name in ada.files()}
    laptop.holdfast("cancel")
    assert laptop.wait_for_end()["status"] == "Canceled"
    result = laptop.holdfast(*PURGE)
    assert result.code == 0, result
    assert "2 runs" in result.err
    eventually(lambda: seen() == before)
    assert not list((laptop.project / "aml_config").iterdir())
    assert [path.name for path in (laptop.home / "ssh").iterdir() if path.name != "s"] == []
    assert laptop.holdfast("history", "info", "-r", "1", "-a", "outputs/m").out == b"kept"


def test_a_machine_that_does_not_answer_is_not_forgotten(attached: Laptop, lab: Lab, gpu1: Host) -> None:
    attached.close_connections()
    lab.cut(gpu1, "reset")
    result = attached.holdfast(*PURGE)
    assert result.code == 69
    assert "nothing was removed" in result.err
    assert (attached.project / "aml_config" / "lab1.compute").exists()
    detached = attached.holdfast("computetarget", "detach", "lab1")
    assert detached.code == 0, detached
    assert "attach it again and detach --purge removes them" in detached.err
    assert not (attached.project / "aml_config" / "lab1.compute").exists()


def test_what_others_have_there_stays(attached: Laptop, second: Laptop, gpu1: Host, ada: User) -> None:
    for person in (attached, second):
        assert person.attach(ada, gpu1, "-k").code == 0
        person.script("print('said')")
        assert person.holdfast("submit", "-c", "lab1", "train.py").code == 0
    lines = ada.path(".ssh/authorized_keys").read_text().splitlines()
    result = attached.holdfast(*PURGE)
    assert result.code == 0, result
    assert "is kept for 1 other client that uses it (ada@second) and 1 run that was not submitted" in result.err
    left = ada.path(".ssh/authorized_keys").read_text().splitlines()
    assert left == [line for line in lines if line != lines[-2]]
    assert [path.name for path in ada.path(".holdfast/runs").iterdir()] == [second.record()["uid"]]
    second.script("print('again')")
    assert b"again\n" in second.holdfast("submit", "-c", "lab1", "train.py").out


def test_outputs_that_are_nowhere_else_are_asked_for(attached: Laptop, ada: User) -> None:
    attached.script("open('outputs/large', 'wb').write(bytes(17 * 1024 * 1024))")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    result = attached.holdfast(*PURGE)
    assert result.code == 2
    assert "1 output (17.8 MB) of your runs exist only there" in result.err
    assert ada.path(".holdfast").exists()
    assert attached.holdfast(*PURGE, "--yes").code == 0
    assert not ada.path(".holdfast").exists()


def test_outputs_that_no_manifest_lists_are_asked_for(attached: Laptop, ada: User) -> None:
    """A run that could not keep its outputs, and one that was killed before it could list them."""
    attached.script(
        "import os\n"
        "open('outputs/model', 'w').write('only copy')\n"
        "os.makedirs('../../../outputs/in/the/way')  # so that outputs/ cannot be kept\n"
    )
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 74
    attached.script(
        "import os, signal\n"
        "open('outputs/checkpoint', 'w').write('only copy')\n"
        "parent = int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1])\n"
        "for pid in (parent, os.getppid()): os.kill(pid, signal.SIGKILL)\n",
        "killer.py",
    )
    attached.holdfast("submit", "-c", "lab1", "killer.py")
    assert attached.record()["status"] == "Lost"
    result = attached.holdfast(*PURGE)
    assert (result.code, "2 outputs (18 B) of your runs exist only there" in result.err) == (2, True), result
    cleaned = attached.holdfast("clean", "-c", "lab1", "--yes")
    assert cleaned.code == 0, cleaned
    assert (
        sorted(path.read_text() for path in ada.path(".holdfast/runs").glob("*/a1/workspace/above/work/outputs/*"))
        == ["only copy"] * 2
    )


def test_second_purge_writes_nothing_about_runs_that_ended(laptop: Laptop, gpu1: Host, ada: User) -> None:
    """The machine is attached again under two names, without the runs that were on it."""
    before = ada.files()
    assert laptop.attach(ada, gpu1, "--password", PASSWORD).code == 0
    laptop.script("print(1)")
    assert laptop.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert laptop.holdfast(*PURGE).code == 0
    eventually(lambda: ada.files() == before)
    assert laptop.attach(ada, gpu1, "--password", PASSWORD).code == 0
    result = laptop.holdfast(*PURGE)
    assert (result.code, "all other Holdfast data were removed" in result.err) == (0, True), result
    eventually(lambda: ada.files() == before)
    assert laptop.record()["status"] == "Completed"


def test_purge_after_clean_and_second_attach_with_another_key(laptop: Laptop, gpu1: Host, ada: User) -> None:
    """The second attach does not find the first one's key: the machine is filed under its host key, which changed."""
    before = ada.files()
    assert laptop.attach(ada, gpu1, "--password", PASSWORD).code == 0
    laptop.script("print(1)")
    assert laptop.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert laptop.holdfast("clean", "-c", "lab1", "--yes").code == 0
    laptop.script("open('outputs/large', 'wb').write(bytes(17 * 1024 * 1024))")
    assert laptop.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert laptop.holdfast("computetarget", "detach", "lab1").code == 0
    laptop.close_connections()
    for folder in [path for path in (laptop.home / "ssh").iterdir() if path.name != "s"]:
        shutil.rmtree(folder)
    request = laptop.home / "runs" / laptop.record()["uid"] / "run.json"
    content = json.loads(request.read_text())
    assert content["reached_by"]["host_key"]
    content["reached_by"]["host_key"] = "ssh-ed25519 AAAA"
    request.write_text(json.dumps(content))
    assert laptop.attach(ada, gpu1, "--password", PASSWORD).code == 0
    assert len(ada.path(".ssh/authorized_keys").read_text().splitlines()) == 2
    ada.run("mkdir", f"{ada.home}/.holdfast/runs/{32 * '0'}")  # of a submit that was cut off
    refused = laptop.holdfast(*PURGE)
    assert (refused.code, "1 output (17.8 MB) of your runs exist only there" in refused.err) == (2, True), refused
    result = laptop.holdfast(*PURGE, "--yes")
    assert (result.code, "all other Holdfast data were removed" in result.err) == (0, True), result
    eventually(lambda: ada.files() == before)


def test_runs_that_others_left_are_told(attached: Laptop, ada: User) -> None:
    attached.script("print(1)")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    run = next(ada.path(".holdfast/runs").iterdir())
    request = run / "run.json"
    request.write_text(request.read_text().replace('"client_store":"', '"client_store":"0'))
    result = attached.holdfast(*PURGE)
    assert result.code == 0, result
    assert "0 runs of this client were removed there" in result.err
    assert ".holdfast is kept for 1 run that was not submitted from this client" in result.err
    assert run.exists()


def test_ones_own_history_is_not_purged(desk: Desk) -> None:
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "here.compute").write_text("type: local\n")
    desk.script("print(1)")
    assert desk.holdfast("submit", "-c", "here", "train.py").code == 0
    result = desk.holdfast("computetarget", "detach", "here", "--purge")
    assert result.code == 2
    assert "your local history" in result.err
    assert desk.record()["status"] == "Completed"
