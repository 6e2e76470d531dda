from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.amlconfig import Finding, raise_errors, read_compute, read_runconfig, render
from holdfast.amlconfig.dependencies import read_conda, read_spark
from holdfast.amlconfig.successor import in_container
from holdfast.amlconfig.types import (
    ComputeTarget,
    CondaDependencies,
    GpuRequest,
    Item,
    RunConfig,
    SparkDependencies,
    SparkPackage,
)
from holdfast.errors import ConfigError
from holdfast.quantities import parse_duration, parse_size

SOURCES = Path(__file__).parents[2] / "src"
CORPUS = Path(__file__).parents[1] / "corpus"


def corpus(name: str) -> Path:
    project, file = name.split("/")
    return CORPUS / project / "aml_config" / file


def compute(path: Path) -> ComputeTarget:
    target, findings = read_compute(path)
    assert target is not None, render(findings)
    return target


def runconfig(path: Path) -> RunConfig:
    config, findings = read_runconfig(path)
    assert config is not None, render(findings)
    return config


def test_a_generated_pair() -> None:
    assert compute(corpus("default-project/docker.compute")) == ComputeTarget(
        name="docker",
        type="localdocker",
        base_docker_image="microsoft/mmlspark:plus-0.7.91",
        native_shared_directory="~/.azureml/share/",
        shared_volumes=True,
    )
    assert runconfig(corpus("default-project/docker.runconfig")) == RunConfig(
        name="docker",
        target="docker",
        framework="Python",
        argument_vector=("$file",),
        conda_dependencies_file="aml_config/conda_dependencies.yml",
        spark_dependencies_file="aml_config/spark_dependencies.yml",
        prepare_environment=True,
        tracked_run=True,
        use_sampling=True,
    )


def test_the_keys_of_holdfast() -> None:
    config = runconfig(corpus("spelling/fine.runconfig"))
    assert config.gpus == GpuRequest(2, 24 * 10**9, "A100")
    assert (config.fetch_outputs, config.timeout, config.grace, config.max_log_size) == ("all", 14400, 10, 2 * 10**9)
    assert config.links == ("data", "models")


def test_own_keys_of_a_target(tmp_path: Path) -> None:
    path = tmp_path / "far.compute"
    path.write_text("type: remote\naddress: a.b\nroot: /scratch/ada\nport: 2222\nengine: podman\ngpus: 2\n")
    target = compute(path)
    assert (target.root, target.port, target.engine, target.gpus) == ("/scratch/ada", 2222, "podman", GpuRequest(2))


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("first-targets/vm.compute", "virtualmachine"),
        ("first-targets/hdi.compute", "cluster"),
        ("first-targets/native.compute", "local"),
        ("first-targets/typo.compute", "remotedoker"),
        ("repeated/local.compute", "local"),
        ("missing-blank/docker.compute", "docker"),
    ],
)
def test_types_of_targets(file: str, kind: str) -> None:
    assert compute(corpus(file)).type == kind


@pytest.mark.parametrize("end", ["crlf", "mixed", "none", "bom", "utf16"])
def test_line_ends_and_encodings_make_no_difference(end: str) -> None:
    default = compute(corpus("default-project/local.compute"))
    assert compute(corpus(f"line-ends/{end}.compute")) == default._replace(name=end)


def test_block_scalars_are_read_by_the_full_reader() -> None:
    target = compute(corpus("hostile/block.compute"))
    assert (target.root, target.python_location) == ("/data/ holdfast", "/usr/bin/python3")


