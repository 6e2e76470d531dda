from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.amlconfig.types import Finding
from holdfast.environments import gpu
from holdfast.environments.edits import applied
from holdfast.environments.read import read
from holdfast.environments.sources import Declared
from holdfast.environments.spec import Facts, Spec


def card(cuda: str, capability: str = "8.0") -> Facts:
    return Facts("linux-64", {"__glibc": "2.36", "__cuda": cuda}, "535.104", (capability,))


def advice(spec: Spec, facts: Facts) -> list[Finding]:
    return [edit.finding for edit in gpu.edits(spec, facts)] + gpu.unusable(spec, facts)


def with_fixes(text: str, spec: Spec, facts: Facts) -> str:
    return applied(text, (edit for edit in gpu.edits(spec, facts) if edit.entry.line))


NONE = Facts("linux-64", {"__glibc": "2.36", "__cuda": None})


def spec_of(root: Path, text: str, file: str) -> Spec:
    (root / file).write_text(text)
    spec, findings = read(str(root), Declared(file, "conda" if file.endswith(".yml") else "requirements", ""))
    assert spec is not None, findings
    return spec


def test_old_frameworks_that_cannot_use_the_card_are_left_alone(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "tensorflow==1.14.0\ncntk==2.7\n", "requirements.txt")
    assert advice(spec, card("12.4", "9.0")) == []


