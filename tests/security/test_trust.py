"""What comes with a project and goes beyond its script is used only after one confirmation on this machine."""

from __future__ import annotations

import json
import os
import pty
import shlex
from typing import TYPE_CHECKING

import pytest

from holdfast import target_lookup
from holdfast.amlconfig import read_compute
from holdfast.engine.submit import confirmation

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8RrhDrIqBTD0WzqGZ4jSq8TlPVgMOA5m0ANjJ8E7CT"
OTHER_KEY = KEY[:-1] + "U"
CANARY = "canary-4711-value"
REMOTE = f"type: remote\naddress: gpu1.example.org\nusername: ada\nhostKey: {KEY}\n"
SUBMIT = ("submit", "-c", "gpu1", "train.py")


class Clone:
    """A desk in a project with a target, and an ``ssh`` that writes down every call before it fails."""

    def __init__(self, desk: Desk, tmp_path: Path) -> None:
        self.desk = desk
        self.calls = tmp_path / "ssh-calls"
        programs = tmp_path / "programs"
        programs.mkdir()
        ssh = programs / "ssh"
        answer = "ssh: connect to host gpu1 port 22: Connection refused"
        ssh.write_text(f'#!/bin/sh\necho "$@" >> {self.calls}\necho "{answer}" >&2\nexit 255\n')
        ssh.chmod(0o755)
        desk.env["PATH"] = f"{programs}:{desk.env['PATH']}"
        desk.script("print(1)")

    def target(self, text: str, name: str = "gpu1", folder: str = "") -> Path:
        place = self.desk.home / "targets" if folder == "own" else self.desk.project / "aml_config"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.compute").write_text(text)
        return place / f"{name}.compute"

    @property
    def was_called(self) -> bool:
        return self.calls.exists()

    def goes_on(self, *words: str) -> bool:
        """Whether the command gets as far as a call of ssh."""
        self.calls.unlink(missing_ok=True)
        result = self.desk.holdfast(*(words or SUBMIT))
        assert result.code == (69 if self.was_called else 65), result
        assert self.was_called == ("holdfast trust" not in result.err), result
        return self.was_called


@pytest.fixture
def clone(desk: Desk, tmp_path: Path) -> Clone:
    made = Clone(desk, tmp_path)
    made.target(REMOTE)
    return made


def test_a_target_that_came_with_a_project_is_refused_with_its_place_and_the_command(clone: Clone) -> None:
    result = clone.desk.holdfast(*SUBMIT[:-1], "--secret", "TOKEN", "-e", "PLAIN", "train.py", env=_secrets())
    assert result.code == 65, result
    assert f"{clone.desk.project}/aml_config/gpu1.compute:2:1" in result.err
    assert "holdfast trust gpu1" in result.err
    assert "log in to ada@gpu1.example.org, host key SHA256:" in result.err
    assert not clone.was_called
    assert not clone.desk.home.exists()


@pytest.mark.parametrize(
    "words",
    [
        "submit -c gpu1 train.py",
        "submit -c gpu1 --preflight train.py",
        "submit -c local -t gpu1 train.py",
        "prepare -c gpu1",
        "env show -c gpu1",
        "env lock -c gpu1",
        "env fix -c gpu1",
        "env verify -c gpu1",
        "computetarget test gpu1",
        "computetarget start gpu1",
        "computetarget stop gpu1",
        "computetarget detach gpu1 --purge --yes",
        "gpu -c gpu1",
        "image list -c gpu1",
        "image import -c gpu1 train.py",
        "image export -c gpu1 name:tag file",
        "clean -c gpu1 --dry-run",
        "history pull -c gpu1",
        "ssh -c gpu1",
        "reproduce -r 1 -c gpu1",
        "runs",
    ],
)
def test_no_command_reaches_a_target_that_is_not_confirmed(clone: Clone, words: str) -> None:
    clone.target(f"{REMOTE}userManagedEnvironment: false\nstartCommand: touch ran\nstopCommand: touch ran\n")
    if words.startswith("reproduce"):
        clone.desk.script("import holdfast; holdfast.log('x', 1)")
        assert clone.desk.submit("train.py").code == 0
    result = clone.desk.holdfast(*words.split())
    assert not clone.was_called
    assert not (clone.desk.project / "ran").exists()
    assert result.code == (0 if words == "runs" else 65), result
    assert ("holdfast trust gpu1" in result.err) == (words != "runs")