def test_slips_are_read_as_meant() -> None:
    assert compute(corpus("spelling/docker.compute")).base_docker_image == "img:tag"
    assert compute(corpus("spelling/docker.compute")).nvidia_docker is True
    assert compute(corpus("spelling/docker.compute")).extra == {"sharedVolumne": "true", "colour": "blue"}
    assert compute(corpus("tabs/docker.compute")).base_docker_image == "x"
    assert compute(corpus("tabs/docker.compute")).shared_volumes is True
    assert compute(corpus("missing-blank/docker.compute")).base_docker_image == "ubuntu:22.04"
    assert runconfig(corpus("tabs/docker.runconfig")).environment_variables == {"A": "1", "B": "two"}
    assert runconfig(corpus("docs-samples/arguments.runconfig")).argument_vector == ("s.py", "234", "-v")
    assert runconfig(corpus("docs-samples/one-line.runconfig")).argument_vector == ("s.py", "234")
    assert runconfig(corpus("missing-blank/docker.runconfig")).environment_variables == {
        "A": "1",
        "PROXY": "http://proxy.example.org",
    }


def test_json_era() -> None:
    good = runconfig(corpus("json-era/good.runconfig"))
    assert good.argument_vector == ("$file", "3")
    assert good.description == 'the "first" one'
    for slip in ("tabs", "missing-comma", "dot-for-comma"):
        config = runconfig(corpus(f"json-era/{slip}.runconfig"))
        assert (config.target, config.framework) == ("docker", "Python")
    assert runconfig(corpus("json-era/dot-for-comma.runconfig")).tracked_run is True
    assert runconfig(corpus("json-era/no-framework.runconfig")).framework is None


def test_the_lower_case_successor() -> None:
    config = runconfig(corpus("successor/train.runconfig"))
    assert config == RunConfig(
        name="train",
        target="local",
        framework="Python",
        argument_vector=("train.py", "--epochs", "3"),
        environment_variables={"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"},
        conda_dependencies_file="aml_config/conda_dependencies.yml",
        timeout=3600,
        container=ComputeTarget("train", "docker", base_docker_image="example/cpu:0.1", docker_arguments=()),
        extra={
            "communicator": "None",
            "autoPrepareEnvironment": "true",
            "nodeCount": "1",
            "history": {"outputCollection": "true"},
        },
    )


SUCCESSOR = """\
script: train.py
target: local
environment:
  docker:
    enabled: {enabled}
    baseImage: {image}
    sharedVolumes: true
    gpuSupport: true
    shmSize: 2g
    arguments: [--ulimit, memlock=-1]
    baseImageRegistry:
      address: registry.example.org
"""


def test_what_the_successor_says_about_containers_is_joined_with_the_target(tmp_path: Path) -> None:
    path = tmp_path / "train.runconfig"
    path.write_text(SUCCESSOR.format(enabled="true", image="team/train:1.2"))
    config = runconfig(path)
    far = ComputeTarget("far", "remote", address="a.b", memory=1 << 30, shared_volumes=False)
    assert in_container(far, config) == ComputeTarget(
        "far",
        "remotedocker",
        address="a.b",
        memory=1 << 30,
        shared_volumes=True,
        base_docker_image="registry.example.org/team/train:1.2",
        nvidia_docker=True,
        shm_size=2 << 30,
        docker_arguments=("--ulimit", "memlock=-1"),
    )
    assert in_container(ComputeTarget("local", "local"), config).type == "docker"
    assert in_container(ComputeTarget("s", "slurm"), config).type == "slurm"


def test_a_successor_without_docker_changes_no_target(tmp_path: Path) -> None:
    path = tmp_path / "train.runconfig"
    path.write_text(SUCCESSOR.format(enabled="false", image="team/train:1.2"))
    config = runconfig(path)
    local = ComputeTarget("local", "local")
    assert config.container is None
    assert in_container(local, config) is local


def test_a_successor_without_an_image_uses_that_of_its_target(tmp_path: Path) -> None:
    path = tmp_path / "train.runconfig"
    path.write_text(SUCCESSOR.format(enabled="true", image="null"))
    config = runconfig(path)
    own = ComputeTarget("docker", "docker", base_docker_image="debian:12-slim")
    assert in_container(own, config).base_docker_image == "debian:12-slim"
    with pytest.raises(ConfigError, match="names an image") as caught:
        in_container(ComputeTarget("local", "local"), config)
    assert caught.value.where == "train.runconfig"


