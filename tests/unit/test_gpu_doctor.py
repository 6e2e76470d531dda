"""Each classic cause of an idle GPU, found in files as people write them, with the line to change."""

from __future__ import annotations

from typing import Any

import pytest

from gpuruns import USE, receipt
from holdfast.advice import gpu_doctor, script_source
from holdfast.runner.gpu import probe_verdict

DEVICE = {"index": 0, "name": "NVIDIA A100", "uuid": "GPU-1", "major": 8, "minor": 0}


def check(*packages: dict[str, Any], contained: bool = False, **more: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"python": "3.11.7", "program": "/env/bin/python", "visible": None, "library": ""}
    facts |= {"nodes": ["/dev/nvidia0"], "refused": None, "cuda": "12.4", "devices": [DEVICE]}
    facts |= {"packages": list(packages), "seconds": 0.1, **more}
    return {**probe_verdict.judge(facts, contained), "facts": facts}


def package(name: str, version: str, build: str, cuda: str | None = None) -> dict[str, Any]:
    return {"name": name, "version": version, "build": build, "cuda": cuda, "cudnn": None}


def diagnose(verdict: str, said: dict[str, Any] | None, files: dict[str, str]) -> gpu_doctor.Finding:
    [found] = gpu_doctor.findings(receipt(verdict), said, files, compute="aml_config/box.compute")
    return found


CONDA = """\
name: project_environment
dependencies:
  - python=3.6
  # - tensorflow
  - pip:
    - azureml-sdk
    - {}
"""
CPU_TORCH = package("torch", "2.5.1+cpu", "cpu")
CUDA_TORCH = package("torch", "2.5.1+cu124", "cuda", "12.4")
NEW_TORCH = package("torch", "2.9.0+cu130", "cuda", "13.0")
TF1 = package("tensorflow", "1.15.0", "cpu")
TF2 = package("tensorflow", "2.19.0", "cuda", "12.5") | {"cudnn": False}
WHEEL = "pip install --index-url https://download.pytorch.org/whl"
# What is installed, what a file of the project says -> where, part of what is said, the fix.
BUILDS: dict[str, tuple[dict[str, Any], dict[str, str], str, str, str]] = {
    "tensorflow 1 by pip in a conda file": (
        TF1,
        {"aml_config/conda_dependencies.yml": CONDA.format("tensorflow==1.15.0")},
        "aml_config/conda_dependencies.yml:7",
        "tensorflow 1.15.0 is built without CUDA",
        "write tensorflow-gpu==1.15.0",
    ),
    "tensorflow 1 by conda": (
        TF1,
        {"env.yml": "dependencies:\n  - tensorflow=1.15\n"},
        "env.yml:2",
        "without CUDA",
        "write tensorflow-gpu=1.15",
    ),
    "tensorflow 2 by pip": (
        TF2,
        {"requirements.txt": "numpy\ntensorflow>=2.19  # the newest\n"},
        "requirements.txt:2",
        "finds no cuDNN",
        "write tensorflow[and-cuda]>=2.19",
    ),
    "tensorflow-cpu": (
        package("tensorflow-cpu", "2.19.0", "cpu"),
        {"requirements.txt": "tensorflow_cpu==2.19.0\n"},
        "requirements.txt:1",
        "tensorflow-cpu 2.19.0 is built without CUDA",
        "write tensorflow[and-cuda]==2.19.0",
    ),
    "tensorflow too new": (
        package("tensorflow", "2.19.0", "cuda", "12.5") | {"cudnn": True},
        {},
        "the environment",
        "this driver supports 11.4 and older",
        "pip install 'tensorflow[and-cuda]==2.14.*'; or install driver 525.60 or newer there",
    ),
    "torch pinned to its CPU build": (
        CPU_TORCH,
        {"requirements.txt": "numpy\ntorch==2.5.1+cpu\n"},
        "requirements.txt:2",
        "torch 2.5.1+cpu is built without CUDA",
        "write torch==2.5.1",
    ),
    "torch from the index of CPU builds": (
        CPU_TORCH,
        {"requirements.txt": "--extra-index-url https://download.pytorch.org/whl/cpu\ntorch==2.5.1\n"},
        "requirements.txt:1",
        "without CUDA",
        "write --extra-index-url https://download.pytorch.org/whl/cu124",
    ),
    "torch kept from the GPU by conda": (
        CPU_TORCH,
        {"env.yml": "dependencies:\n  - pytorch=2.5\n  - cpuonly\n"},
        "env.yml:3",
        "without CUDA",
        "delete this line",
    ),
    "torch in an environment of one's own": (
        CPU_TORCH,
        {},
        "the environment",
        "without CUDA",
        f"{WHEEL}/cu124 'torch==2.5.1'",
    ),
    "torch newer than the driver": (
        NEW_TORCH,
        {"pyproject.toml": 'dependencies = [\n  "torch>=2.9",\n]\n'},
        "pyproject.toml:2",
        "torch 2.9.0+cu130 is built for CUDA 13.0, but this driver supports 12.4 and older",
        f"{WHEEL}/cu126 'torch==2.9.0'; or install driver 580.65 or newer there",
    ),
    "torch of which no build fits the driver": (
        NEW_TORCH,
        {},
        "the environment",
        "supports 11.4 and older",
        f"{WHEEL}/cu118 'torch<2.8'; or install driver 580.65 or newer there",
    ),
    "jax": (
        package("jax", "0.4.35", "cpu"),
        {"requirements.txt": "jax==0.4.35\n"},
        "requirements.txt:1",
        "jax 0.4.35 is built without CUDA",
        "write jax[cuda12]==0.4.35",
    ),
}


