"""Targets and run configurations: in the project, with the user, listed, made, checked and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast import target_lookup
from holdfast.amlconfig.types import DEFAULT_IMAGE

if TYPE_CHECKING:
    from conftest import Desk

COMPUTE = "type: local\npythonLocation: python\n"


def test_lists_have_the_shapes_that_editors_read(desk: Desk) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "mine.compute").write_text(COMPUTE)
    (config / "copy.compute.bak").write_text("not a target")
    assert desk.holdfast("computetarget", "list", "-o", "json").json == ["docker", "local", "mine", "podman"]
    assert desk.holdfast("runconfiguration", "create", "-n", "fast", "-t", "mine").code == 0
    assert desk.holdfast("runconfiguration", "list", "-o", "json").json == ["fast"]
    text = (config / "fast.runconfig").read_text()
    assert [line.split(":")[0] for line in text.splitlines() if ":" in line] == sorted(
        line.split(":")[0] for line in text.splitlines() if ":" in line
    )
    assert desk.holdfast("computetarget", "show", "mine").json["type"] == "local"
    assert desk.holdfast("runconfiguration", "create", "-n", "fast", "-t", "mine").code == 2
    desk.script("print('ran')")
    assert "ran" in desk.holdfast("submit", "-c", "fast", "train.py").text
    assert desk.record()["target"] == "mine"
    assert desk.holdfast("runconfigurations", "delete", "-n", "fast").code == 0
    assert desk.holdfast("computetarget", "detach", "-n", "mine").code == 0
    assert sorted(path.name for path in config.iterdir()) == ["copy.compute.bak"]


def test_a_users_own_targets_serve_every_project_and_the_projects_own_win(desk: Desk) -> None:
    places = (desk.home / "targets", desk.project / "aml_config")
    for place, value in zip(places, ("user", "project"), strict=True):
        place.mkdir(parents=True)
        (place / "box.compute").write_text(COMPUTE)
        (place / "box.runconfig").write_text(
            f"Target: box\nFramework: Python\nEnvironmentVariables:\n  FROM: {value}\n"
        )
    desk.script("import os; print('from', os.environ['FROM'])")
    assert "from project" in desk.holdfast("submit", "-c", "box", "train.py").text
    (places[1] / "box.runconfig").unlink()
    assert "from user" in desk.holdfast("submit", "-c", "box", "train.py").text
    (places[0] / "box.runconfig").write_text("Target: box\nFramework: R\n")
    refused = desk.holdfast("submit", "-c", "box", "train.py")
    assert refused.code == 65
    assert f"at: {places[0] / 'box.runconfig'}:2:12\n" in refused.err


def test_a_default_target_can_be_set(desk: Desk) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "mine.compute").write_text(COMPUTE)
    desk.script("print('ran')")
    assert desk.holdfast("submit", "train.py").code == 0
    assert desk.record()["target"] == "local"
    desk.holdfast("config", "defaultTarget", "mine")
    assert desk.holdfast("submit", "train.py").code == 0
    assert desk.record()["target"] == "mine"


def test_a_runconfig_naming_a_missing_target_is_refused_with_its_place(desk: Desk) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "docker.runconfig").write_text("Framework: Python\nTarget: docker-python\n")
    desk.script("")
    result = desk.holdfast("submit", "-c", "docker", "train.py")
    assert result.code == 65
    assert "docker.runconfig:2" in result.err
    assert "docker-python" in result.err
    assert not desk.home.exists()


def test_a_mistyped_name_lists_what_there_is(desk: Desk) -> None:
    desk.script("")
    result = desk.holdfast("submit", "-c", "locl", "train.py")
    assert result.code == 2
    assert "known: docker, local, podman;" in result.err


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_container_on_this_machine_is_planned_without_a_file_and_with_one(desk: Desk, name: str) -> None:
    desk.script("")
    planned = desk.holdfast("submit", "-c", name, "--dry-run", "--env", "none", "train.py")
    assert (planned.code, planned.json["target"]) == (0, name), planned
    folders = target_lookup.folders(str(desk.project), str(desk.home))
    assert target_lookup.choose(folders, name).compute.base_docker_image == DEFAULT_IMAGE
    desk.script("type: docker\nbaseDockerImage: own:1\n", f"aml_config/{name}.compute")
    assert target_lookup.choose(folders, name).compute.base_docker_image == "own:1"


def test_warnings_of_a_file_are_shown_at_submit(desk: Desk) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "local.compute").write_text("type: local\nsharedVolumne: true\n")
    desk.script("print('ran')")
    result = desk.submit("train.py")
    assert result.code == 0
    assert "local.compute:2:1: warning" in result.err
    assert "sharedVolumes" in result.err


def test_check_prints_all_findings_at_once(desk: Desk) -> None:
    assert desk.holdfast("check").text == "no findings\n"
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "a.compute").write_text("type: local\n<<<<<<< HEAD\n")
    (config / "b.runconfig").write_text("Framework:Python\nTarget: nowhere\n")
    result = desk.holdfast("check")
    assert result.code == 65
    assert "aml_config/a.compute:2" in result.text
    assert "aml_config/b.runconfig:2" in result.text
    assert len(desk.holdfast("check", "-o", "json").json) >= 2


@pytest.mark.parametrize(
    "words",
    [
        "computetarget attach remotedocker --name my_dsvm --address 127.0.0.1:1 --username u --password p",
        "computetarget attach remote -n my_dsvm -a 127.0.0.1:1 -u u -w p",
        "computetarget attach cluster -n my_dsvm -a 127.0.0.1:1 -u u -k",
        "computetarget attach remote -n x -a 127.0.0.1:1 -u u --private-key-file k --private-key-passphrase p",
        "computetarget attach --name my_dsvm --address 127.0.0.1:1 --username u --password p --type remotedocker",
        "computetarget attach --name my_dsvm --address 127.0.0.1:1 --username u --password p -type cluster",
        "computecontext attach --name my_dsvm --address 127.0.0.1:1 --username u --password p --cluster",
        "ml computetarget attach remotedocker --name my_dsvm --address 127.0.0.1:1 --username u --password p",
    ],
)
def test_all_forms_of_attach_write_nothing_if_the_machine_does_not_answer(desk: Desk, words: str) -> None:
    result = desk.holdfast(*words.split())
    assert result.code == 69, result
    assert "no SSH server is running" in result.err
    assert not (desk.project / "aml_config").exists()


@pytest.mark.parametrize("kind", ["slurm", "ray", "nonsense"])
def test_kinds_that_are_not_there_are_refused_before_anything_happens(desk: Desk, kind: str) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "box.compute").write_text(f"type: {kind}\naddress: h\nusername: u\nbaseDockerImage: i\n")
    desk.script("")
    result = desk.holdfast("submit", "-c", "box", "train.py")
    assert result.code == 65
    assert kind in result.err
    assert not desk.home.exists()


def test_options_that_a_script_refuses_are_named_as_options_of_submit(desk: Desk) -> None:
    desk.script("import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()")
    result = desk.holdfast("submit", "train.py", "--lr", "1", "-c", "gpu7", "--no-wait", "--momentum", "2")
    assert result.code == 2, result
    assert "-c gpu7 --no-wait was passed to train.py; options of submit go before the script" in result.err
    result = desk.holdfast("submit", "train.py", "--momentum", "2")
    assert (result.code, "options of submit" in result.err) == (2, False), result


@pytest.mark.parametrize("flag", ["-c", "--run-configuration", "-t"])
def test_target_after_the_script_goes_to_the_script_and_is_named(desk: Desk, flag: str) -> None:
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "mine.compute").write_text(COMPUTE)
    desk.script("import sys; print(sys.argv[1:])")
    result = desk.holdfast("submit", "train.py", flag, "mine")
    assert f"['{flag}', 'mine']" in result.text
    assert (
        f"{flag} mine was passed to train.py, which runs on local; options of submit go before the script" in result.err
    )
    for words in (
        ["train.py", flag, "other"],
        ["-c", "mine", "train.py", flag, "mine"],
        ["--", "train.py", flag, "mine"],
    ):
        assert "was passed to" not in desk.holdfast("submit", *words).err
