"""What holds on every machine: who may read what, what is never switched off, the truth about killed watchers."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from conftest import eventually
from ssh.test_links import STEADY, Watched

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User

SOURCES = Path(__file__).resolve().parents[2] / "src" / "holdfast"


def test_no_line_of_ours_switches_host_key_checks_off() -> None:
    forbidden = ("StrictHostKeyChecking=no", "StrictHostKeyChecking no", "KnownHostsFile=/dev/null", "AutoAddPolicy")
    text = {path: path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")}
    assert [(path.name, word) for path, words in text.items() for word in forbidden if word in words] == []
    taken_unseen = [path.name for path, words in text.items() if "accept-new" in words]
    assert taken_unseen == ["attach.py"]


def test_everything_of_ours_is_ours_alone_whatever_the_umask(laptop: Laptop, gpu1: Host, ada: User) -> None:
    attach = ("computetarget", "attach", "remote", "--name", "lab1", "--address", "gpu1.lab", "--username", "ada")
    accept = ("--accept-host-key", gpu1.fingerprint("ed25519"))
    password = str(ada.password)
    assert laptop.holdfast(*attach, *accept, "--password", password, preexec_fn=lambda: os.umask(0)).code == 0
    laptop.script("open('outputs/x', 'w').write('y')")
    assert laptop.holdfast("submit", "-c", "lab1", "train.py", preexec_fn=lambda: os.umask(0)).code == 0
    (key,) = (laptop.home / "ssh").rglob("key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    for folder in (laptop.home, key.parent, ada.path(".holdfast")):  # only this user can enter these
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    key.chmod(0o644)
    laptop.close_connections()
    result = laptop.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 69, result
    assert "readable by other users" in result.err


def test_agents_are_not_forwarded_even_if_the_configuration_says_so(laptop: Laptop, gpu1: Host, ada: User) -> None:
    key = laptop.client.key()
    ada.authorize(key)
    laptop.client.agent(key)
    laptop.env.update(laptop.client.env)
    laptop.client.config("Host *\n  ForwardAgent yes\n  ForwardX11 yes\n")
    gpu1.configure(extra=["AllowAgentForwarding yes"])
    assert laptop.attach(ada, gpu1).code == 0
    laptop.script("import os; print('agent', os.environ.get('SSH_AUTH_SOCK'))")
    assert b"agent None\n" in laptop.holdfast("submit", "-c", "lab1", "train.py").out


def test_a_name_that_no_longer_resolves_is_waited_for(attached: Laptop, gpu1: Host, ada: User, lab: Lab) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    lab.name("gpu1.lab")
    attached.close_connections()
    client.wait_for_words("unreachable since")
    ada.run("touch", "enough")
    lab.name("gpu1.lab", gpu1)
    assert client.finish() == 0, client.err


def test_another_machine_under_the_name_ends_the_watching_not_the_run(
    attached: Laptop, gpu1: Host, ada: User, lab: Lab
) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    lab.name("gpu1.lab", lab["gpu2"])
    attached.close_connections()
    assert client.finish() == 76, client.err
    lab.name("gpu1.lab", gpu1)
    ada.run("touch", "enough")
    assert attached.wait_for_end()["status"] == "Completed"


def test_outputs_that_are_cut_on_their_way_come_whole(attached: Laptop, gpu1: Host, ada: User, lab: Lab) -> None:
    attached.script("import os; open('outputs/big', 'wb').write(os.urandom(8_000_000)); print('made')")
    lab.slow(gpu1, bytes_per_second=2_000_000)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"made\n")
    eventually(lambda: any(path.stat().st_size > 1_000_000 for path in attached.home.rglob("arriving/*")))
    gpu1.kill_sshd()
    client.wait_for_words("unreachable since")
    gpu1.start_sshd()
    lab.slow(gpu1)
    assert client.finish() == 0, client.err
    uid = attached.record()["uid"]
    there = ada.path(f".holdfast/runs/{uid}/a1/outputs/big").read_bytes()
    assert (attached.home / "runs" / uid / "a1" / "outputs" / "big").read_bytes() == there


def test_a_killed_supervisor_is_told_as_lost_and_never_as_success(attached: Laptop, gpu1: Host, ada: User) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    gpu1.kill(attached.events()[0]["pid"], signal.SIGKILL)
    assert client.finish() == 125, client.err
    assert attached.record()["status"] == "Lost"
    eventually(lambda: not [one for one in ada.processes() if "train.py" in " ".join(one.argv)])


def test_run_whose_watchers_are_stopped_is_ended_by_the_next_command(attached: Laptop, gpu1: Host) -> None:
    attached.script(STEADY)
    attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py")
    eventually(lambda: attached.record()["status"] == "Running")
    first = attached.events()[0]
    pids = str(first["guardian"]), str(first["pid"])
    # At once and, where one has continued the other all the same, again.
    eventually(lambda: bool(gpu1.run("kill", "-STOP", *pids, check=False)) and attached.record()["status"] != "Running")
    record = attached.record()
    assert (record["status"], record["exit_code"]) == ("Lost", 125)
    assert "supervisor and guardian were both stopped" in record["reason"]


def test_full_home_on_the_target_is_reported(laptop: Laptop, gpu1: Host, ada: User) -> None:
    ada.small_home("50m", inodes=60)
    ada.authorize(laptop.client.key())
    result = laptop.attach(ada, gpu1)
    assert result.code == 74, result
    assert "ENOSPC" in result.err
    assert "root:" in result.err
