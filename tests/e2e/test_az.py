"""Old projects call ``az``: in a shell of ours and inside runs."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST

if TYPE_CHECKING:
    from conftest import Desk

TRAIN = """
import sys
from azureml.logging import get_azureml_logger
logger = get_azureml_logger()
logger.log("Accuracy", float(sys.argv[1]))
"""
SWEEP = (
    "import os\nfor value in (0, 0.98, 1, 1):\n    os.system(f'az ml experiment submit -c local ./train.py {value}')\n"
)


def test_the_docs_own_smallest_example_through_the_shell(desk: Desk) -> None:
    desk.script(TRAIN)
    desk.script(SWEEP, "run.py")
    commands = (
        "python run.py > /dev/null 2>&1\n"
        "az ml history list --query '@[?Accuracy != null] | max_by(@, &Accuracy).Accuracy'\n"
        "az ml history list --query 'sort_by(@[?Accuracy > `0.97`], &duration)[*].Accuracy'\n"
    )
    with desk.start("shell", stdin=-1, env={"SHELL": "/bin/bash"}) as shell:
        out, err = shell.communicate(commands.encode(), timeout=120)
    assert shell.returncode == 0, err
    best, *others = out.decode().split("\n", 1)
    assert float(best) == 1.0
    assert sorted(float(word) for word in others[0].replace("[", "").replace("]", "").split(",")) == [0.98, 1.0, 1.0]
    assert len(desk.holdfast("history", "list").json) == 4


def test_a_sweep_inside_a_run_makes_children_of_it(desk: Desk) -> None:
    desk.script(TRAIN)
    desk.script(SWEEP, "run.py")
    result = desk.submit("run.py")
    assert result.code == 0, result
    records = desk.holdfast("history", "list").json
    parent = next(record for record in records if record["script_name"] == "run.py")
    children = [record for record in records if record["script_name"] == "train.py"]
    assert sorted(child["Accuracy"] for child in children) == [0, 0.98, 1, 1]
    assert {child["parent_run_id"] for child in children} == {parent["run_id"]}


def test_modules_of_the_project_cannot_stand_in_for_ours(desk: Desk, tmp_path: Path) -> None:
    sentinel = tmp_path / "executed"
    for name in ("json.py", "holdfast.py", "sitecustomize.py", "typing.py"):
        desk.script(f"open({str(sentinel)!r}, 'w').close()\n", name)
    result = desk.holdfast("shell", "--shell", "sh", "--", "az", "ml", "history", "list", "-o", "json")
    assert result.code == 0, result.err
    assert result.json == []
    assert not sentinel.exists()


def test_other_words_go_to_a_real_az(desk: Desk, tmp_path: Path) -> None:
    real = tmp_path / "bin" / "az"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\necho "real: $*"\n')
    real.chmod(0o755)
    env = {"PATH": f"{desk.env['PATH']}:{real.parent}"}
    assert desk.holdfast("shell", "az", "vm", "list", env=env).text == "real: vm list\n"
    assert desk.holdfast("shell", "az", "ml", "job", "create", env=env).text == "real: ml job create\n"
    assert desk.holdfast("shell", "az", "ml", "history", "list", env=env).json == []
    asked = ("shell", "az", "ml", "workspace", "list", "--query", "[].name", "-o", "tsv")
    assert desk.holdfast(*asked, env=env).text == "default\n"
    (tmp_path / "extensions" / "ml").mkdir(parents=True)
    env["AZURE_EXTENSION_DIR"] = str(tmp_path / "extensions")
    assert desk.holdfast(*asked, env=env).text == "real: ml workspace list --query [].name -o tsv\n"


@pytest.mark.skipif(os.system("command -v az >/dev/null") == 0, reason="this machine has a real az")
def test_without_a_real_az_other_words_are_refused(desk: Desk) -> None:
    refused = desk.holdfast("shell", "az", "vm", "list")
    assert refused.code == 127
    assert refused.err.startswith("ERROR: az vm list: the Azure CLI is not installed")
    assert [row["state"] for row in desk.holdfast("shell", "az", "login").json] == ["Enabled"]


SHELL_AZ = pytest.mark.skipif(os.system("command -v az >/dev/null") == 0, reason="this machine has a real az")


@SHELL_AZ
def test_commands_around_az_ml_answer_with_the_shapes_of_the_azure_cli(desk: Desk) -> None:
    (account,) = desk.holdfast("shell", "az", "account", "list").json
    assert set(account) == {"cloudName", "id", "isDefault", "name", "state", "tenantId", "user"}
    assert desk.holdfast("shell", "az", "account", "show").json == account
    (group,) = desk.holdfast("shell", "az", "group", "list").json
    assert set(group) == {"id", "location", "managedBy", "name", "properties", "tags"}
    for words in (("account", "set", "-s", account["id"]), ("logout",)):
        done = desk.holdfast("shell", "az", *words)
        assert (done.code, done.out) == (0, b""), done
    (listed,) = desk.holdfast("shell", "az", "ml", "account", "experimentation", "list").json
    assert {"name", "resourceGroup", "location"} <= set(listed)
    assert desk.holdfast("shell", "az", "ml", "workspace", "list").json[0]["name"]


def test_project_is_created_from_a_repository_with_the_options_of_2017(desk: Desk) -> None:
    template = desk.project / "template"
    template.mkdir()
    (template / "own.py").write_text("print('of the template')\n")
    git = ("git", "-C", str(template), "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run([*git, *words], check=True, timeout=60)
    options = ("-n", "new", "-a", "acc", "-w", "wsp", "-g", "grp", "-l", "westus")
    made = desk.holdfast("project", "create", *options, "--template-url", template.as_uri(), "-o", "json")
    assert made.code == 0, made
    assert (made.json["name"], made.json["path"]) == ("new", str(desk.project / "new"))
    assert (desk.project / "new" / "own.py").read_text() == "print('of the template')\n"
    again = desk.holdfast("project", "create", *options[2:], "-n", "short", "-u", template.as_uri())
    assert (again.code, (desk.project / "short" / "own.py").exists()) == (0, True), again


def test_python_and_pip_are_those_of_local_runs(desk: Desk, tmp_path: Path) -> None:
    own = tmp_path / "own" / "python"
    own.parent.mkdir()
    own.write_text('#!/bin/sh\necho "own python $*"\n')
    own.chmod(0o755)
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text(f"type: local\npythonLocation: {own}\n")
    assert desk.holdfast("shell", "python", "x.py").text == "own python x.py\n"
    assert desk.holdfast("shell", "pip", "list").text == "own python -m pip list\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_users_start_files_do_not_push_us_off_the_path(desk: Desk, name: str) -> None:
    """A real interactive shell on a real terminal, with a start file that puts its own az first."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    theirs = desk.user_home / "theirs"
    theirs.mkdir()
    (theirs / "az").write_text("#!/bin/sh\necho theirs\n")
    (theirs / "az").chmod(0o755)
    (desk.user_home / f".{name}rc").write_text(f'export PATH="{theirs}:$PATH"\n')
    config = desk.user_home / ".config" / "fish"
    config.mkdir(parents=True)
    # Where this folder is missing, fish reads all manual pages of the machine in the background.
    (desk.user_home / ".local" / "share" / "fish" / "generated_completions").mkdir(parents=True)
    (config / "config.fish").write_text(f"set -gx PATH {theirs} $PATH\n")
    env = {**desk.env, "TERM": "dumb", "SHELL": str(shutil.which(name))}
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(desk.project)
        os.execve(HOLDFAST, [str(HOLDFAST), "shell"], env)
    os.write(terminal, b"az ml history list -o json > listed; az login > login 2>&1; exit\n")
    seen = b""
    try:
        while block := os.read(terminal, 4096):
            seen += block
    except OSError:
        pass
    os.close(terminal)
    os.waitpid(pid, 0)
    assert (desk.project / "listed").read_text().strip() == "[]", seen
    assert (desk.project / "login").read_text().strip() in ("theirs", "nothing to do: Holdfast needs no account"), seen