def test_the_keys_of_containers() -> None:
    assert compute(corpus("containers/fine.compute")) == ComputeTarget(
        "fine",
        "docker",
        base_docker_image="registry.example.org:5000/team/train:1.2",
        container_user="1000:1000",
        shm_size=8 * 10**9,
        memory=64 << 30,
        cpus=7.5,
        network="none",
        docker_arguments=(
            *("--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--add-host=db.example.org:10.0.0.7"),
            *("-v/data:/data:ro", "-p=8080:80", "--read-only", "--oom-score-adj", "-500"),
        ),
    )
    built = compute(corpus("containers/built.compute"))
    assert (built.dockerfile, built.base_docker_image) == ("docker/Dockerfile", None)
    folder = compute(corpus("containers/folder.compute"))
    assert (folder.base_docker_image, folder.engine, folder.network) == ("rootfs:/srv/debian", "podman", "host")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--hostname 'box 1' -v /a:/b", ("--hostname", "box 1", "-v", "/a:/b")),
        ("'--dns 10.0.0.1'", ("--dns", "10.0.0.1")),
        ("[--dns, 10.0.0.1, '--tmpfs /a b']", ("--dns", "10.0.0.1", "--tmpfs", "/a b")),
        ("[]", ()),
        ("''", None),
        ("", None),
    ],
)
def test_arguments_are_a_list_or_one_text(tmp_path: Path, text: str, words: tuple[str, ...] | None) -> None:
    path = tmp_path / "x.compute"
    path.write_text(f"type: docker\nbaseDockerImage: a\ndockerArguments: {text}\n")
    assert compute(path).docker_arguments == words


@pytest.mark.parametrize("user", ["root", "0", "1000:1000", "www-data", "ada:video", "_apt"])
def test_users_of_containers(tmp_path: Path, user: str) -> None:
    path = tmp_path / "x.compute"
    path.write_text(f"type: docker\nbaseDockerImage: a\ncontainerUser: {user}\n")
    assert compute(path).container_user == user


def test_a_password_of_a_registry_is_not_repeated() -> None:
    _, findings = read_runconfig(corpus("containers/old-form.runconfig"))
    assert "not used" in render(findings)
    assert "hunter2" not in render(findings)


def test_values_of_the_environment_stay_as_written(tmp_path: Path) -> None:
    path = tmp_path / "x.runconfig"
    path.write_text("Target: local\nEnvironmentVariables:\n  A: 010\n  B: yes\n  C: 1.10\n  D: ' x '\n  E:\n  F: a#b\n")
    assert runconfig(path).environment_variables == {
        "A": "010",
        "B": "yes",
        "C": "1.10",
        "D": " x ",
        "E": "",
        "F": "a#b",
    }


def test_conda_items_know_their_place() -> None:
    conda, findings = read_conda(corpus("default-project/conda_dependencies.yml"))
    assert findings == []
    assert conda == CondaDependencies(
        name="project_environment",
        channels=(Item("conda-forge", 7, 5), Item("defaults", 8, 5)),
        dependencies=(Item("python=3.5.2", 12, 5), Item("ipykernel=4.6.1", 15, 5)),
        pip=(Item("azure-ml-api-sdk==0.1.0a10", 19, 7), Item("matplotlib", 20, 7)),
    )


def test_an_empty_conda_file_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yml").write_text("# nothing yet\n")
    assert read_conda(tmp_path / "empty.yml") == (CondaDependencies(), [])


def test_conda_pip_options_and_urls_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text(
        "dependencies:\n- pip:\n  - --index-url https://a/b\n  - https://a/b.whl?x=1&sig=%3D#egg=b\n  - C:\\b.whl\n"
    )
    conda, _ = read_conda(path)
    assert conda is not None
    assert conda.pip is not None
    assert [item.text for item in conda.pip] == [
        "--index-url https://a/b",
        "https://a/b.whl?x=1&sig=%3D#egg=b",
        "C:\\b.whl",
    ]


