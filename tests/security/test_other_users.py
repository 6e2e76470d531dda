"""Folders and files of another user are not followed as a project, unless this user has confirmed it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST, Desk, Result, as_user
from holdfast import project as projects
from holdfast.environments import choice
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN, CAROL, BOB = 0, 54321, 54322  # the user of these tests, and two others

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can be two users")


class Machine:
    """A folder of carol that every user can write to, with a folder of our own in it; bob plants files."""

    def __init__(self, place: Path) -> None:
        self.shared = place / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        os.chown(self.shared, CAROL, CAROL)
        self.home = place / "home"
        self.own = self.shared / "own"
        self.home.mkdir()
        self.own.mkdir()
        (self.own / "train.py").write_text("print('mine ran')\n")
        self.sentinel = place / "bob-ran"

    def plant(self, folder: Path, owner: int = BOB) -> None:
        """A target whose interpreter leaves a trace, in a folder that may be anyone's."""
        python = self.shared / "python"
        python.write_text(f'#!/bin/sh\necho "$@" > {self.sentinel}\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        config = folder / "aml_config"
        config.mkdir()
        (config / "local.compute").write_text(f"type: local\npythonLocation: {python}\n")
        (config / "local.runconfig").write_text("Target: local\nFramework: Python\n")
        for path in (python, config, *config.iterdir()):
            os.chown(path, owner, owner)
        self.sentinel.touch()
        self.sentinel.chmod(0o666)

    @property
    def has_run(self) -> bool:
        return self.sentinel.stat().st_size > 0

    def holdfast(self, *words: str, cwd: Path | None = None, uid: int = OWN, **more: str) -> Result:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **more}
        done = subprocess.run(
            [*as_user(uid), HOLDFAST, *words],
            cwd=cwd or self.own,
            env=env,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr.decode())


@pytest.fixture
def machine() -> Iterator[Machine]:
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Machine(Path(place))


def test_submit_from_an_own_folder_does_not_use_a_project_that_another_user_planted_above(machine: Machine) -> None:
    machine.plant(machine.shared)
    result = machine.holdfast("submit", "-c", "local", "train.py")
    assert result.code == 0, result
    assert "mine ran" in result.text
    assert f"{machine.shared} is a project of another user" in result.err
    assert not machine.has_run
    again = machine.holdfast("submit", "-c", "local", "train.py")
    assert "another user" not in again.err  # the folder is a project of its own by now


def test_submit_in_a_folder_of_another_user_with_a_project_is_refused_until_it_is_confirmed(machine: Machine) -> None:
    machine.plant(machine.shared)
    (machine.shared / "train.py").write_text("print('theirs ran')\n")
    for words in (("submit", "-c", "local", "train.py"), ("check",), ("env", "show"), ("shell", "--", "python", "-V")):
        result = machine.holdfast(*words, cwd=machine.shared)
        assert result.code == 65, (words, result)
        assert f"holdfast trust {machine.shared}" in result.err
    assert not machine.has_run
    result = machine.holdfast("trust", str(machine.shared))
    assert result.code == 0, result
    assert "run the interpreter" in result.err
    assert machine.holdfast("submit", "-c", "local", "train.py", cwd=machine.shared).code == 0
    assert machine.has_run
    assert machine.holdfast("trust", "--forget", ".", cwd=machine.shared).code == 0
    assert machine.holdfast("submit", "-c", "local", "train.py", cwd=machine.shared).code == 65


def test_aml_config_that_another_user_planted_in_an_own_folder_is_refused(machine: Machine) -> None:
    machine.own.chmod(0o777)
    machine.plant(machine.own)
    result = machine.holdfast("submit", "-c", "local", "train.py")
    assert result.code == 65, result
    assert f"{machine.own}/aml_config: uid {BOB}" in result.err
    assert not machine.has_run


def test_revive_neither_runs_nor_changes_a_project_of_another_user(machine: Machine) -> None:
    """The copy in which scripts are run would have them as our own."""
    machine.plant(machine.shared)
    script = machine.shared / "old.py"
    script.write_text(f"from sklearn.externals import joblib\nopen({str(machine.sentinel)!r}, 'w').write('ran')\n")
    os.chown(script, BOB, BOB)
    assert b"sklearn.externals" in machine.holdfast("revive", str(machine.shared)).out
    for option in ("--run", "--write"):
        result = machine.holdfast("revive", option, str(machine.shared))
        assert result.code == 65, result
        assert f"holdfast trust {machine.shared}" in result.err
    assert "sklearn" in script.read_text()
    assert not machine.has_run


