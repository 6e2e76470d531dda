"""Machines as they are: noisy shells, strange shells, old Pythons, full and read-only homes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from sshlab import NoSuchPython

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host, User

HELLO = "import sys, holdfast; holdfast.log('x', 1); print('hello from', sys.version_info[:2])"


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/usr/bin/zsh", "/usr/bin/fish", "/bin/tcsh", "/bin/csh"])
def test_any_login_shell(laptop: Laptop, gpu1: Host, shell: str) -> None:
    user = gpu1.user("ada", shell=shell)
    user.authorize(laptop.client.key())
    assert laptop.attach(user, gpu1).code == 0
    laptop.script(HELLO)
    result = laptop.holdfast("submit", "-c", "lab1", "train.py", "it's", "$HOME", "a\nb", "!x", "")
    assert result.code == 0, result
    assert laptop.record()["arguments"] == ["it's", "$HOME", "a\nb", "!x", ""]


def test_a_banner_and_a_talkative_shell(laptop: Laptop, gpu1: Host, ada: User) -> None:
    gpu1.configure(banner="** authorised users only **\n")
    for name in (".bashrc", ".profile", ".bash_profile"):
        ada.write(name, "echo 'Welcome!'; echo 'and to stderr' >&2; printf '\\0\\377 noise'\n")
    ada.authorize(laptop.client.key())
    assert laptop.attach(ada, gpu1).code == 0
    laptop.script(HELLO)
    result = laptop.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 0, result
    assert b"Welcome" not in result.out
    assert laptop.holdfast("logs").out.startswith(b"hello from")


def test_no_sftp_and_no_programs_in_tmp(laptop: Laptop, gpu1: Host, ada: User) -> None:
    gpu1.configure(sftp=False)
    gpu1.remount("/tmp", "noexec")
    ada.authorize(laptop.client.key())
    assert laptop.attach(ada, gpu1).code == 0
    laptop.script(HELLO)
    assert laptop.holdfast("submit", "-c", "lab1", "train.py").code == 0


def test_a_machine_with_python_3_6_only(laptop: Laptop, gpu1: Host, ada: User) -> None:
    try:
        gpu1.only_python("3.6")
    except NoSuchPython as why:
        pytest.skip(f"NOT TESTED: {why}")
    ada.authorize(laptop.client.key())
    result = laptop.attach(ada, gpu1)
    assert result.code == 0, result
    laptop.script(HELLO)
    assert b"hello from (3, 6)" in laptop.holdfast("submit", "-c", "lab1", "train.py").out


def test_a_machine_without_python_is_told_so(laptop: Laptop, gpu1: Host, ada: User) -> None:
    gpu1.only_python(None)
    ada.authorize(laptop.client.key())
    before = ada.files()
    result = laptop.attach(ada, gpu1)
    assert result.code != 0
    assert "no Python 3.6 or newer" in result.err
    assert ada.files() == before


def test_a_read_only_home_is_refused_and_root_is_named(laptop: Laptop, gpu1: Host, ada: User) -> None:
    ada.authorize(laptop.client.key())
    ada.read_only_home()
    result = laptop.attach(ada, gpu1)
    assert result.code == 74, result
    assert "root:" in result.err
    assert "/home/ada" in result.err
    assert laptop.attach(ada, gpu1, "--root", "/tmp/ada-holdfast").code == 0
    laptop.script(HELLO)
    assert laptop.holdfast("submit", "-c", "lab1", "train.py").code == 0


def test_a_disk_that_is_too_small_is_refused_with_figures(laptop: Laptop, gpu1: Host, ada: User) -> None:
    ada.small_home("8m")
    ada.authorize(laptop.client.key())
    assert laptop.attach(ada, gpu1).code == 0
    laptop.script(HELLO)
    (laptop.project / "big.bin").write_bytes(bytes(20_000_000))
    result = laptop.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 74, result
    assert re.search(r"40\.\d MB and \d+ files are needed, \d\.\d MB and", result.err)
    assert "files free in" in result.err
    (laptop.project / "big.bin").unlink()
    assert laptop.holdfast("submit", "-c", "lab1", "train.py").code == 0


def test_without_a_shared_connection(attached: Laptop) -> None:
    attached.script(HELLO)
    result = attached.holdfast("submit", "-c", "lab1", "train.py", env={"HOLDFAST_SSH_SHARED": "no"})
    assert result.code == 0, result


def test_a_server_with_one_session_per_connection(attached: Laptop, gpu1: Host) -> None:
    gpu1.configure(extra=["MaxSessions 1"])
    attached.close_connections()
    attached.script(HELLO)
    for _ in range(2):
        assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert attached.holdfast("history", "list", "-o", "json").code == 0


def test_aliases_jump_hosts_and_includes_of_the_users_own_configuration(laptop: Laptop, gpu1: Host, ada: User) -> None:
    other = gpu1.lab["gpu2"]
    jumper = other.user("jumper")
    key = laptop.client.key()
    ada.authorize(key)
    jumper.authorize(key)
    laptop.client.trust(other)
    included = laptop.client.home / ".ssh" / "more.conf"
    included.write_text("Host box\n  HostName gpu1.lab\n  User ada\n  ProxyJump jumper@gpu2.lab\n")
    laptop.client.config(f"Include {included}\n")
    result = laptop.holdfast(
        *("computetarget", "attach", "remote", "--name", "box", "--address", "box"),
        *("--accept-host-key", gpu1.fingerprint("ed25519")),
    )
    assert result.code == 0, result
    laptop.script(HELLO)
    assert laptop.holdfast("submit", "-c", "box", "train.py").code == 0
    assert "jumper" in other.log()


def test_an_agent_and_ipv6(laptop: Laptop, gpu1: Host, ada: User) -> None:
    key = laptop.client.key("elsewhere")
    ada.authorize(key)
    laptop.client.agent(key)
    laptop.env.update(laptop.client.env)
    accept = ("--accept-host-key", gpu1.fingerprint("ed25519"))
    result = laptop.holdfast("attach", f"ada@[{gpu1.address6}]:22", "--name", "six", *accept)
    assert result.code == 0, result
    laptop.script(HELLO)
    assert laptop.holdfast("submit", "-c", "six", "train.py").code == 0


def test_another_user_of_the_machine_sees_nothing(attached: Laptop, gpu1: Host, ada: User) -> None:
    attached.script("import time; print('secret words', flush=True); time.sleep(600)")
    attached.holdfast("submit", "-c", "lab1", "--no-wait", "-e", "TOKEN=abc", "train.py")
    eve = gpu1.user("eve")
    uid = attached.record()["uid"]
    for name in ("log", "plan.json", "events.jsonl", "control.jsonl"):
        assert eve.run("cat", f"/home/ada/.holdfast/runs/{uid}/a1/{name}", check=False).returncode != 0
    (script,) = [process.pid for process in ada.processes() if "train.py" in " ".join(process.argv)]
    assert eve.run("sh", "-c", f"kill {script} || cat /proc/{script}/environ", check=False).returncode != 0
    assert eve.run("touch", f"/home/ada/.holdfast/runs/{uid}/a1/control.jsonl", check=False).returncode != 0
    attached.holdfast("cancel")
    assert attached.wait_for_end()["status"] == "Canceled"


def test_the_clients_environment_stays_at_home(attached: Laptop) -> None:
    attached.script("import os; print(sorted(os.environ))")
    result = attached.holdfast(
        "submit", "-c", "lab1", "train.py", env={"MY_API_TOKEN": "canary", "SSH_AUTH_SOCK": "/x"}
    )
    assert b"MY_API_TOKEN" not in result.out
    assert b"SSH_AUTH_SOCK" not in result.out
