"""Attaching: whose key, how we get in, what is written, and what is never written."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ssh.conftest import PASSWORD

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User


def test_by_a_key_of_ones_own(attached: Laptop, gpu1: Host) -> None:
    text = (attached.project / "aml_config" / "lab1.compute").read_text()
    assert text.splitlines() == [
        "address: gpu1.lab",
        "environment: project",
        f"hostKey: {' '.join(gpu1.public_key('ed25519').split()[:2])}",
        text.splitlines()[3],
        "type: remote",
        "username: ada",
    ]
    assert text.splitlines()[3].startswith("pythonLocation: /")
    assert "Target: lab1" in (attached.project / "aml_config" / "lab1.runconfig").read_text()
    attached.script("import os, socket; print(socket.gethostname(), os.getuid() != 0)")
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert (result.code, b"gpu1 True\n" in result.out) == (0, True), result


def test_the_short_form_is_for_all_projects(laptop: Laptop, gpu1: Host, ada: User) -> None:
    ada.authorize(laptop.client.key())
    laptop.client.trust(gpu1)
    result = laptop.holdfast("attach", "ada@gpu1.lab")
    assert result.code == 0, result
    assert not (laptop.project / "aml_config").exists()
    assert (laptop.home / "targets" / "gpu1.compute").exists()
    laptop.script("print('there')")
    assert b"there\n" in laptop.holdfast("submit", "-c", "gpu1", "train.py").out


@pytest.mark.parametrize(
    "words",
    [
        (
            "computetarget",
            "attach",
            "remote",
            "--name",
            "t",
            "--address",
            "gpu1.lab",
            "--username",
            "ada",
            "-w",
            PASSWORD,
        ),
        (
            "computetarget",
            "attach",
            "--type",
            "remotedocker",
            "-n",
            "t",
            "-a",
            "gpu1.lab",
            "-u",
            "ada",
            f"--password={PASSWORD}",
        ),
        (
            "computecontext",
            "attach",
            "--name",
            "t",
            "--address",
            "gpu1.lab",
            "--username",
            "ada",
            "--password",
            PASSWORD,
        ),
        ("ml", "computetarget", "attach", "remotedocker", "-n", "t", "-a", "gpu1.lab", "-u", "ada", "-w", PASSWORD),
    ],
)
def test_every_generation_of_the_command_line(laptop: Laptop, gpu1: Host, ada: User, words: tuple[str, ...]) -> None:
    result = laptop.holdfast(*words, "--accept-host-key", gpu1.fingerprint("ed25519"))
    assert result.code == 0, result
    assert "with a key created for this target" in result.err
    assert "history" in result.err
    assert len(ada.path(".ssh/authorized_keys").read_text().splitlines()) == 1


def test_a_password_is_used_once_and_is_nowhere(laptop: Laptop, gpu1: Host, ada: User) -> None:
    """Every process of the machine and every file of both sides is searched for it, while it is used and after."""
    laptop.script("print('hello')")
    watch = Watch(PASSWORD.encode())
    with watch:
        process = laptop.start(
            *("computetarget", "attach", "remote", "--name", "lab1", "--address", "gpu1.lab", "--username", "ada"),
            *("--password", PASSWORD, "--accept-host-key", gpu1.fingerprint("ed25519")),
        )
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert laptop.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert watch.looks > 100
    assert watch.others(process.pid) == []
    assert PASSWORD.encode() not in out + err
    assert gpu1.holding(PASSWORD.encode()) == []
    assert _holding(laptop.home, PASSWORD) == _holding(laptop.project, PASSWORD) == []
    assert _holding(laptop.client.home, PASSWORD) == []


def test_a_password_can_be_piped(laptop: Laptop, gpu1: Host, ada: User) -> None:
    with laptop.start(
        *("computetarget", "attach", "remote", "--name", "lab1", "--address", "gpu1.lab", "--username", "ada"),
        *("--accept-host-key", gpu1.fingerprint("ed25519")),
        stdin=subprocess.PIPE,
    ) as process:
        _, err = process.communicate(PASSWORD.encode() + b"\n", timeout=120)
    assert process.returncode == 0, err
    assert b"with a key created for this target" in err


@pytest.mark.parametrize("folder", ["temporary", "too long for a socket " * 5])
def test_a_wrong_password_is_told_and_leaves_nothing(laptop: Laptop, gpu1: Host, ada: User, folder: str) -> None:
    before, temporary = ada.files(), laptop.user_home / folder
    temporary.mkdir()
    result = laptop.attach(ada, gpu1, "--password", "wrong", env={"TMPDIR": str(temporary)})
    assert result.code == 69, result
    assert "SSH authentication failed" in result.err
    assert ada.files() == before
    assert not (laptop.project / "aml_config").exists()
    assert [*temporary.iterdir(), *laptop.home.rglob("ask-*")] == []


@pytest.mark.parametrize("key", ["created by attach", "of the user"])
def test_a_wrong_password_is_told_although_a_key_is_there(laptop: Laptop, gpu1: Host, ada: User, key: str) -> None:
    if key == "of the user":
        ada.authorize(laptop.client.key())
    else:
        assert laptop.attach(ada, gpu1, "--password", PASSWORD).code == 0
        laptop.script("print('in')")
        assert b"in\n" in laptop.holdfast("submit", "-c", "lab1", "train.py").out, "the key is used"
    before = ada.path(".ssh/authorized_keys").read_text()
    wrong = laptop.attach(ada, gpu1, "--password", "wrong")
    assert (wrong.code, "SSH authentication failed" in wrong.err) == (69, True), wrong
    assert ada.path(".ssh/authorized_keys").read_text() == before
    assert laptop.attach(ada, gpu1, "--password", PASSWORD).code == 0


def test_a_password_is_not_needed_where_only_keys_are_taken(laptop: Laptop, gpu1: Host, ada: User) -> None:
    gpu1.configure(passwords=False)
    assert laptop.attach(ada, gpu1, "--password", PASSWORD).code == 69
    ada.authorize(laptop.client.key())
    result = laptop.attach(ada, gpu1, "--password", PASSWORD)
    assert (result.code, "with a key created for this target" in result.err) == (0, True), result


def test_attaching_again_keeps_what_the_user_has_set(laptop: Laptop, gpu1: Host, ada: User) -> None:
    ada.authorize(laptop.client.key())
    attach = ("computetarget", "attach", "remotedocker", "--name", "box", "--address", "gpu1.lab", "--username", "ada")
    accept = ("--accept-host-key", gpu1.fingerprint("ed25519"))
    assert laptop.holdfast(*attach, *accept).code == 0
    path = laptop.project / "aml_config" / "box.compute"
    made = path.read_text()
    assert "baseDockerImage: python:3.12-slim\n" in made
    assert "sharedVolumes: true\n" in made
    changed = made.replace("python:3.12-slim", "own/image:1").replace("sharedVolumes: true", "sharedVolumes: false")
    path.write_text(changed)
    assert laptop.holdfast(*attach).code == 0
    assert path.read_text() == changed
    with_file = changed.replace("baseDockerImage: own/image:1", "dockerfile: image/Dockerfile")
    path.write_text(with_file)
    assert laptop.holdfast(*attach).code == 0
    assert path.read_text() == with_file


def test_a_machine_that_takes_no_keys_is_asked_each_time_and_nothing_is_kept(
    laptop: Laptop, gpu1: Host, ada: User
) -> None:
    gpu1.configure(keys=False)
    result = laptop.attach(ada, gpu1, "--password", PASSWORD)
    assert result.code == 0, result
    assert "prompted for each time" in result.err
    assert not ada.path(".ssh/authorized_keys").exists()
    assert _holding(laptop.home, PASSWORD) == []


def test_minus_k_prints_the_public_key_to_install_by_hand(laptop: Laptop, gpu1: Host, ada: User) -> None:
    result = laptop.attach(ada, gpu1, "-k")
    assert result.code == 69
    assert result.out.startswith(b"ssh-ed25519 ")
    assert "authorized_keys" in result.err
    ada.write(".ssh/authorized_keys", result.text, 0o600)
    laptop.script("print('in')")
    assert b"in\n" in laptop.holdfast("submit", "-c", "lab1", "train.py").out


class TestHostKeys:
    def test_unknown_host_key_needs_confirmation(self, laptop: Laptop, gpu1: Host, ada: User) -> None:
        ada.authorize(laptop.client.key())
        result = laptop.holdfast("attach", "ada@gpu1.lab")
        assert result.code == 76, result
        assert gpu1.fingerprint("ed25519") in result.err
        assert "--accept-host-key" in result.err
        assert ada.path(".holdfast").exists() is False

    def test_another_key_than_the_expected_one_is_refused(self, laptop: Laptop, gpu1: Host, ada: User) -> None:
        result = laptop.holdfast("attach", "ada@gpu1.lab", "--accept-host-key", "SHA256:" + "A" * 43)
        assert result.code == 76
        assert "SHA256:" + "A" * 43 in result.err
        assert gpu1.fingerprint("ed25519") in result.err

    def test_attaching_again_needs_no_terminal_if_the_key_is_the_same(
        self, attached: Laptop, gpu1: Host, ada: User
    ) -> None:
        again = ("computetarget", "attach", "remote", "--name", "lab1", "--address", "gpu1.lab", "--username", "ada")
        path = attached.project / "aml_config" / "lab1.compute"
        before = path.read_text()
        result = attached.holdfast(*again)
        assert result.code == 0, result
        assert path.read_text() == before
        pinned = gpu1.fingerprint("ed25519")
        gpu1.new_keys()
        attached.close_connections()
        refused = attached.holdfast(*again)
        assert refused.code == 76, refused
        assert f"offered: {gpu1.fingerprint('ed25519')}" in refused.err
        assert f"before: {pinned}" in refused.err
        assert "Accepted" not in gpu1.log().split("Server listening")[-1]
        assert path.read_text() == before

    def test_a_key_that_came_with_a_project_is_not_yet_pinned(self, attached: Laptop, ada: User) -> None:
        """Only this user's confirmation makes it so: the file is anyone's who wrote the project."""
        again = ("computetarget", "attach", "remote", "--name", "lab1", "--address", "gpu1.lab", "--username", "ada")
        elsewhere = {"HOLDFAST_HOME": str(attached.home.parent / "new-store")}
        refused = attached.holdfast(*again, env=elsewhere)
        assert (refused.code, "--accept-host-key" in refused.err) == (76, True), refused

    def test_a_changed_key_is_refused_with_both_fingerprints_and_nothing_is_sent(
        self, attached: Laptop, gpu1: Host, lab: Lab
    ) -> None:
        attached.script("print('never')")
        pinned = gpu1.fingerprint("ed25519")
        _forget_connections(attached)
        gpu1.new_keys()
        result = attached.holdfast("submit", "-c", "lab1", "train.py")
        assert result.code == 76, result
        assert pinned in result.err
        assert gpu1.fingerprint("ed25519") in result.err
        assert "Accepted" not in gpu1.log().split("Server listening")[-1]

    def test_a_new_address_with_the_pinned_key_is_the_same_machine(
        self, attached: Laptop, gpu1: Host, lab: Lab
    ) -> None:
        lab.name("moved.lab", gpu1)
        path = attached.project / "aml_config" / "lab1.compute"
        path.write_text(path.read_text().replace("gpu1.lab", "moved.lab"))
        attached.script("print('found')")
        assert b"found\n" in attached.holdfast("submit", "-c", "lab1", "train.py").out

    def test_another_machine_at_the_address_is_refused(self, attached: Laptop, lab: Lab) -> None:
        lab["gpu2"].user("ada", password=PASSWORD)
        lab.name("gpu1.lab", lab["gpu2"])
        _forget_connections(attached)
        attached.script("print('never')")
        assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 76

    def test_a_configuration_that_switches_checking_off_changes_nothing(self, attached: Laptop, gpu1: Host) -> None:
        attached.client.config("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
        _forget_connections(attached)
        gpu1.new_keys()
        attached.script("print('never')")
        assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 76


@pytest.mark.parametrize(
    "address",
    ["-oProxyCommand=touch${IFS}x", "$(touch x)", "a b", "a\nb", "a;b", "[::1]%x y", "", "@", "-lroot", "`id`", "a//b"],
)
def test_a_name_that_is_no_name_is_refused_before_anything_is_started(laptop: Laptop, address: str) -> None:
    for words in (("--address", address, "--username", "ada"), ("--address", "gpu1.lab", "--username", address)):
        if not words[3]:
            continue
        result = laptop.holdfast(
            "computetarget", "attach", "remote", "--name", "x", f"{words[0]}={words[1]}", f"{words[2]}={words[3]}"
        )
        assert result.code in (2, 65), (words, result)
    assert sorted(path.name for path in laptop.project.iterdir()) == []


class Watch:
    """Looks at the arguments and environment of every process, again and again."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._done = threading.Event()
        self._seen: set[tuple[int, str]] = set()
        self.looks = 0

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def others(self, pid: int) -> list[tuple[int, str]]:
        return sorted(found for found in self._seen if found[0] not in (pid, os.getpid()))

    def _look(self) -> None:
        known: dict[int, int] = {}
        while not self._done.wait(0.001):
            self.looks += 1
            for name in os.listdir("/proc"):
                if not name.isdigit():
                    continue
                pid = int(name)
                known[pid] = known.get(pid, 0) + 1
                if known[pid] > 20 and known[pid] % 50:
                    continue  # a process that has been looked at changes its arguments only by an exec
                for file in ("cmdline", "environ"):
                    try:
                        with open(f"/proc/{name}/{file}", "rb") as source:
                            if self._secret in source.read():
                                self._seen.add((pid, file))
                    except OSError:
                        continue


def _holding(folder: Path, secret: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def _forget_connections(laptop: Laptop) -> None:
    laptop.close_connections()