def test_revive_leaves_out_what_another_user_put_into_an_own_project(machine: Machine) -> None:
    for name in ("old.py", "deep/old.py"):
        script = machine.own / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"from scipy import interp\nopen({str(machine.sentinel)!r}, 'w').write('ran')\n")
        os.chown(script.parent if name != "old.py" else script, BOB, BOB)
    machine.sentinel.touch()
    result = machine.holdfast("revive", "--run", "--env", "none", str(machine.own))
    assert "train.py: completed" in result.err, result
    assert "old.py: not run" in result.err
    assert not machine.has_run
    result = machine.holdfast("revive", "--write", str(machine.own))
    assert result.code == 65, result
    assert f"uid {BOB}" in result.err
    assert "from scipy" in (machine.own / "deep" / "old.py").read_text()


def test_a_target_that_another_user_put_into_an_own_aml_config_is_refused(machine: Machine) -> None:
    machine.plant(machine.own, OWN)
    compute = machine.own / "aml_config" / "local.compute"
    os.chown(compute, BOB, BOB)
    result = machine.holdfast("submit", "-c", "local", "train.py")
    assert result.code == 65, result
    assert f"{compute}: uid {BOB}" in result.err
    assert not machine.has_run
    assert machine.holdfast("trust", ".").code == 0
    assert machine.holdfast("submit", "-c", "local", "train.py").code == 0


def test_a_folder_of_another_user_without_a_project_is_used_and_nothing_is_written_there(machine: Machine) -> None:
    (machine.shared / "train.py").write_text("print('plain ran')\n")
    before = sorted(machine.shared.iterdir())
    result = machine.holdfast("submit", "-c", "local", "train.py", cwd=machine.shared)
    assert "plain ran" in result.text, result
    assert sorted(machine.shared.iterdir()) == before
    assert machine.holdfast("runs", "-o", "json", cwd=machine.shared).json[0]["run_number"] == 1


@pytest.mark.parametrize("name", [".gitignore", "deep/.amlignore", ".keepignore"])
def test_ignore_file_that_another_user_put_into_an_own_folder_is_refused_until_confirmed(
    machine: Machine, name: str
) -> None:
    (machine.own / "deep").mkdir()
    path = machine.own / name
    path.write_text("*.csv\n")
    os.chown(path, BOB, BOB)
    result = machine.holdfast("submit", "-c", "local", "--dry-run", "train.py")
    assert result.code == 65, result
    assert f"{path}: uid {BOB}" in result.err
    assert machine.holdfast("trust", ".").code == 0
    assert machine.holdfast("submit", "-c", "local", "--dry-run", "train.py").code == 0


def test_ignore_file_of_the_owner_is_followed_only_in_a_folder_that_is_not_writable_for_all(machine: Machine) -> None:
    (machine.shared / "train.py").write_text("print('ran')\n")
    path = machine.shared / ".gitignore"
    path.write_text("*.csv\n")
    os.chown(path, CAROL, CAROL)
    assert machine.holdfast("submit", "-c", "local", "--dry-run", "train.py", cwd=machine.shared).code == 65
    machine.shared.chmod(0o755)
    assert machine.holdfast("submit", "-c", "local", "--dry-run", "train.py", cwd=machine.shared).code == 0


def test_root_is_refused_in_a_mounted_project_and_told_the_command(machine: Machine) -> None:
    below = machine.own / "src"
    below.mkdir()
    (machine.own / ".holdfast-project").write_text(json.dumps({"id": "0" * 8 + "-0000-4000-8000-" + "0" * 12}))
    for path in (machine.own, below, machine.own / ".holdfast-project"):
        os.chown(path, CAROL, CAROL)
    for cwd in (machine.own, below):
        result = machine.holdfast("submit", "-c", "local", "train.py", cwd=cwd)
        assert result.code == 65, result
        assert f"at: {machine.own}\n" in result.err
        assert f"uid {CAROL}" in result.err
        assert f"holdfast trust {machine.own}" in result.err
    with_sudo = machine.holdfast("submit", "-c", "local", "train.py", SUDO_UID=str(CAROL))
    assert with_sudo.code == 0, with_sudo
    assert machine.holdfast("trust", ".", cwd=below).code == 0
    assert machine.holdfast("submit", "-c", "local", "train.py").code == 0


def test_sudo_uid_counts_for_root_alone(machine: Machine) -> None:
    machine.plant(machine.own, BOB)
    for caller in ("", str(BOB)):
        result = machine.holdfast("submit", "-c", "local", "train.py", uid=CAROL, SUDO_UID=caller)
        assert result.code == 65, result
        assert f"holdfast trust {machine.own}" in result.err


def test_files_of_root_do_not_lock_a_user_out_of_a_project(machine: Machine) -> None:
    os.chown(machine.home, CAROL, CAROL)
    os.chown(machine.own, CAROL, CAROL)
    config = machine.own / "aml_config"
    config.mkdir()
    (config / "local.runconfig").write_text("Target: local\nFramework: Python\n")
    root_home = machine.home.parent / "root"
    root_home.mkdir()
    by_sudo = machine.holdfast("submit", "-c", "local", "train.py", SUDO_UID=str(CAROL), HOME=str(root_home))
    assert by_sudo.code == 0, by_sudo
    assert (machine.own / ".holdfast-project").stat().st_uid == 0
    dry_run = ("submit", "--dry-run", "-c", "local", "train.py")
    result = machine.holdfast(*dry_run, uid=CAROL)
    assert result.code == 0, result
    assert "no findings" in machine.holdfast("check", uid=CAROL).text
    os.chown(machine.own, 0, 0)  # now all of it is root's, as if deployed under /opt
    assert machine.holdfast(*dry_run, uid=CAROL).code == 0


