from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environments import gpu
from holdfast.environments.read import read
from holdfast.environments.sources import Declared
from holdfast.environments.spec import Facts, Spec


def card(cuda: str, capability: str = "8.0") -> Facts:
    return Facts("linux-64", {"__glibc": "2.36", "__cuda": cuda}, "535.104", (capability,))


NONE = Facts("linux-64", {"__glibc": "2.36", "__cuda": None})


def spec_of(root: Path, text: str, file: str) -> Spec:
    (root / file).write_text(text)
    spec, findings = read(str(root), Declared(file, "conda" if file.endswith(".yml") else "requirements", ""))
    assert spec is not None, findings
    return spec


@pytest.mark.parametrize(
    ("line", "cuda", "fixed"),
    [
        ("torch==2.3.1+cpu", "12.4", "torch==2.3.1"),
        ("torchvision==0.18.1+cpu", "12.4", "torchvision==0.18.1"),
        (
            "--index-url https://wheels.example.org/whl/cpu",
            "12.4",
            "--index-url https://wheels.example.org/whl/cu124",
        ),
        (
            "--extra-index-url https://wheels.example.org/whl/cpu/",
            "11.8",
            "--extra-index-url https://wheels.example.org/whl/cu118/",
        ),
        (
            "--index-url https://wheels.example.org/whl/cu130",
            "12.4",
            "--index-url https://wheels.example.org/whl/cu124",
        ),
        ("torch==2.9.0+cu130", "12.4", "torch==2.9.0"),
        ("torch==1.2.0+cu92", "9.0", "torch==1.2.0"),
        ("tensorflow-cpu==2.15", "12.4", "tensorflow[and-cuda]==2.15"),
        ("tensorflow==1.14.0", "12.4", "tensorflow-gpu==1.14.0"),
        ("cntk==2.7", "12.4", "cntk-gpu==2.7"),
    ],
)
def test_what_would_leave_the_gpu_idle(tmp_path: Path, line: str, cuda: str, fixed: str) -> None:
    text = f"numpy\n{line}\n"
    spec = spec_of(tmp_path, text, "requirements.txt")
    (finding,) = gpu.advice(spec, card(cuda))
    assert (finding.line, finding.hint) == (2, f"write {fixed}")
    mended = gpu.fix(text, spec, card(cuda))
    assert mended == f"numpy\n{fixed}\n"
    assert gpu.advice(spec_of(tmp_path, mended, "requirements.txt"), card(cuda)) == []
    assert gpu.advice(spec, NONE) == []


@pytest.mark.parametrize("line", ["torch", "torch==2.5.1+cu126", "tensorflow==2.15", "cntk-gpu==2.7", "numpy"])
def test_what_needs_no_advice(tmp_path: Path, line: str) -> None:
    assert gpu.advice(spec_of(tmp_path, f"{line}\n", "requirements.txt"), card("12.4")) == []


def test_a_driver_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "torch==2.9.0+cu130\n", "requirements.txt")
    (finding,) = gpu.advice(spec, card("12.2"))
    assert finding.severity == "error"
    assert finding.message == (
        "this build of torch needs CUDA 13.0; the driver 535.104 of this target serves CUDA 12.2 and older"
    )


def test_conda_packages(tmp_path: Path) -> None:
    text = "dependencies:\n- pytorch=2.1=py3.11_cpu_0\n- cpuonly  # no\n- pytorch-cpu=1.1\n- numpy\n"
    spec = spec_of(tmp_path, text, "env.yml")
    assert [finding.severity for finding in gpu.advice(spec, card("12.4"))] == ["warning"] * 3
    assert gpu.fix(text, spec, card("12.4")) == "dependencies:\n- pytorch=2.1\n- pytorch=1.1\n- numpy\n"


@pytest.mark.parametrize(
    ("facts", "backend"),
    [
        (card("12.4"), "cu124"),
        (card("12.2"), "cu121"),
        (card("13.0"), "cu130"),
        (card("12.9", "12.0"), "cu128"),
        (card("12.9", "6.1"), "cu126"),
        (card("11.4", "3.7"), "cu118"),
        (card("10.2"), ""),
        (card("12.4", "2.0"), ""),
        (NONE, "cpu"),
        (Facts("osx-arm64", {"__cuda": None}), ""),
        (Facts("linux-64"), ""),
    ],
)
def test_the_build_of_torch_for_a_target(facts: Facts, backend: str) -> None:
    assert gpu.torch_backend(facts) == backend


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        ("torch\n", "cu124"),
        ("torch==2.4.1\ntorchvision\n", "cu124"),
        ("numpy\n", ""),
        ("torch==1.10.2\n", ""),
        ("torch==2.1.0\n", "cu121"),
        ("torch<2.1\n", "cu118"),
        ("torch==2.9.1\n", "cu126"),
        ("torch==2.4.1 --hash=sha256:00\n", ""),
        ("torch==2.3.1+cu121\n", ""),
        ("torch\n--index-url https://wheels.example.org/whl/cu121\n", ""),
        ("torch\n-f https://wheels.example.org/whl/cu121\n", ""),
        ("torch\n--no-index\n-f ./wheels\n", ""),
    ],
)
def test_torch_is_chosen_where_its_author_left_that_open(tmp_path: Path, text: str, backend: str) -> None:
    spec = spec_of(tmp_path, text, "requirements.txt")
    assert gpu.flavoured(spec, card("12.4")).pip_options.torch_backend == backend
