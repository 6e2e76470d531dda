"""With an NVIDIA card on the target its driver decides about torch, and what cannot use the card is told before."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.runner.machine import facts
from lab.index import Wheel, write_index
from lab.nvidia import write_nvidia_smi
from lab.server import serve
from managed import environments, manage, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Desk
    from lab.server import Server

SAYS = "import torch; print('torch of', torch.BUILD)\n"


@pytest.fixture
def builds(tmp_path: Path) -> Iterator[Server]:
    """Laid out as PyTorch's index is: one folder for every build."""
    site = tmp_path / "site" / "whl"
    (site / "files").mkdir(parents=True)
    for build in ("cpu", "cu126"):
        write_index(tmp_path / build, [Wheel("torch", f"2.14.0+{build}", f"BUILD = {build!r}\n")])
        (tmp_path / build / "simple").rename(site / build)
        for file in (tmp_path / build / "files").iterdir():
            file.rename(site / "files" / file.name)
    with serve(tmp_path / "site") as server:
        yield server


def with_card(desk: Desk, cuda: str, capability: str) -> Desk:
    manage(desk)
    drivers = {"12.4": "550.54.14", "12.8": "570.26", "13.0": "580.159.04"}
    path = write_nvidia_smi(desk.user_home / "bin", drivers[cuda], cuda, capability)
    desk.env["PATH"] = f"{path}:{desk.env['PATH']}"
    desk.script(SAYS)
    return desk


def declare(desk: Desk, *lines: str) -> Path:
    file = desk.project / "requirements.txt"
    file.write_text("\n".join([*lines, ""]))
    return file


@pytest.mark.parametrize(
    ("cuda", "capability", "line", "build"),
    [
        ("12.4", "8.0", "torch", "cu126"),
        ("12.4", "8.0", "torch==2.4.1", "cu124"),
        ("13.0", "9.0", "torch", "cu130"),
        ("13.0", "7.0", "torch", "cu126"),
        ("12.8", "12.0", "torch", "cu128"),
        ("12.4", "8.0", "numpy", None),
    ],
)
def test_the_driver_and_the_card_choose_the_build(
    desk: Desk, cuda: str, capability: str, line: str, build: str | None
) -> None:
    declare(with_card(desk, cuda, capability), line)
    said = desk.holdfast("env", "show", "-o", "json")
    assert said.code == 0, shown(said)
    assert said.json["torch_build"] == build
    assert f"CUDA {cuda} and older, compute capability {capability}" in said.json["gpu"]


@pytest.mark.skipif(any(map(os.path.exists, facts._DRIVERS)), reason="this machine has a driver of NVIDIA's")
def test_without_a_card_it_is_the_cpu_build(desk: Desk) -> None:
    manage(desk)
    declare(desk, "torch")
    said = desk.holdfast("env", "show", "-o", "json").json
    assert (said["torch_build"], said["gpu"]) == ("cpu", None)


def test_a_cpu_build_is_warned_about_and_fixed(desk: Desk, builds: Server) -> None:
    file = declare(with_card(desk, "12.4", "8.0"), f"--index-url {builds.url}/whl/cpu", "torch")
    warned = desk.submit("train.py")
    assert warned.code == 0, shown(warned)
    assert "torch of cpu" in warned.text
    assert "these are the CPU builds of torch, and this target has an NVIDIA GPU" in warned.err
    assert "holdfast env fix --gpu" in warned.err
    assert "nothing to fix" in desk.holdfast("env", "fix").err
    assert desk.holdfast("env", "fix", "--gpu").code == 0
    assert file.read_text() == f"--index-url {builds.url}/whl/cu126\ntorch\n"
    mended = desk.submit("train.py")
    assert "torch of cu126" in mended.text, shown(mended)
    assert "NVIDIA" not in mended.err
    assert len((desk.user_home / "bin" / "calls").read_text().splitlines()) == 2, "asked once, in two questions"


@pytest.mark.parametrize(
    ("cuda", "capability", "line", "reason", "fixed"),
    [
        ("12.4", "8.0", "torch==2.9.0+cu130", "needs CUDA 13.0; the driver 550.54.14 of this target", "torch==2.9.0"),
        ("12.8", "6.1", "torch==2.9.0+cu128", "which has compute capability 6.1", "torch==2.9.0"),
        ("13.0", "7.0", "torch==2.15.0", "which has compute capability 7.0", "torch<2.15"),
    ],
)
def test_what_the_card_cannot_run_is_told_before_building(
    desk: Desk, builds: Server, cuda: str, capability: str, line: str, reason: str, fixed: str
) -> None:
    file = declare(with_card(desk, cuda, capability), f"--index-url {builds.url}/simple/", line)
    refused = desk.submit("train.py")
    assert refused.code == 65
    assert reason in refused.err
    assert f"write {fixed}, or run: holdfast env fix --gpu" in refused.err
    assert (environments(desk), builds.paths) == ([], [])
    assert desk.holdfast("env", "fix", "--gpu").code == 0
    assert file.read_text().endswith(f"\n{fixed}\n")
    assert desk.holdfast("env", "show").code == 0


def test_one_fix_mends_both(desk: Desk) -> None:
    file = declare(with_card(desk, "12.4", "8.0"), "sklearn==0.0  # old", "torch==2.3.1+cpu  # slow")
    assert desk.holdfast("env", "fix", "--gpu").code == 0
    assert file.read_text() == "scikit-learn  # old\ntorch==2.3.1  # slow\n"