def test_looking_at_the_files_needs_no_confirmation(clone: Clone) -> None:
    for words in ("computetarget list", "computetarget show gpu1"):
        result = clone.desk.holdfast(*words.split())
        assert result.code == 0, result
    result = clone.desk.holdfast("check")
    assert result.code == 0
    assert "aml_config/gpu1.compute:2:1: warning: not confirmed on this machine: log in to ada@" in result.text
    assert "holdfast trust gpu1" in result.text
    assert not clone.was_called


def test_dry_run_shows_the_plan_and_that_the_submit_would_be_refused(clone: Clone) -> None:
    refused = clone.desk.holdfast(*SUBMIT)
    planned = clone.desk.holdfast("submit", "--dry-run", *SUBMIT[1:])
    assert planned.json["target"] == "gpu1"
    environment, _, error = planned.err.partition("\n")
    assert environment == "environment: python of gpu1 (the default with aml_config)"
    assert (planned.code, error) == (refused.code, refused.err)
    assert (refused.code, "holdfast trust gpu1" in refused.err) == (65, True)
    assert not clone.was_called
    assert not clone.desk.home.exists()
    assert clone.desk.holdfast("trust", "gpu1").code == 0
    confirmed = clone.desk.holdfast("submit", "--dry-run", *SUBMIT[1:])
    assert (confirmed.code, confirmed.json["target"]) == (0, "gpu1")


def test_a_confirmed_target_is_used_until_it_changes_in_what_counts(clone: Clone) -> None:
    assert clone.desk.holdfast("trust", "gpu1").code == 0
    assert "not confirmed" not in clone.desk.holdfast("check").text
    assert clone.goes_on()
    clone.target(f"{REMOTE}shmSize: 8GB\nstopWhenIdleMinutes: 3\n".replace("gpu1.example.org", "10.0.0.7"))
    assert clone.goes_on()
    for changed in (
        REMOTE.replace(KEY, OTHER_KEY),
        REMOTE.replace("ada", "root"),
        REMOTE.replace(f"hostKey: {KEY}\n", ""),
        f"{REMOTE}privateKeyFile: ~/.ssh/id_work\n",
        f"{REMOTE}pythonLocation: /tmp/python\n",
        f"{REMOTE}root: /tmp/store\n",
        f"{REMOTE}stopOnTarget: poweroff\n",
    ):
        clone.target(changed)
        assert not clone.goes_on(), changed


def test_a_confirmation_is_for_one_project(clone: Clone) -> None:
    assert clone.desk.holdfast("trust", "gpu1").code == 0
    other = clone.desk.project.parent / "other"
    (other / "aml_config").mkdir(parents=True)
    (other / "aml_config" / "gpu1.compute").write_text(REMOTE)
    (other / "train.py").touch()
    assert clone.desk.holdfast(*SUBMIT, cwd=other).code == 65
    result = clone.desk.holdfast(*SUBMIT[:-1], "-p", str(other), "train.py")
    assert f"holdfast trust gpu1 --project {other}" in result.err


def test_the_users_own_target_is_not_replaced_by_one_of_a_clone(clone: Clone) -> None:
    own = clone.target(REMOTE, folder="own")
    assert clone.goes_on()  # the same machine
    clone.target(REMOTE.replace(KEY, OTHER_KEY).replace("gpu1.example", "evil.example"))
    result = clone.desk.holdfast(*SUBMIT[:-1], "--secret", "TOKEN", "train.py", env=_secrets())
    assert result.code == 65, result
    assert "evil.example" in result.err
    (clone.desk.project / "aml_config" / "gpu1.compute").unlink()
    assert own.exists()
    assert clone.goes_on()


def test_a_run_configuration_of_a_project_does_not_choose_a_machine_of_the_user(clone: Clone) -> None:
    (clone.desk.project / "aml_config" / "gpu1.compute").unlink()
    clone.target(REMOTE, folder="own")
    config = clone.desk.project / "aml_config" / "local.runconfig"
    config.write_text("Target: gpu1\nFramework: Python\n")
    words = ("submit", "-c", "local", "train.py")
    result = clone.desk.holdfast(*words)
    assert result.code == 65, result
    assert "local.runconfig:1:1" in result.err
    assert "holdfast trust local\n" in result.err
    assert not clone.was_called
    assert clone.goes_on("submit", "-c", "local", "-t", "gpu1", "train.py")
    assert clone.desk.holdfast("trust", "local").code == 0
    assert clone.goes_on(*words)