def test_tabs_before_values_and_in_comments_are_blanks() -> None:
    spark, findings = read_spark(corpus("tabs/spark_dependencies.yml"))
    assert findings == []
    assert spark is not None
    assert spark.configuration == {"spark.driver.memory": "6g", "spark.executor.memory": "6g"}


def test_spark() -> None:
    spark, findings = read_spark(corpus("default-project/spark_dependencies.yml"))
    assert findings == []
    assert spark == SparkDependencies(
        configuration={"spark.app.name": "Azure ML Experiment", "spark.yarn.maxAppAttempts": "1"},
        repositories=("https://mmlspark.azureedge.net/maven",),
        packages=(SparkPackage("com.microsoft.ml.spark", "mmlspark_2.11", "0.7.91"),),
        lines={
            "spark.app.name": 3,
            "spark.yarn.maxAppAttempts": 4,
            "com.microsoft.ml.spark:mmlspark_2.11:0.7.91": 9,
        },
    )


def test_the_first_error_is_raised_and_the_others_counted() -> None:
    _, findings = read_compute(corpus("guide-placeholders/my_dsvm.compute"), "my_dsvm.compute")
    with pytest.raises(ConfigError) as caught:
        raise_errors(findings)
    assert caught.value.where == "my_dsvm.compute:1:10"
    assert "my_dsvm_ip_address" in caught.value.what
    assert caught.value.hint == "replace it with your own value (1 more error: see holdfast check)"


def test_warnings_are_not_raised() -> None:
    raise_errors([Finding("warning", "a", 1, 1, "b")])


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dir.compute").mkdir()
    target, findings = read_compute(tmp_path / "dir.compute", "dir.compute")
    assert target is None
    assert render(findings) == "dir.compute: error: this is a folder, not a file\n"
    target, findings = read_compute(tmp_path / "gone.compute", "gone.compute")
    assert target is None
    assert render(findings) == "gone.compute: error: this file cannot be read: No such file or directory\n"


def test_findings_are_safe_to_print(tmp_path: Path) -> None:
    path = tmp_path / "x.runconfig"
    path.write_text('Target: local\nCondaDependenciesFile: "/\\e[31m' + "x" * 5000 + '"\n')
    _, findings = read_runconfig(path, "x.runconfig")
    assert len(render(findings)) < 1000
    assert "\x1b" not in render(findings)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"key{number}: 1\n" for number in range(9000)),
        "x" * 900_000 + ": 1",
        "a: 1\n" * 300_000,
        "a: 1\n" * 200_000,
        "{" + '"a":1,' * 170_000 + "}",
        "x: " + "[" * 100_000,
        "x: " + "{a: " * 100_000,
        "- " * 100_000,
        "".join(f"{' ' * depth}a:\n" for depth in range(1000)),
        "a: " + "&a " * 100_000,
        'a: "' + "x\n" * 100_000,
        "a: 'x' y\n" + "b: 1\n" * 150_000,
        "? " * 100_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_bombs_are_refused_in_bounded_time(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bomb.compute"
    path.write_text(text)
    start = time.monotonic()
    target, findings = read_compute(path)
    assert time.monotonic() - start < 5
    assert target is None
    assert findings


@pytest.mark.parametrize(
    "file",
    [
        "default-project/local.compute",
        "default-project/docker.runconfig",
        "json-era/good.runconfig",
        "spelling/fine.runconfig",
    ],
)
def test_ordinary_files_do_not_need_the_yaml_library(file: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCES)!r}); from holdfast.amlconfig import *; "
        f"value, _ = read_{file.rpartition('.')[2]}({str(corpus(file))!r}); print(value is not None)"
    )
    # With -S there are no installed packages: reaching for the library would be an ImportError.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("30s", 30), ("20m", 1200), ("4h", 14400), ("1.5 d", 129600), ("5min", 300), ("", None), ("h", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10", 10),
        ("10GB", 10**10),
        ("24 GiB", 24 << 30),
        ("1.5k", 1500),
        ("2mib", 2 << 20),
        ("0", None),
        ("-1", None),
        ("1e3", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert parse_size(text) == size
