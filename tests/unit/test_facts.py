"""What a machine says about itself: here about cards of NVIDIA's, by a program that stands in for theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.runner.machine import facts
from lab.nvidia import write_nvidia_smi
from lab.pythons import OLDEST, python_of

SOURCE = str(Path(holdfast.__file__).parent)
ASK = (
    "import json, sys; from runner.machine import facts; "
    "print(json.dumps(facts.facts(sys.argv[1].encode(), sys.executable)))"
)
HAS_DRIVER = any(map(os.path.exists, facts._DRIVERS))


def asked(home: Path, path: Path, python: str = sys.executable) -> dict[str, Any]:
    """In a process of its own, as the runner is."""
    env = {"PYTHONPATH": SOURCE, "PATH": str(path)}
    done = subprocess.run([python, "-B", "-c", ASK, str(home)], check=True, capture_output=True, text=True, env=env)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("version", ["", OLDEST])
def test_driver_and_cards_are_told_and_remembered(tmp_path: Path, version: str) -> None:
    path = write_nvidia_smi(tmp_path / "bin", "550.54.14", "12.4", "8.0", "9.0")
    python = python_of(version) if version else sys.executable
    for _ in range(3):
        answer = asked(tmp_path, path, python)
        assert answer["gpu"] == {"driver": "550.54.14", "cuda": "12.4", "capabilities": ["8.0", "9.0"]}
        assert answer["virtual"]["__cuda"] == "12.4"
        assert answer["python"]["path"] == python
    assert (path / "calls").read_text().splitlines() == [
        "--query-gpu=driver_version,compute_cap --format=csv,noheader",
        "",
    ]


def test_another_driver_is_asked_anew(tmp_path: Path) -> None:
    path = write_nvidia_smi(tmp_path / "bin", "550.54.14", "12.4", "8.0")
    assert asked(tmp_path, path)["gpu"]["driver"] == "550.54.14"
    write_nvidia_smi(tmp_path / "bin", "580.159.04", "13.0", "8.0")
    assert asked(tmp_path, path)["gpu"] == {"driver": "580.159.04", "cuda": "13.0", "capabilities": ["8.0"]}


@pytest.mark.skipif(HAS_DRIVER, reason="this machine has a driver of NVIDIA's")
@pytest.mark.parametrize("is_left_over", [False, True], ids=["nothing", "a program without a driver"])
def test_a_machine_without_cards(tmp_path: Path, is_left_over: bool) -> None:
    path = write_nvidia_smi(tmp_path / "bin", "", "") if is_left_over else tmp_path
    answer = asked(tmp_path, path)
    assert answer["gpu"] is None
    assert answer["virtual"]["__cuda"] is None
    assert not (tmp_path / "cache" / "gpus.jsonl").exists()


@pytest.mark.skipif(HAS_DRIVER, reason="this machine has a driver of NVIDIA's")
def test_a_machine_without_cards_starts_nothing_and_loads_nothing(tmp_path: Path) -> None:
    ask = (
        "import sys; from runner.machine import facts; facts.gpu(sys.argv[1].encode()); print('ctypes' in sys.modules)"
    )
    env = {"PYTHONPATH": SOURCE, "PATH": str(tmp_path)}
    command = [sys.executable, "-S", "-B", "-c", ask, str(tmp_path)]
    assert subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout == "False\n"


@pytest.mark.skipif(not HAS_DRIVER, reason="this machine has no driver of NVIDIA's")
def test_the_library_knows_what_the_program_knows(tmp_path: Path) -> None:
    (program,) = [facts.which("nvidia-smi")]
    assert program is not None
    assert facts._ask_nvml() == facts._ask_nvidia_smi(program)


def test_spark_of_a_head_node_is_told_by_its_jars(tmp_path: Path) -> None:
    home = tmp_path / "spark-3.1.2"
    (home / "jars").mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "jars" / "spark-core_2.12-3.1.2.5.1.7-22.jar").write_text("")
    (home / "bin" / "spark-submit").write_text("")
    (home / "bin" / "spark-submit").chmod(0o755)
    (tmp_path / "bin").mkdir()
    assert asked(tmp_path, tmp_path / "bin")["spark"] == ""
    (tmp_path / "bin" / "spark-submit").symlink_to(home / "bin" / "spark-submit")
    assert asked(tmp_path, tmp_path / "bin")["spark"] == "3.1.2"