def test_a_run_configuration_that_this_user_made_needs_no_confirmation(clone: Clone) -> None:
    (clone.desk.project / "aml_config" / "gpu1.compute").unlink()
    clone.target(REMOTE, folder="own")
    result = clone.desk.holdfast("runconfiguration", "create", "nightly", "--target", "gpu1")
    assert result.code == 0, result
    assert clone.goes_on("submit", "-c", "nightly", "train.py")
    # Another configuration that leads to the same target was not made by this user.
    (clone.desk.project / "aml_config" / "pulled.runconfig").write_text("Target: gpu1\nFramework: Python\n")
    refused = clone.desk.holdfast("submit", "-c", "pulled", "train.py")
    assert refused.code == 65, refused
    assert refused.err.startswith("ERROR: pulled needs permissions")


def test_a_target_that_came_with_a_project_stays_unconfirmed_when_a_run_configuration_is_made(clone: Clone) -> None:
    assert clone.desk.holdfast("runconfiguration", "create", "nightly", "--target", "gpu1").code == 0
    assert not clone.goes_on("submit", "-c", "nightly", "train.py")


@pytest.mark.parametrize(
    "line",
    [
        "nativeSharedDirectory: /etc",
        "nativeSharedDirectory: ~/.azureml/share/../..",
        "dockerArguments: [--privileged]",
        "dockerArguments: -v /:/host",
        "network: host",
        "containerUser: root",
        "baseDockerImage: rootfs:/srv",
        "links: [data]",
    ],
)
def test_a_container_gets_nothing_of_the_machine_unasked(desk: Desk, line: str) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (desk.project / "data").symlink_to("/etc")
    desk.script("print(1)")
    key = line.split(":", maxsplit=1)[0]
    file, lines = ("box.runconfig", ["Target: box", "Framework: Python"]) if key == "links" else ("box.compute", [])
    image = "" if key == "baseDockerImage" else "baseDockerImage: x:y\n"
    (config / "box.compute").write_text(f"type: docker\nengine: podman\n{image}{'' if lines else line}\n")
    (config / "box.runconfig").write_text("\n".join(["Target: box", "Framework: Python", line if lines else "", ""]))
    result = desk.holdfast("submit", "-c", "box", "train.py")
    assert result.code == 65, result
    assert f"aml_config/{file}:{3 if lines or not image else 4}:1" in result.err
    assert f"{key}: " in result.err
    assert "holdfast trust box" in result.err
    assert desk.holdfast("trust", "box").code == 0
    assert "not confirmed" not in desk.holdfast("check").text
    assert "holdfast trust" not in desk.holdfast("submit", "-c", "box", "train.py").err


def test_docker_arguments_of_the_form_of_2018_are_asked_for_too(desk: Desk) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    desk.script("print(1)")
    docker = "  docker:\n    enabled: true\n    baseImage: x:y\n    arguments: [--privileged]\n"
    (config / "new.runconfig").write_text(f"script: train.py\ntarget: local\nenvironment:\n{docker}")
    result = desk.holdfast("submit", "-c", "new", "train.py")
    assert result.code == 65, result
    assert "new.runconfig:7:5" in result.err
    assert "holdfast trust new\n" in result.err
    assert desk.holdfast("trust", "new").code == 0
    assert "holdfast trust" not in desk.holdfast("submit", "-c", "new", "train.py").err
    assert "--privileged" in result.err


def test_an_interpreter_in_the_project_is_asked_for_before_it_runs(desk: Desk) -> None:
    python = desk.script("#!/bin/sh\ntouch ran\n", "tools/python")
    python.chmod(0o755)
    (desk.project / "aml_config").mkdir()
    desk.script("print(1)")
    (desk.project / "aml_config" / "local.compute").write_text(f"type: local\npythonLocation: {python}\n")
    for words in (("submit", "train.py"), ("env", "show"), ("gpu", "-c", "local"), ("shell", "--", "python", "-V")):
        assert desk.holdfast(*words).code == 65
    assert not list(desk.project.rglob("ran"))