def test_check_names_files_of_another_user(machine: Machine) -> None:
    config = machine.own / "aml_config"
    config.mkdir()
    (config / "local.runconfig").write_text("Target: local\nFramework: Python\n")
    os.chown(config / "local.runconfig", BOB, BOB)
    result = machine.holdfast("check")
    assert result.code == 65, result
    assert f"aml_config/local.runconfig: error: belongs to another user: uid {BOB}" in result.text
    assert machine.holdfast("trust", ".").code == 0
    assert machine.holdfast("check").code == 0


def test_the_refusal_in_a_shared_folder_of_root_names_the_owner_of_the_planted_files(machine: Machine) -> None:
    os.chown(machine.shared, 0, 0)
    machine.plant(machine.shared)
    result = machine.holdfast("submit", "-c", "local", "train.py", cwd=machine.shared, uid=CAROL)
    assert result.code == 65, result
    assert f"owner of {machine.shared}/aml_config: uid {BOB}" in result.err
    assert not machine.has_run


def test_a_project_of_root_in_a_shared_folder_is_not_used_from_a_folder_below_it(machine: Machine) -> None:
    os.chown(machine.shared, 0, 0)
    machine.plant(machine.shared, OWN)
    for path in (machine.own, machine.home):
        os.chown(path, CAROL, CAROL)
    warning = f"{machine.shared} is a project of another user"
    dry_run = ("submit", "--dry-run", "-c", "local", "train.py")
    result = machine.holdfast(*dry_run, uid=CAROL)
    assert result.code == 0, result
    assert warning in result.err
    assert machine.holdfast("trust", str(machine.shared), uid=CAROL).code == 0
    assert warning not in machine.holdfast(*dry_run, uid=CAROL).err


def test_an_own_project_above_a_folder_of_another_user_is_found(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(desk.home))
    (desk.project / "aml_config").mkdir()
    below = desk.project / "of-bob" / "own"
    below.mkdir(parents=True)
    os.chown(below.parent, BOB, BOB)
    assert projects.find(str(below)).root == str(desk.project)


@pytest.mark.parametrize("mark", [".holdfast-project", ".azureml/project.json", "aml_config"])
@pytest.mark.parametrize("owned", ["folder", "mark", "folder of mark", "behind a link"])
def test_the_owner_of_every_mark_counts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str, owned: str
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(desk.home))
    path = desk.project / mark
    path.parent.mkdir(exist_ok=True)
    place = path if owned != "behind a link" else tmp_path / "elsewhere"
    if mark == "aml_config":
        place.mkdir()
    else:
        place.write_text("{}")
    if owned == "behind a link":
        path.symlink_to(place)
    foreign = {"folder": desk.project, "mark": path, "folder of mark": path.parent, "behind a link": place}[owned]
    os.chown(foreign, BOB, BOB)
    with pytest.raises(ConfigError, match="belongs to another user"):
        projects.find(str(desk.project))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "no-such-package-anywhere\n"),
        ("pyproject.toml", '[project]\nname = "x"\nversion = "1"\ndependencies = ["no-such-package-anywhere"]\n'),
        ("environment.yml", "dependencies:\n  - no-such-package-anywhere\n"),
    ],
)
def test_file_of_another_user_that_declares_packages_is_passed_over(machine: Machine, name: str, text: str) -> None:
    machine.own.chmod(0o1777)
    (machine.own / name).write_text(text)
    os.chown(machine.own / name, BOB, BOB)
    result = machine.holdfast("submit", "-c", "local", "train.py")
    assert (result.code, "mine ran" in result.text) == (0, True), result
    warning = f"WARNING: {machine.own / name} belongs to another user and is not used; allow it with: holdfast trust"
    assert f"{warning} {machine.own}\n" in result.err
    assert "(no environment is active or declared)" in result.err


def test_file_of_another_user_that_declares_packages_is_used_once_it_is_confirmed(machine: Machine) -> None:
    declaring = machine.own / "requirements.txt"
    declaring.write_text("no-such-package-anywhere\n")
    os.chown(declaring, BOB, BOB)
    assert choice.foreign_files(str(machine.own)) == [str(declaring)]
    assert machine.holdfast("trust", str(machine.own)).code == 0
    result = machine.holdfast("submit", "-c", "local", "--dry-run", "train.py")
    assert "the packages of requirements.txt" in result.err, result
    assert "belongs to another user" not in result.err