@pytest.mark.parametrize(
    ("line", "cuda", "fixed"),
    [
        ("torch==2.3.1+cpu", "12.4", "torch==2.3.1"),
        ("torchvision==0.18.1+cpu", "12.4", "torchvision==0.18.1"),
        (
            "--index-url https://wheels.example.org/whl/cpu",
            "12.4",
            "--index-url https://wheels.example.org/whl/cu126",
        ),
        (
            "--extra-index-url https://wheels.example.org/whl/cpu/",
            "11.8",
            "--extra-index-url https://wheels.example.org/whl/cu118/",
        ),
        (
            "--index-url https://wheels.example.org/whl/cu130",
            "12.4",
            "--index-url https://wheels.example.org/whl/cu126",
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
    facts = card(cuda, "7.5")
    (finding,) = advice(spec, facts)
    assert (finding.line, finding.hint) == (2, f"write {fixed}")
    mended = with_fixes(text, spec, facts)
    assert mended == f"numpy\n{fixed}\n"
    assert advice(spec_of(tmp_path, mended, "requirements.txt"), facts) == []
    assert advice(spec, NONE) == []


@pytest.mark.parametrize("line", ["torch", "torch==2.5.1+cu126", "tensorflow==2.15", "cntk-gpu==2.7", "numpy"])
def test_what_needs_no_advice(tmp_path: Path, line: str) -> None:
    assert advice(spec_of(tmp_path, f"{line}\n", "requirements.txt"), card("12.4")) == []


def test_a_driver_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "torch==2.9.0+cu130\n", "requirements.txt")
    (finding,) = advice(spec, card("12.2"))
    assert finding.severity == "error"
    assert finding.message == (
        "this build of torch needs CUDA 13.0; the driver 535.104 of this target supports CUDA 12.2 and older"
    )


@pytest.mark.parametrize(
    ("line", "facts", "reason", "fixed"),
    [
        ("torch==2.9.0+cu130", card("13.0", "7.0"), "capability 7.0", "torch==2.9.0"),
        ("torch==2.11.0+cu128", card("12.8", "7.0"), "capability 7.0", "torch==2.11.0"),
        ("torch==2.10.0+cu128", card("12.8", "7.0"), "", ""),
        ("torch==2.6.0+cu126", card("12.8", "12.0"), "capability 12.0", "torch>=2.7,<2.12"),
        ("torchvision==0.21.0+cu126", card("12.8", "12.0"), "capability 12.0", "torchvision==0.21.0"),
        ("torch==2.15.0", card("12.4"), "needs CUDA 13.0; the driver 535.104 of this target", "torch<2.15"),
        ("torch>=2.15", card("13.0", "7.0"), "capability 7.0", "torch<2.15"),
        ("torch==2.3.1", card("12.8", "12.0"), "capability 12.0", "torch>=2.7,<2.12"),
        ("torch==2.8.0", card("11.4", "3.7"), "needs CUDA 12.6", "torch<2.8"),
        ("--index-url https://wheels.example.org/whl/cu130", card("13.0", "6.1"), "capability 6.1", "{0}cu126"),
        ("torch==1.13.1+cu117", card("11.4"), "", ""),
    ],
)
def test_cards_and_drivers_that_a_build_is_not_for(
    tmp_path: Path, line: str, facts: Facts, reason: str, fixed: str
) -> None:
    fixed = fixed.format("--index-url https://wheels.example.org/whl/")
    spec = spec_of(tmp_path, f"{line}\n", "requirements.txt")
    found = advice(spec, facts)
    assert [(finding.severity, finding.hint) for finding in found] == ([("error", f"write {fixed}")] if fixed else [])
    assert all(reason in finding.message for finding in found)
    mended = with_fixes(f"{line}\n", spec, facts)
    assert mended == f"{fixed or line}\n"
    assert advice(spec_of(tmp_path, mended, "requirements.txt"), facts) == []


def test_a_card_that_no_torch_can_use(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "numpy\ntorch\n", "requirements.txt")
    (finding,) = advice(spec, card("10.2"))
    assert (finding.severity, finding.line) == ("warning", 2)
    assert finding.message.startswith("no build of torch 2 can use the GPU of this target: the oldest needs CUDA 11.8")
    assert gpu.flavoured(spec, card("10.2")).pip_options.torch_backend == "cpu"
    assert advice(spec_of(tmp_path, "numpy\n", "requirements.txt"), card("10.2")) == []


def test_the_table_agrees_with_itself() -> None:
    """Every minor version of torch 2 has builds, and none twice of the same name."""
    named = [(build.name, minor) for build in gpu.BUILDS for minor in build.torches]
    assert len(named) == len(set(named))
    assert {minor for _, minor in named} == set(range(40))
    numbers = [int(build.name[2:]) for build in gpu.BUILDS]
    assert numbers == sorted(numbers, reverse=True)


def test_conda_packages(tmp_path: Path) -> None:
    text = "dependencies:\n- pytorch=2.1=py3.11_cpu_0\n- cpuonly  # no\n- pytorch-cpu=1.1\n- numpy\n"
    spec = spec_of(tmp_path, text, "env.yml")
    assert [finding.severity for finding in advice(spec, card("12.4"))] == ["warning"] * 3
    assert with_fixes(text, spec, card("12.4")) == "dependencies:\n- pytorch=2.1\n- pytorch=1.1\n- numpy\n"


@pytest.mark.parametrize(
    ("facts", "backend"),
    [
        # The newest torch for CUDA 12, which a driver for an older CUDA 12 runs as well.
        (card("12.4"), "cu126"),
        (card("12.0"), "cu126"),
        # Of two builds of the same torch the one for the driver's own CUDA.
        (card("13.0"), "cu130"),
        (card("13.2"), "cu132"),
        (card("14.1"), "cu132"),
        # Volta and older are in no build for CUDA 13.
        (card("13.0", "7.0"), "cu126"),
        (card("13.0", "7.5"), "cu130"),
        (card("12.9", "12.0"), "cu128"),
        (card("12.9", "6.1"), "cu126"),
        (card("11.4", "3.7"), "cu118"),
        (card("12.4", "9.0"), "cu126"),
        (card("12.4", "12.0"), "cu128"),
        (card("13.0", "13.0"), "cu130"),
        (card("10.2"), "cpu"),
        (card("12.4", "2.0"), "cpu"),
        (Facts("linux-64", {"__cuda": "12.4"}, "550.54", ("7.0", "8.0")), "cu126"),
        (Facts("linux-64", {"__cuda": "12.8"}, "570.26", ("6.1", "12.0")), "cpu"),
        (Facts("linux-aarch64", {"__cuda": "12.4"}, "550.54", ("9.0",)), "cu126"),
        (Facts("linux-aarch64", {"__cuda": "11.8"}, "520.61", ("9.0",)), "cpu"),
        (Facts("linux-aarch64", {"__cuda": "13.0"}, "580.65", ("7.5",)), "cpu"),
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
        ("torch\n", "cu126"),
        ("torchvision\n", "cu126"),
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


CUDAS = ("9.0", "10.2", "11.0", "11.8", "12.0", "12.4", "12.9", "13.0", "14.1")
CARDS = ("3.5", "3.7", "5.0", "6.1", "7.0", "7.5", "8.0", "9.0", "10.0", "12.0", "12.1", "13.0")
GOLDEN = Path(__file__).parents[1] / "golden" / "torch" / "builds.txt"


def test_build_of_every_torch_for_every_driver_and_card() -> None:
    """``HOLDFAST_REWRITE_GOLDEN=1`` rewrites the table; compare it with PyTorch's release matrix."""
    lines = []
    for platform in ("linux-64", "linux-aarch64"):
        for cuda in CUDAS:
            for capability in CARDS:
                facts = Facts(platform, {"__glibc": "2.36", "__cuda": cuda}, "535.104", (capability,))
                builds = [gpu.torch_backend(facts, f"==2.{minor}.0") or "-" for minor in range(17)]
                lines.append(
                    f"{platform} CUDA {cuda}, card {capability}: {gpu.torch_backend(facts)}; {' '.join(builds)}\n"
                )
    if os.environ.get("HOLDFAST_REWRITE_GOLDEN"):
        GOLDEN.write_text("".join(lines))
    assert "".join(lines) == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("cuda", "capability", "line", "fixed"),
    [
        ("12.4", "3.7", "torch==2.9.0", "torch<2.8"),
        ("14.1", "13.0", "torch==2.3.0", "torch>=2.7"),
        ("12.4", "5.0", "torch==2.15.0", "torch<2.15"),
        ("12.9", "12.0", "torch==2.5.0", "torch>=2.7,<2.12"),
        ("12.4", "8.0", "torch==2.5.0", "torch==2.5.0"),
    ],
)
def test_constraint_that_the_target_can_serve(
    tmp_path: Path, cuda: str, capability: str, line: str, fixed: str
) -> None:
    spec = spec_of(tmp_path, f"{line}\n", "requirements.txt")
    assert with_fixes(f"{line}\n", spec, card(cuda, capability)) == f"{fixed}\n"


def test_conda_packages_are_known_by_their_whole_names(tmp_path: Path) -> None:
    text = "dependencies:\n  - cpuonly\n  - anaconda\n  - pytorch=2.0=py310_cpu\n  - pytorch-cpu=1\n  - zlib=1=cpu\n"
    spec = spec_of(tmp_path, text, "env.yml")
    assert with_fixes(text, spec, card("12.4")) == (
        "dependencies:\n  - anaconda\n  - pytorch=2.0\n  - pytorch=1\n  - zlib=1=cpu\n"
    )


def test_index_of_another_kind_does_not_end_the_search(tmp_path: Path) -> None:
    text = "--extra-index-url https://other.example.org/simple\n--index-url https://wheels.example.org/whl/cpu\ntorch==2.3.1\n"
    spec = spec_of(tmp_path, text, "requirements.txt")
    assert "https://wheels.example.org/whl/cu1" in with_fixes(text, spec, card("12.4"))