@pytest.mark.parametrize("key", ["root", "nativeSharedDirectory"])
def test_a_project_does_not_choose_a_folder_of_the_client(desk: Desk, tmp_path: Path, key: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(0o700)
    desk.script("print(1)")
    desk.script(f"type: local\n{key}: {victim}\n", "aml_config/local.compute")
    assert "local.compute:2:1: warning: not confirmed" in desk.holdfast("check").text
    assert desk.holdfast("submit", "-c", "local", "--dry-run", "train.py").code == 65
    for words in (
        "submit -c local --preflight train.py",
        "submit -c local train.py",
        "gpu -c local",
        "computetarget test local",
        "history pull -c local",
        "clean -c local --yes",
    ):
        result = desk.holdfast(*words.split())
        assert result.code == 65, (words, result)
        assert "holdfast trust local" in result.err
    assert list(victim.iterdir()) == []
    desk.trust("local")
    assert desk.submit("train.py").code == 0
    assert list(victim.iterdir()) != []


def test_a_whole_project_can_be_confirmed_listed_and_forgotten(clone: Clone) -> None:
    clone.target("type: docker\nbaseDockerImage: x:y\ndockerArguments: [--privileged]\n", "box")
    result = clone.desk.holdfast("trust", ".")
    assert result.code == 0
    assert "--privileged" in result.err
    rows = clone.desk.holdfast("trust", "--list", "-o", "json").json
    assert {(row["target"], row["key"]) for row in rows} == {("gpu1", "address"), ("box", "dockerArguments")}
    assert {row["project"] for row in rows} == {str(clone.desk.project)}
    shown = next(row["value"] for row in rows if row["key"] == "address")
    assert shown.startswith("ada@gpu1.example.org, host key SHA256:")
    assert KEY not in shown
    assert clone.goes_on()
    assert clone.desk.holdfast("trust", "--forget", "gpu1").code == 0
    assert not clone.goes_on()
    assert len(clone.desk.holdfast("trust", "--list", "-o", "json").json) == 1
    assert clone.desk.holdfast("trust", "--forget", ".").code == 0
    assert clone.desk.holdfast("trust", "--list", "-o", "json").json == []
    assert clone.desk.holdfast("trust", "--forget", ".").code == 2
    assert clone.desk.holdfast("trust").code == 2
    assert clone.desk.holdfast("trust", "nothing").code == 2


def test_detach_forgets_what_was_confirmed(clone: Clone) -> None:
    assert clone.desk.holdfast("trust", "gpu1").code == 0
    assert clone.desk.holdfast("computetarget", "detach", "gpu1").code == 0
    clone.target(REMOTE)
    assert not clone.goes_on()


@pytest.mark.parametrize(("answer", "called"), [("y", True), ("n", False), ("", False)])
def test_at_a_terminal_it_is_asked_once(clone: Clone, answer: str, called: bool) -> None:
    code, shown = _at_terminal(clone.desk, answer)
    assert "log in to ada@gpu1.example.org" in shown
    assert "[y/N]" in shown
    assert clone.was_called == called
    assert code == (69 if called else 2), shown
    if called:
        assert "[y/N]" not in _at_terminal(clone.desk, "")[1]


def test_a_machine_that_the_store_knew_before_counts_as_confirmed(clone: Clone) -> None:
    compute, _ = read_compute(clone.target(f"{REMOTE}pythonLocation: /opt/python3\n"))
    assert compute is not None
    login = target_lookup.login(compute, str(clone.desk.home))
    os.makedirs(login.folder)
    assert clone.goes_on()
    clone.target(REMOTE.replace(KEY, OTHER_KEY))
    assert not clone.goes_on()
    clone.target(f"{REMOTE}stopOnTarget: poweroff\n")
    assert not clone.goes_on()
    assert clone.desk.holdfast("trust", "gpu1").code == 0  # from now on there is a list
    other, _ = read_compute(clone.target(REMOTE.replace("ada", "bob")))
    assert other is not None
    os.makedirs(target_lookup.login(other, str(clone.desk.home)).folder)
    assert not clone.goes_on()


def test_a_command_that_an_earlier_version_trusted_still_runs(clone: Clone) -> None:
    import hashlib

    clone.target(f"{REMOTE}stopCommand: touch stopped\nstartCommand: touch started\n")
    assert clone.desk.holdfast("trust", "gpu1").code == 0
    clone.target(f"{REMOTE}stopCommand: touch before\nstartCommand: touch after\n")
    digest = hashlib.sha256(b"touch before").hexdigest()
    (clone.desk.home / "trusted.json").write_text(json.dumps({digest: "gpu1"}))
    assert clone.desk.holdfast("computetarget", "start", "gpu1").code == 65
    assert clone.desk.holdfast("computetarget", "stop", "gpu1").code == 0
    assert (clone.desk.project / "before").exists()
    assert not (clone.desk.project / "after").exists()


def test_a_run_that_submits_from_its_copy_has_the_confirmations_of_its_project(clone: Clone) -> None:
    clone.desk.script("print(1)")
    assert clone.desk.submit("train.py").code == 0
    home, root = str(clone.desk.home), str(clone.desk.project)
    assert confirmation.scope_of(home, str(clone.desk.attempt() / "workspace/above/work")) == root
    assert confirmation.scope_of(home, str(clone.desk.project.parent / "runs" / ("a" * 32))) != root


def test_a_submit_inside_a_run_uses_what_was_confirmed_for_its_project(clone: Clone) -> None:
    clone.desk.script("import subprocess; subprocess.run(['holdfast', 'submit', '-c', 'gpu1', 'train.py'])", "sweep.py")
    assert "holdfast trust gpu1" in clone.desk.submit("sweep.py").text
    assert not clone.was_called
    clone.desk.trust("gpu1")
    assert "holdfast trust" not in clone.desk.submit("sweep.py").text
    assert clone.was_called


def test_a_damaged_file_of_confirmations_confirms_nothing(clone: Clone) -> None:
    assert clone.desk.holdfast("trust", "gpu1").code == 0
    path = clone.desk.home / "trust.json"
    for text in ("", "[]", "[" * 100_000, '{"confirmed": 3, "folders": {}, "machines": null}', path.read_text()[:-20]):
        path.write_text(text)
        result = clone.desk.holdfast(*SUBMIT)
        assert result.code in (65, 74), (text, result)
        assert not clone.was_called


def _secrets() -> dict[str, str]:
    return {"TOKEN": CANARY, "PLAIN": CANARY}


def _at_terminal(desk: Desk, answer: str) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    with desk.start(*SUBMIT, stdin=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:
            pass  # the other end is closed
        process.wait(60)
    os.close(ours)
    return process.returncode, shown.decode()


def test_folder_named_like_a_run_has_no_confirmations_of_the_project_of_that_run(clone: Clone, tmp_path: Path) -> None:
    assert clone.desk.submit("train.py").code == 0
    assert clone.desk.holdfast("trust", "gpu1").code == 0
    home, uid = str(clone.desk.home), str(clone.desk.record()["uid"])
    project = os.path.realpath(clone.desk.project)
    assert confirmation.scope_of(home, f"{home}/runs/{uid}/a1/work") == project
    other = tmp_path / "clone" / "runs" / uid / "x"
    (other / "aml_config").mkdir(parents=True)
    (other / "aml_config" / "gpu1.compute").write_text(REMOTE)
    (other / "train.py").write_text("print(1)")
    assert confirmation.scope_of(home, str(other)) == str(other)
    clone.calls.unlink(missing_ok=True)
    result = clone.desk.holdfast(*SUBMIT, cwd=other)
    assert (result.code, clone.was_called) == (65, False), result


@pytest.mark.parametrize("name", ["-x", "a b;touch planted", "$(touch planted)"])
def test_command_of_a_refusal_confirms_a_target_with_any_name(clone: Clone, name: str) -> None:
    clone.target(f"{REMOTE}stopCommand: 'true'\n", name)
    refused = clone.desk.holdfast("submit", f"--run-configuration={name}", "train.py")
    command = refused.err.rpartition("to allow this: ")[2].strip()
    program, *words = shlex.split(command)
    assert (refused.code, program) == (65, "holdfast")
    assert clone.desk.holdfast(*words).code == 0
    assert clone.goes_on("submit", f"--run-configuration={name}", "train.py")


def test_trust_of_a_project_names_the_files_that_it_cannot_read(clone: Clone) -> None:
    (clone.desk.project / "aml_config" / "night.runconfig").write_text("Target: gpu1\nlinks: {a: b}\n")
    done = clone.desk.holdfast("trust", ".")
    assert done.code == 0
    assert "confirmed: log in to ada@gpu1.example.org" in done.err
    assert "not confirmed, because the file has an error" in done.err
    assert "night.runconfig" in done.err
