"""Touching a GPU through the real ctypes code, by every Python that a script may run on, with a driver of our own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from fakecuda import CARD, HAS_COMPILER, FakeCuda
from holdfast.runner.gpu import probe
from lab.pythons import VERSIONS, python_of

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
TOUCH = Path(holdfast.__file__).parent / "runner" / "gpu" / "probe.py"
OLD = CARD._replace(name="Tesla K80", uuid="GPU-00000000-0000-4000-8000-00000000000f", capability="3.7")


@pytest.fixture
def driver(tmp_path: Path) -> FakeCuda:
    return FakeCuda(tmp_path, CARD)


def ask(how: str, driver: FakeCuda | None = None, python: str = sys.executable, **env: str) -> Any:
    env = {**env, **({"LD_LIBRARY_PATH": str(driver.folder)} if driver else {})}
    done = subprocess.run([python, "-B", TOUCH, how], env=env, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    [line] = done.stdout.decode().splitlines()
    assert line.startswith(probe.MARK)
    return json.loads(line[len(probe.MARK) :])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_computes_on_every_card(tmp_path: Path, version: str) -> None:
    found = ask("run", FakeCuda(tmp_path, CARD, OLD), python_of(version))
    assert (found["library"], found["refused"], found["cuda"]) == ("", None, "12.4")
    assert found["devices"] == [
        {"index": 0, "name": CARD.name, "uuid": CARD.uuid, "major": 8, "minor": 0},
        {"index": 1, "name": "Tesla K80", "uuid": OLD.uuid, "major": 3, "minor": 7},
    ]
    assert found["python"].startswith(version)
    assert [(trial["ok"], trial["how"], trial["bytes"], trial["note"]) for trial in found["trials"]] == [
        (True, "kernel", 64 << 20, "")
    ] * 2


def test_a_look_touches_nothing(driver: FakeCuda) -> None:
    driver.tell(CARD, more=["* crash cuDevicePrimaryCtxRetain", "* crash cuMemAlloc_v2"])
    found = ask("look", driver)
    assert [device["uuid"] for device in found["devices"]] == [CARD.uuid]
    assert "trials" not in found


def test_without_a_driver(tmp_path: Path) -> None:
    found = ask("run")
    assert probe.LIBRARY in found["library"]
    assert (found["devices"], found["trials"], found["cuda"]) == ([], [], None)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (3, "CUDA_ERROR_NOT_INITIALIZED"),
        (35, "CUDA_ERROR_INSUFFICIENT_DRIVER"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        (4242, "CUDA error 4242"),
    ],
)
def test_a_driver_that_refuses_is_named(driver: FakeCuda, code: int, name: str) -> None:
    driver.tell(CARD, more=[f"* fail cuInit {code}"])
    found = ask("run", driver)
    assert found["refused"] == {"step": "cuInit", "code": code, "name": name}
    assert (found["devices"], found["trials"]) == ([], [])


def test_no_card(driver: FakeCuda) -> None:
    driver.tell()
    assert ask("look", driver)["refused"]["name"] == "CUDA_ERROR_NO_DEVICE"
    driver.tell(CARD)
    found = ask("look", driver, CUDA_VISIBLE_DEVICES="")
    assert (found["refused"]["code"], found["visible"]) == (100, "")


def test_a_wrong_sum_is_seen(tmp_path: Path) -> None:
    driver = FakeCuda(tmp_path)
    driver.tell(CARD, OLD, more=["0 wrong 1"])
    wrong, right = ask("run", driver)["trials"]
    last = (64 << 20) // 4 - 1
    assert (wrong["ok"], wrong["how"]) == (False, "kernel")
    assert wrong["note"] == f"number {last} came back as {probe.SEED + last + 1} and not as {probe.SEED + last}"
    assert right["ok"]


def test_without_the_drivers_compiler_memory_is_tried_all_the_same(driver: FakeCuda) -> None:
    driver.tell(CARD, more=["* fail cuModuleLoadData 221"])
    [trial] = ask("run", driver)["trials"]
    assert (trial["ok"], trial["how"]) == (True, "memset")
    assert "CUDA_ERROR_JIT_COMPILER_NOT_FOUND" in trial["note"]


def test_a_card_that_is_nearly_full_is_tried_with_less(driver: FakeCuda) -> None:
    driver.tell(CARD._replace(memory=2 << 20))
    [trial] = ask("run", driver)["trials"]
    assert (trial["ok"], trial["bytes"]) == (True, 1 << 20)
    driver.tell(CARD._replace(memory=1000))
    [trial] = ask("run", driver)["trials"]
    assert (trial["ok"], trial["refused"]["name"]) == (False, "CUDA_ERROR_OUT_OF_MEMORY")


@pytest.mark.parametrize("step", ["cuDevicePrimaryCtxRetain", "cuLaunchKernel", "cuCtxSynchronize", "cuMemcpyDtoH_v2"])
def test_a_step_that_fails_is_named(driver: FakeCuda, step: str) -> None:
    driver.tell(CARD, more=[f"* fail {step} 719"])
    [trial] = ask("run", driver)["trials"]
    assert (trial["ok"], trial["refused"]) == (
        False,
        {"step": step, "code": 719, "name": "CUDA_ERROR_LAUNCH_FAILED"},
    )


TORCH = (
    "from typing import Optional\n__all__ = ['__version__', 'cuda']\n__version__ = '{}'\n{}\nhip: Optional[str] = {}\n"
)
TF2 = 'build_info = collections.OrderedDict([("cuda_version", "12.5.1"), ("is_cuda_build", {})])\n'
TF1 = "is_cuda_build = {}\ncuda_version_number = '10.0'\n"
INFO = "tensorflow/python/platform/build_info.py"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"torch/version.py": TORCH.format("2.5.1+cu124", "cuda: Optional[str] = '12.4'", None)},
            ("torch", "2.5.1+cu124", "cuda", "12.4"),
        ),
        (
            {"torch/version.py": TORCH.format("2.5.1+cpu", "cuda: Optional[str] = None", None)},
            ("torch", "2.5.1+cpu", "cpu", None),
        ),
        ({"torch/version.py": TORCH.format("1.4.0", "cuda = '10.1'", None)}, ("torch", "1.4.0", "cuda", "10.1")),
        ({"torch/version.py": TORCH.format("2.5.1", "cuda = None", "'6.2'")}, ("torch", "2.5.1", "rocm", None)),
        (
            {INFO: TF2.format(True), "tensorflow-2.19.0.dist-info/METADATA": ""},
            ("tensorflow", "2.19.0", "cuda", "12.5.1"),
        ),
        (
            {INFO: TF2.format(False), "tensorflow_cpu-2.19.0.dist-info/METADATA": ""},
            ("tensorflow-cpu", "2.19.0", "cpu", "12.5.1"),
        ),
        (
            {INFO: TF1.format(False), "tensorflow-1.15.0.dist-info/METADATA": ""},
            ("tensorflow", "1.15.0", "cpu", "10.0"),
        ),
        (
            {INFO: TF1.format(True), "tensorflow_gpu-1.15.0-py3.7.egg-info/PKG-INFO": ""},
            ("tensorflow-gpu", "1.15.0", "cuda", "10.0"),
        ),
        (
            {f"{name}-0.4.35.dist-info/METADATA": "" for name in ("jax", "jaxlib", "jax_cuda12_plugin")},
            ("jax", "0.4.35", "cuda", "12"),
        ),
        ({f"{name}-0.4.35.dist-info/METADATA": "" for name in ("jax", "jaxlib")}, ("jax", "0.4.35", "cpu", None)),
        ({"jaxlib-0.4.13+cuda11.cudnn86.dist-info/METADATA": ""}, ("jax", "0.4.13+cuda11.cudnn86", "cuda", "11")),
    ],
    ids=lambda value: value[0] + " " + value[1] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("version", ["2.7", "3.13"])
def test_builds_are_read_and_not_imported(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, ...], version: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for package in ("torch", "tensorflow", "jax"):
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('it was imported')")
    [found] = ask("look", python=python_of(version), PYTHONPATH=str(tmp_path))["packages"]
    assert (found["name"], found["version"], found["build"], found["cuda"]) == expected


def test_cudnn_beside_tensorflow_is_seen(tmp_path: Path) -> None:
    (tmp_path / "tensorflow-2.19.0.dist-info").mkdir()
    assert ask("look", PYTHONPATH=str(tmp_path))["packages"][0]["cudnn"] is False
    (tmp_path / "nvidia" / "cudnn" / "lib").mkdir(parents=True)
    assert ask("look", PYTHONPATH=str(tmp_path))["packages"][0]["cudnn"] is True
