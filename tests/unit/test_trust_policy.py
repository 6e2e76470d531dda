"""The table of what a project may decide: complete, and applied as it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import holdfast
from holdfast.amlconfig import compute, read_compute, runconfig, successor
from holdfast.amlconfig.docker_arguments import ENGINES, HARMLESS
from holdfast.amlconfig.types import ComputeTarget, DataEntry, RunConfig
from holdfast.engine.submit import trust_policy
from holdfast.engine.submit.trust_policy import ALONE, CONFIRM, NEVER, TABLE, wanted
from holdfast.settings import SETTINGS

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
TEMPLATES = sorted(path for path in (Path(holdfast.__file__).parent / "templates").iterdir() if path.is_dir())
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8RrhDrIqBTD0WzqGZ4jSq8TlPVgMOA5m0ANjJ8E7CT"
REMOTE = {"type": "remotedocker", "address": "h", "username": "ada", "host_key": KEY, "base_docker_image": "i"}
DOCKER = {"type": "docker", "base_docker_image": "i"}
# For every key of a .compute file that may need a confirmation: a target that needs it, and one that does not.
SAMPLES = {
    "address": (REMOTE, {**DOCKER}),
    "privateKeyFile": ({**REMOTE, "private_key_file": "~/.ssh/id_work"}, REMOTE),
    "pythonLocation": ({"type": "local", "python_location": "bin/python"}, {**DOCKER, "python_location": "/x/python"}),
    "environment": ({"type": "local", "environment": ".venv"}, {"type": "local", "environment": "project"}),
    "root": ({"type": "local", "root": "store"}, {"type": "local"}),
    "nativeSharedDirectory": (
        {**DOCKER, "native_shared_directory": "~/.azureml/share/../../.ssh"},
        {**DOCKER, "native_shared_directory": "~/.azureml/share/"},
    ),
    "sharedData": ({**REMOTE, "shared_data": "/srv/data"}, REMOTE),
    "baseDockerImage": ({"type": "docker", "base_docker_image": "rootfs:/srv/x"}, DOCKER),
    "containerUser": ({**DOCKER, "container_user": "0:0"}, {**DOCKER, "container_user": "1000:1000"}),
    "network": ({**DOCKER, "network": "host"}, {**DOCKER, "network": "none"}),
    "dockerArguments": (
        {**DOCKER, "docker_arguments": ("--ulimit", "core=0", "-v/:/host")},
        {**DOCKER, "docker_arguments": ("--ulimit", "core=0", "--cpuset-cpus=0")},
    ),
    "startCommand": ({**REMOTE, "start_command": "up"}, REMOTE),
    "stopCommand": ({**REMOTE, "stop_command": "down"}, REMOTE),
    "stopOnTarget": ({**REMOTE, "stop_on_target": "sudo poweroff"}, REMOTE),
}
# Keys that take part in the value of another one.
PARTS = {"port": "address", "username": "address", "hostKey": "address", "type": "address"}


def test_every_key_of_every_file_has_exactly_one_rule() -> None:
    by_file: dict[str, list[str]] = {}
    for rule in TABLE:
        assert rule.rule in (ALONE, CONFIRM, NEVER)
        by_file.setdefault(rule.files, []).append(rule.key)
    assert sorted(by_file[".compute"]) == sorted(compute.KEYS)
    assert sorted(by_file[".runconfig"]) == sorted(runconfig.KEYS)
    assert sorted(by_file[".runconfig of 2018"]) == sorted(_successor_keys())
    [settings] = [rule for rule in TABLE if rule.files == "settings of the user"]
    assert settings.rule == NEVER
    assert [name for name in SETTINGS if name not in settings.note] == []


def test_every_key_that_may_need_a_confirmation_has_a_sample() -> None:
    keys = [rule.key for rule in TABLE if rule.files == ".compute" and rule.rule == CONFIRM]
    assert sorted(keys) == sorted([*SAMPLES, *PARTS])


@pytest.mark.parametrize("key", SAMPLES)
def test_a_key_needs_a_confirmation_exactly_where_the_table_says(key: str, tmp_path: Path) -> None:
    needs, does_not = (ComputeTarget(name="box", **fields) for fields in SAMPLES[key])  # type: ignore[arg-type]
    assert key in [one.key for one in wanted(needs, None, str(tmp_path))]
    assert key not in [one.key for one in wanted(does_not, None, str(tmp_path))]


@pytest.mark.parametrize("user", ["root", "0", "00", "000:0", "+0", "-0:1000", "1000:0", "1000:root", "root:video"])
def test_root_in_a_container_is_asked_for_in_every_spelling(user: str) -> None:
    asked = wanted(ComputeTarget(name="box", **DOCKER, container_user=user))  # type: ignore[arg-type]
    assert [one.key for one in asked] == ["containerUser"]


@pytest.mark.parametrize("kind", ["local", "docker"])
@pytest.mark.parametrize("field", ["root", "native_shared_directory"])
def test_a_folder_of_this_machine_is_asked_for_even_if_it_is_the_users_own(
    kind: str, field: str, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir(0o700)
    [asked] = wanted(ComputeTarget(name="box", type=kind, **{field: str(own)}), None, str(tmp_path / "project"))  # type: ignore[arg-type]
    assert asked.value == str(own)


@pytest.mark.parametrize(
    ("field", "value"), [("username", "root"), ("host_key", KEY[:-1] + "U"), ("type", "remote"), ("host_key", None)]
)
def test_another_user_key_or_way_of_running_is_another_machine(field: str, value: str | None) -> None:
    [before] = wanted(ComputeTarget(name="box", **REMOTE))  # type: ignore[arg-type]
    [after] = wanted(ComputeTarget(name="box", **{**REMOTE, field: value}))  # type: ignore[arg-type]
    assert not trust_policy.covers(before.value, after)


def test_the_same_key_at_another_address_is_the_same_machine() -> None:
    [before] = wanted(ComputeTarget(name="box", **REMOTE))  # type: ignore[arg-type]
    [after] = wanted(ComputeTarget(name="box", **{**REMOTE, "address": "10.0.0.7", "port": 2222}))  # type: ignore[arg-type]
    assert trust_policy.covers(before.value, after)


def test_a_machine_confirmed_for_scripts_is_confirmed_for_containers() -> None:
    [outside] = wanted(ComputeTarget(name="box", **{**REMOTE, "type": "remote"}))  # type: ignore[arg-type]
    [inside] = wanted(ComputeTarget(name="box", **REMOTE))  # type: ignore[arg-type]
    assert trust_policy.covers(outside.value, inside)


def test_options_that_are_not_known_to_be_harmless_need_a_confirmation() -> None:
    assert set(ENGINES) > HARMLESS
    for name in ("--privileged", "--volume", "--mount", "--device", "--pid", "--ipc", "--security-opt", "--cap-add"):
        assert name not in HARMLESS
    target = ComputeTarget(name="box", **DOCKER, docker_arguments=("--privileged", "--ulimit=core=0"))  # type: ignore[arg-type]
    assert [one.value for one in wanted(target)] == ["--privileged"]


def test_a_link_out_of_the_project_needs_a_confirmation_in_a_container(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / "inside").mkdir(parents=True)
    outside.mkdir()
    (project / "data").symlink_to(outside)
    config = RunConfig(name="box", links=("inside", "data"))
    found = wanted(ComputeTarget(name="box", **DOCKER), config, str(project))  # type: ignore[arg-type]
    assert [(one.key, one.value) for one in found] == [("links", str(outside))]
    assert wanted(ComputeTarget(name="local", type="local"), config, str(project)) == []


def test_an_interpreter_on_this_machine_is_judged_by_its_place(tmp_path: Path) -> None:
    project, others = tmp_path / "project", tmp_path / "others"
    for folder in (project, others):
        folder.mkdir()
        (folder / "python").touch()
    others.chmod(0o777)

    def asks(path: object) -> bool:
        return bool(wanted(ComputeTarget(name="local", type="local", python_location=str(path)), None, str(project)))

    own = tmp_path / "own"
    own.mkdir()
    assert not asks("python")
    assert not asks("/usr/bin/python3")
    assert not asks(own / "python")
    assert asks(project / "python")
    assert asks(others / "python")
    assert asks(others / "venv" / "python")
    assert asks("bin/python")
    (own / "link").symlink_to(others / "python")
    assert asks(own / "link")
    (others / "link").symlink_to("/usr/bin/env")
    assert asks(others / "link")


@pytest.mark.parametrize("name", ["default-project", "iris-sample", "json-era", "line-ends", "tabs"])
def test_old_projects_with_default_targets_need_no_confirmation(name: str) -> None:
    paths = sorted((CORPUS / name).rglob("*.compute"))
    assert paths
    read = [read_compute(path)[0] for path in paths]
    here = [target for target in read if target is not None and not target.address]
    assert here
    assert [wanted(target, None, str(CORPUS / name)) for target in here] == [[]] * len(here)


@pytest.mark.parametrize("folder", TEMPLATES, ids=lambda folder: folder.name)
def test_templates_need_no_confirmation_but_for_the_machine_that_they_name(folder: Path) -> None:
    for path in sorted(folder.rglob("*.compute")):
        target, _ = read_compute(path)
        assert target is not None
        keys = [permission.key for permission in wanted(target, None, os.fspath(folder))]
        assert keys == (["address"] if path.stem == "gpubox" else [])


def _successor_keys() -> list[str]:
    prefixed = [f"environment.{name}" for name in successor._ENVIRONMENT if name not in ("python", "docker")]
    prefixed += [f"environment.python.{name}" for name in successor._PYTHON]
    prefixed += [f"environment.docker.{name}" for name in successor._DOCKER if name != "baseImageRegistry"]
    prefixed += [f"environment.docker.baseImageRegistry.{name}" for name in successor._REGISTRY]
    return [*(name for name in successor._READ if name != "environment"), *prefixed]


def test_data_outside_the_project_needs_a_confirmation_unless_it_stays_on_this_machine(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "images").mkdir(parents=True)
    (root / "escape").symlink_to(tmp_path)
    names = ("~/.ssh", "../other", "escape", "images")
    config = RunConfig(name="c", data=tuple(DataEntry(str(number), path) for number, path in enumerate(names)))

    def values(**target: object) -> list[str]:
        compute_target = ComputeTarget(name="t", **target)  # type: ignore[arg-type]
        return [need.value for need in wanted(compute_target, config, str(root)) if need.key == "data"]

    outside = [os.path.realpath(os.path.expanduser("~/.ssh")), str(tmp_path / "other"), str(tmp_path)]
    assert values(**REMOTE) == values(**DOCKER) == outside
    assert values(type="local") == []


def test_path_on_target_needs_a_confirmation_in_containers_only() -> None:
    config = RunConfig(name="c", data=(DataEntry("keys", path_on_target="/root/.ssh"),))
    inside = wanted(ComputeTarget(name="t", **DOCKER), config, "/nowhere")  # type: ignore[arg-type]
    assert [(need.key, need.value) for need in inside] == [("data", "/root/.ssh")]
    assert wanted(ComputeTarget(name="t", type="local"), config, "/nowhere") == []


@pytest.mark.parametrize("option", ["--annotation", "--tz"])
def test_option_that_a_runtime_may_follow_out_of_the_container_is_confirmed(option: str) -> None:
    """crun starts hooks that an annotation names; older podmans copy the file that a time zone names."""
    assert option not in HARMLESS