@pytest.mark.parametrize(("installed", "files", "where", "what", "fix"), BUILDS.values(), ids=BUILDS)
def test_builds_that_cannot(installed: dict[str, Any], files: dict[str, str], where: str, what: str, fix: str) -> None:
    cuda = "11.4" if "11.4" in what else "12.4"
    found = diagnose("idle", check(installed, cuda=cuda), {**files, "train.py": "import this\n"})
    assert (found.where, found.fix) == (where, fix)
    assert what in found.what


def test_a_build_is_no_cause_where_another_can() -> None:
    """torch for processors beside a tensorflow that uses the card."""
    said = check(CPU_TORCH, package("tensorflow", "2.19.0", "cuda", "12.5") | {"cudnn": True})
    assert gpu_doctor.findings(receipt("idle"), said, {"requirements.txt": "torch==2.5.1+cpu\n"}) == []


COMPUTE = "type: docker\nbaseDockerImage: python:3.12\nnvidiaDocker: false\n"
RUNCONFIG = "ArgumentVector:\n  - $file\nEnvironmentVariables:\n  CUDA_VISIBLE_DEVICES: ''\n"


def test_a_container_that_is_given_none() -> None:
    said = check(library="libcuda.so.1: no", devices=[], nodes=[], contained=True)
    found = diagnose("absent", said, {"aml_config/box.compute": COMPUTE, "aml_config/other.compute": COMPUTE})
    assert (found.where, found.fix) == ("aml_config/box.compute:3", "write nvidiaDocker: true")
    assert "there is no GPU in the container" in found.what


def test_a_variable_that_hides_it() -> None:
    refused = {"step": "cuInit", "code": 100, "name": "CUDA_ERROR_NO_DEVICE"}
    said = check(refused=refused, devices=[], visible="")
    found = diagnose("idle", said, {"aml_config/box.runconfig": RUNCONFIG})
    assert (found.where, found.fix) == ("aml_config/box.runconfig:4", "delete this line")
    found = diagnose("idle", said, {})
    assert (found.where, "CUDA_VISIBLE_DEVICES= hides every GPU" in found.what) == ("the target", True)
    assert found.fix


NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x


net = Net()
for batch in batches:
    net(batch)
