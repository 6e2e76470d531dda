"""Asking for GPUs: on the command line, in a run configuration, and what a plan makes of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuruns import WISH
from holdfast import settings, target_lookup
from holdfast.amlconfig import read_compute, read_runconfig, render
from holdfast.amlconfig.types import ComputeTarget, GpuRequest, RunConfig
from holdfast.amlconfig.write import update
from holdfast.engine.submit import container as containers
from holdfast.engine.submit import job as request
from holdfast.engine.submit import submit
from holdfast.errors import ConfigError, HoldfastError, UsageError
from holdfast.model import GpuWish, Identity, Job, Project
from holdfast.planning import plan_gpu

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = GpuWish()
FOUND: dict[str, object] = {"id": "sha256:1", "digest": "", "python": "/usr/bin/python3"}
HEAD = "Target: local\nFramework: Python\n"
PLANNED = {**WISH, "count": None}


def read(folder: Path, text: str) -> tuple[RunConfig | None, str]:
    path = folder / "aml_config" / "lab.runconfig"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD + text)
    config, findings = read_runconfig(path, "lab.runconfig")
    return config, render(findings)


def job(folder: Path, text: str = "", **asked: Any) -> GpuWish:
    (folder / "train.py").touch()
    config, findings = read(folder, text)
    assert config is not None, findings
    words = request.Asked(words=("train.py",), folder=str(folder), **asked)
    chosen = target_lookup.Chosen(
        config, ComputeTarget("local", "local"), [], config_file=str(folder / "aml_config" / "lab.runconfig")
    )
    project = Project(str(folder), "id", "lab")
    return request.make_job(words, project, chosen, "local", settings.read(""), lambda name: "x").gpu


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("2", GpuRequest(2)),
        ("0", GpuRequest(0)),
        ("all", GpuRequest("all")),
        ("ALL", GpuRequest("all")),
        ("{count: 1, memory: 24GB, name: A100, shared: true}", GpuRequest(1, 24 * 10**9, "A100", True)),
        ("{count: all, shared: yes}", GpuRequest("all", None, None, True)),
        ("{memory: 24GB}", GpuRequest(1, 24 * 10**9)),
        ("\n  count: 3\n  name: H200", GpuRequest(3, None, "H200")),
    ],
)
def test_gpus_of_a_run_configuration(tmp_path: Path, value: str, wanted: GpuRequest) -> None:
    config, findings = read(tmp_path, f"gpus: {value}\n")
    assert findings == ""
    assert config is not None
    assert config.gpus == wanted


def test_runconfig_reads_require_gpu_grace_and_wait(tmp_path: Path) -> None:
    config, findings = read(tmp_path, "requireGpu: yes\ngpuGrace: 90s\nwaitForGpu: 2h\n")
    assert findings == ""
    assert config is not None
    assert (config.require_gpu, config.gpu_grace, config.wait_for_gpu) == (True, 90, 7200)
    config, _ = read(tmp_path, "waitForGpu: 0\n")
    assert config is not None
    assert config.wait_for_gpu == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus: many", "lab.runconfig:3:7: error: gpus is a number from 0 to 1024, or all; not 'many'"),
        ("gpus: -1", "lab.runconfig:3:7: error: gpus is a number"),
        ("gpus: 1025", "lab.runconfig:3:7: error: gpus is a number"),
        ("gpus: {count: some}", "lab.runconfig:3:15: error: count is a number"),
        ("gpus: {shared: perhaps}", "shared must be true or false, not 'perhaps'"),
        ("gpus: {cuont: 1}", "did you mean count?"),
        ("requireGpu: gpu", "lab.runconfig:3:13: error: requireGpu must be true or false"),
        ("gpuGrace: soon", "'soon' is not a duration"),
        ("gpuGrace: 0", "'0' is not a duration"),
        ("waitForGpu: -2h", "'-2h' is not a duration"),
        ("requiregpu: true", "'requiregpu' is read as 'requireGpu'"),
        ("waitForGpus: 1h", "did you mean waitForGpu?"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    assert said in read(tmp_path, text + "\n")[1]


def test_the_writer_keeps_what_stands_beside(tmp_path: Path) -> None:
    path = tmp_path / "lab.runconfig"
    path.write_text(f"{HEAD}gpus: 1  # the small ones\nwaitForGpu: 1h\n# end\n")
    update(path, {"gpus": "all", "requireGpu": True, "waitForGpu": None})
    text = path.read_text()
    assert "gpus: all  # the small ones" in text
    assert "requireGpu: true" in text
    assert "# end" in text
    assert "waitForGpu" not in text
    update(path, {"gpus": {"count": "2", "name": "A100"}})
    config, findings = read_runconfig(path)
    assert findings == []
    assert config is not None
    assert config.gpus == GpuRequest(2, None, "A100")


def test_most_runs_say_nothing(tmp_path: Path) -> None:
    assert job(tmp_path) == NOTHING


def test_the_command_line_wins(tmp_path: Path) -> None:
    text = "gpus: {count: 1, memory: 24GB, name: A100, shared: true}\nwaitForGpu: 2h\ngpuGrace: 1m\n"
    assert job(tmp_path, text) == GpuWish(1, 24 * 10**9, "A100", True, 7200, False, 60)
    wish = job(tmp_path, text, gpus="2", require_gpu=True, wait_for_gpu="0")
    assert wish == GpuWish(2, 24 * 10**9, "A100", True, 0, True, 60)
    assert job(tmp_path, text, gpus="all").count == "all"
    assert job(tmp_path, "requireGpu: true\n") == GpuWish(require=True)


@pytest.mark.parametrize("asked", [{"gpus": "some"}, {"gpus": "-1"}, {"gpus": "2000"}, {"gpus": ""}, {"gpus": "1.5"}])
def test_a_number_that_is_none(tmp_path: Path, asked: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="not a number of GPUs") as caught:
        job(tmp_path, **asked)
    assert caught.value.hint


def test_invalid_wait_for_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="not a duration") as caught:
        job(tmp_path, wait_for_gpu="later")
    assert caught.value.where == "--wait-for-gpu"


def test_none_cannot_be_required(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be required"):
        job(tmp_path, gpus="0", require_gpu=True)
    with pytest.raises(ConfigError, match="cannot be required") as caught:
        job(tmp_path, "gpus: 0\nrequireGpu: true\n")
    assert caught.value.where.endswith("lab.runconfig:3:1")


VISIBLE = "CUDA_VISIBLE_DEVICES"


def test_two_masters_on_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        job(tmp_path, gpus="1", env=(f"{VISIBLE}=0",))
    assert "--gpus 1" in caught.value.what
    assert f"-e {VISIBLE}" in caught.value.what
    assert "remove" in caught.value.hint


def test_two_masters_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        job(tmp_path, f"gpus: 1\nEnvironmentVariables:\n  A: b\n  {VISIBLE}: '0'\n")
    assert caught.value.where == os.path.join(tmp_path, "aml_config", "lab.runconfig:6:3")
    assert "lab.runconfig:3:1" in caught.value.what


def test_two_masters_by_a_file_of_variables(tmp_path: Path) -> None:
    path = tmp_path / "vars"
    path.write_text(f"A=b\n# c\n{VISIBLE}=1\n")
    with pytest.raises(UsageError) as caught:
        job(tmp_path, gpus="all", env_files=(str(path),))
    assert caught.value.where == f"{path}:3"


def test_one_master_is_no_trouble(tmp_path: Path) -> None:
    assert job(tmp_path, env=(f"{VISIBLE}=0",)) == NOTHING
    assert job(tmp_path, require_gpu=True, env=(f"{VISIBLE}=0",)).require
    assert job(tmp_path, gpus="0", env=(f"{VISIBLE}=0",)).count == 0


@pytest.mark.parametrize(
    ("wish", "handed_in", "planned"),
    [
        (NOTHING, False, None),
        (NOTHING, True, {"count": "all", "shared": True}),
        (GpuWish(2), False, {"count": 2}),
        (GpuWish(2), True, {"count": 2}),
        (GpuWish("all"), True, {"count": "all", "shared": False}),
        (GpuWish(0), True, {"count": 0}),
        (GpuWish(require=True), False, {"count": None, "require": True}),
        (GpuWish(require=True), True, {"count": "all", "shared": True, "require": True}),
        (GpuWish(wait_s=60), False, None),
        (GpuWish(wait_s=5400), True, {"count": "all", "shared": True, "wait_s": 5400, "wait_text": "90m"}),
        (GpuWish(1, wait_s=0), False, {"count": 1, "wait_s": 0}),
        (GpuWish(1, grace_s=90), False, {"count": 1, "grace_s": 90, "grace_text": "90s"}),
        (GpuWish(1, 5, "A100", True), False, {"count": 1, "memory": 5, "name": "A100", "shared": True}),
    ],
)
def test_plan_holds_the_gpu_request(wish: GpuWish, handed_in: bool, planned: dict[str, object] | None) -> None:
    assert plan_gpu(wish, handed_in=handed_in) == (None if planned is None else {**PLANNED, **planned})


@pytest.mark.parametrize(("compute", "said", "handed"), [
    (False, None, False), (True, None, True), (False, True, True), (True, False, False)
])  # fmt: skip
def test_a_container_gets_what_the_run_says(compute: bool, said: bool | None, handed: bool) -> None:
    target = ComputeTarget("lab", "docker", nvidia_docker=compute)
    engine: dict[str, object] = {"name": "docker", "program": "docker"}
    found: dict[str, object] = {"id": "", "digest": ""}
    assert containers.plan_section(target, "python:3.11", engine, found, "python", gpu=said)["gpu"] is handed


@pytest.mark.parametrize(
    ("wish", "compute", "count", "handed"),
    [
        (NOTHING, "", None, False),
        (NOTHING, "nvidiaDocker: true\n", "all", True),
        (GpuWish(2), "", 2, True),
        (GpuWish(0), "nvidiaDocker: true\n", 0, False),
        (GpuWish(require=True), "", None, True),
    ],
)
def test_plan_and_container_agree(tmp_path: Path, wish: GpuWish, compute: str, count: object, handed: bool) -> None:
    file = tmp_path / "box.compute"
    file.write_text(f"type: docker\nbaseDockerImage: python:3.11\n{compute}")
    target, _ = read_compute(file)
    assert target is not None
    box = containers.Container("python:3.11", {"name": "docker", "program": "docker"}, FOUND, {})
    job = Job(script="train.py", arguments=(), config="box", target="box", env={}, gpu=wish)
    project, nobody = Project(str(tmp_path), "id", "lab"), Identity("0" * 32, "lab_1", 1)
    plan = submit._plan(
        job, project, nobody, "0" * 64, target_lookup.resolve(target, str(tmp_path)), None, box
    ).to_json()
    gpu, container = plan["gpu"], plan["container"]
    assert isinstance(container, dict)
    assert container["gpu"] is handed
    assert (gpu["count"] if isinstance(gpu, dict) else None) == count