"""


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        (NET, "train.py:10", 'write net = Net().to("cuda"), and each batch: batch = batch.to("cuda")'),
        (
            "import torch\nmodel = torch.nn.Sequential(\n    torch.nn.Linear(1, 1),\n)\n",
            "train.py:2",
            'move it: model = model.to("cuda"), and each batch: batch = batch.to("cuda")',
        ),
        (
            "import torch, torchvision\nm = torchvision.models.resnet18()\n",
            "train.py:2",
            'write m = torchvision.models.resnet18().to("cuda"), and each batch: batch = batch.to("cuda")',
        ),
        (
            f"import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n{NET}",
            "train.py:2",
            "delete this line: os.environ['CUDA_VISIBLE_DEVICES'] = '-1'",
        ),
        ('import torch\ndevice = torch.device("cpu")\n', "train.py:2", 'write device = torch.device("cuda")'),
        (
            "import tensorflow as tf\nwith tf.device('/cpu:0'):\n    pass\n",
            "train.py:2",
            "write with tf.device('/gpu:0'):",
        ),
    ],
    ids=["own", "sequential", "torchvision", "hidden", "device", "tensorflow"],
)
def test_a_script_that_leaves_it_alone(text: str, where: str, fix: str) -> None:
    found = diagnose("idle", check(CUDA_TORCH), {"train.py": text})
    assert (found.where, found.fix) == (where, fix)


@pytest.mark.parametrize(
    "text",
    [
        NET.replace("Net()\n", "Net().cuda()\n"),
        NET.replace("net(batch)", "net(batch.to(device))"),
        'import torch\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nnet.to(device)\n',
        "import numpy\n",
        "print 'Python 2'\n",
        "from transformers import Trainer\nimport torch\nTrainer(model)\n",
    ],
)
def test_nothing_is_said_of_a_script_that_may_well_use_it(text: str) -> None:
    assert gpu_doctor.findings(receipt("idle"), check(CUDA_TORCH), {"train.py": text}) == []


def low(percent: float = 22.0, **more: Any) -> dict[str, Any]:
    """Busy for so much of the time since the card was opened, ten seconds after the start."""
    told = {**receipt("used"), "seconds": 110.0, "cpu_percent": 30.0, "cores": 16, **more}
    length = told["seconds"] - 10
    return {**told, "gpus": [{**USE, "context_after_s": 10.0, "busy_s": length * percent / 100}]}


LOADERS = [
    (
        "loader = DataLoader(data, batch_size=64, shuffle=True)",
        "loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=8)",
    ),
    (
        "loader = torch.utils.data.DataLoader(data, num_workers=0)",
        "loader = torch.utils.data.DataLoader(data, num_workers=8)",
    ),
    ("loader = DataLoader(\n    data,\n)", "num_workers=8,"),
]


@pytest.mark.parametrize(("line", "new"), LOADERS)
def test_a_loader_without_workers(line: str, new: str) -> None:
    [found] = gpu_doctor.findings(low(), None, {"train.py": f"import torch\n{line}\n"})
    assert (found.where, found.fix) == ("train.py:2", f"write {new}")
    assert "the GPU was busy 22 % of the time while 4.8 of 16 processors were" in found.what


def test_busy_processors_alone_are_told_with_care() -> None:
    files = {"train.py": "DataLoader(data, num_workers=4)\nDataLoader(data, **options)\n"}
    [found] = gpu_doctor.findings(low(), None, files)
    assert (found.where, "probably" in found.what) == ("the script", True)
    assert gpu_doctor.findings(low(cpu_percent=2.0), None, files) == []


def test_a_card_that_was_busy_needs_no_doctor() -> None:
    assert gpu_doctor.findings(low(percent=78.0), None, {"train.py": LOADERS[0][0]}) == []
    assert gpu_doctor.findings(low(seconds=39.0), None, {"train.py": LOADERS[0][0]}) == [], "too short to tell"
    assert gpu_doctor.findings(receipt("lost"), check(CPU_TORCH), {}) == []


@pytest.mark.parametrize(
    "text", ["print 'python 2'", "x = '\0'", "(" * 500 + ")" * 500, "-" * 100_000 + "1", "x = 1 +"]
)
def test_script_that_cannot_be_parsed_has_no_cause_of_its_own(text: str) -> None:
    assert gpu_doctor.findings(receipt("idle"), check(CUDA_TORCH), {"train.py": text}) == []


def test_conda_line_is_told_from_a_pip_line_by_its_depth() -> None:
    text = "dependencies:\n- pip:\n  - azureml-sdk\n- tensorflow=2.1\n"
    found = diagnose("idle", check(package("tensorflow", "2.1.0", "cpu")), {"env.yml": text})
    assert (found.where, found.fix) == ("env.yml:4", "write tensorflow-gpu=2.1")
    text = "dependencies:\n- pip:\n  - azureml-sdk\n  - tensorflow==2.1\n"
    found = diagnose("idle", check(package("tensorflow", "2.1.0", "cpu")), {"env.yml": text})
    assert (found.where, found.fix) == ("env.yml:4", "write tensorflow[and-cuda]==2.1")


def used(busy: object, opened: object, seconds: object = 100.0, **more: Any) -> dict[str, Any]:
    row = {"used": True, "busy_s": busy, "context_after_s": opened, **more}
    return {"verdict": "used", "seconds": seconds, "gpus": [row]}


def test_card_is_starved_below_the_share_over_a_long_time() -> None:
    limit, length = gpu_doctor.LOW_PERCENT, gpu_doctor.LONG_ENOUGH_S
    assert gpu_doctor.is_starved(used(limit - 0.1, 0.0))
    assert not gpu_doctor.is_starved(used(float(limit), 0.0))
    assert gpu_doctor.is_starved(used(0.0, 1.0, 1.0 + length))
    assert not gpu_doctor.is_starved(used(0.0, 1.1, 1.0 + length))
    assert not gpu_doctor.is_starved(used(0.0, None))
    assert not gpu_doctor.is_starved(used(None, 0.0))
    assert not gpu_doctor.is_starved(used(0.0, 0.0, used=False))
    assert not gpu_doctor.is_starved(used(0.0, 0.0, seconds="100"))
    assert not gpu_doctor.is_starved(used(0.0, 0.0, seconds=True))
    both = used(1.0, 0.0)
    both["gpus"].append({**both["gpus"][0], "busy_s": 99.0})
    assert not gpu_doctor.is_starved(both)


@pytest.mark.parametrize(
    ("call", "is_slow"),
    [
        ("DataLoader(data)", True),
        ("DataLoader(data, 1, True, None, None)", True),
        ("DataLoader(data, 1, True, None, None, 4)", False),
        ("DataLoader(data, **more)", False),
        ("DataLoader(data, num_workers=0)", True),
        ("DataLoader(data, num_workers=2)", False),
        ("DataLoader(data, num_workers=n)", False),
        ("torch.utils.data.DataLoader(data)", True),
        ("Loader(data)", False),
    ],
)
def test_loader_is_slow_without_workers(call: str, is_slow: bool) -> None:
    assert (script_source.slow_loader({"train.py": f"x = {call}\n"}, 4) is not None) == is_slow


@pytest.mark.parametrize(
    ("made", "where"),
    [
        ("torchvision.models.resnet18()", "train.py:3"),
        ("models.resnet18()", "train.py:3"),
        ("a.b.models.resnet18()", "train.py:3"),
        ("models.inner.make()", "train.py"),
        ("resnet18()", "train.py"),
        ("nn.Sequential(a)", "train.py:3"),
        ("Net()", "train.py:3"),
        ("Other()", "train.py"),
    ],
)
def test_model_is_known_by_its_class_or_module(made: str, where: str) -> None:
    classes = "class Net(nn.Module): pass; class_ = 1\n"
    found = script_source.unmoved_model({"train.py": f"import torch\n{classes}model = {made}\n"})
    assert found is not None
    assert found.where == where
