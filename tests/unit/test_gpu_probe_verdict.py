"""What the answer of touch.py means, row by row, and answers that are not what they should be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import alive, eventually
from fakecuda import CARD, HAS_COMPILER, FakeCuda
from holdfast.runner.gpu import probe_run, probe_verdict
from lab.pythons import OLDEST, python_of

with_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
DEVICE = {"index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "major": 9, "minor": 0}
NODES = ["/dev/nvidia0", "/dev/nvidiactl"]


def facts(**more: Any) -> dict[str, Any]:
    """Of a machine where all is well."""
    well: dict[str, Any] = {
        "python": "3.11.7",
        "program": "/env/bin/python",
        "visible": None,
        "nodes": NODES,
        "packages": [],
    }
    well |= {"library": "", "refused": None, "cuda": "12.4", "devices": [DEVICE], "seconds": 0.1}
    found = probe_verdict.parsed(json.dumps({**well, **more}).encode())
    assert found is not None
    return found


def refused(code: int, name: str = "CUDA_ERROR_X") -> dict[str, Any]:
    return {"devices": [], "refused": {"step": "cuInit", "code": code, "name": name}}


def package(name: str, version: str, build: str, cuda: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": version, "build": build, "cuda": cuda, **more}


TORCH = package("torch", "2.5.1+cu124", "cuda", "12.4")
CPU_TORCH = package("torch", "2.5.1+cpu", "cpu")
NEW_TORCH = package("torch", "2.9.0+cu130", "cuda", "13.0")
TENSORFLOW = package("tensorflow", "2.19.0", "cuda", "12.5", cudnn=True)
# What is found -> words of why, words of the fix; nothing where all is well.
ROWS: dict[str, tuple[dict[str, Any], str, str]] = {
    "well": ({}, "", ""),
    "well, with torch": ({"packages": [TORCH]}, "", ""),
    "a minor version ahead": ({"packages": [TORCH], "cuda": "12.0"}, "", ""),
    "an unknown build": ({"packages": [package("tensorflow", "2.19.0", "")]}, "", ""),
    "one of two can": ({"packages": [CPU_TORCH, TENSORFLOW]}, "", ""),
    "no driver": ({"library": "libcuda.so.1: no", "devices": []}, "libcuda.so.1: no", "install the driver"),
    "hidden": ({**refused(100), "visible": ""}, "CUDA_VISIBLE_DEVICES= hides every GPU", "unset CUDA_VISIBLE_DEVICES"),
    "none named": (
        {"devices": [], "visible": "7"},
        "CUDA_VISIBLE_DEVICES=7 selects no existing GPU",
        "select an existing GPU",
    ),
    "no node": ({**refused(100), "nodes": []}, "there is no /dev/nvidia*", "nvidia-modprobe"),
    "no card": ({"devices": []}, "shows no GPU although /dev/nvidia0 exists", "nvidia-smi"),
    "not set up": (refused(3, "CUDA_ERROR_NOT_INITIALIZED"), "CUDA_ERROR_NOT_INITIALIZED (3)", "nvidia-smi"),
    "a stub": (refused(34), "a stub of the CUDA toolkit", "LD_LIBRARY_PATH"),
    "too old": (refused(35), "too old", "newer driver"),
    "not restarted": (refused(803), "of different versions", "restart the machine"),
    "an image too new": (refused(804), "too old for the CUDA", "an image for an older CUDA"),
    "no fabric": (refused(802), "not ready", "nvidia-fabricmanager"),
    "something else": (refused(4242, "CUDA_ERROR_X"), "cuInit says CUDA_ERROR_X (4242)", "nvidia-smi"),
    "torch for processors": ({"packages": [CPU_TORCH]}, "torch 2.5.1+cpu is built without CUDA", "without +cpu"),
    "torch for AMD": ({"packages": [package("torch", "2.5.1", "rocm")]}, "AMD GPUs", "for CUDA"),
    "torch too new": (
        {"packages": [NEW_TORCH]},
        "torch 2.9.0+cu130 is built for CUDA 13.0, but this driver supports 12.4 and older",
        "a build of torch for CUDA 12",
    ),
    "CUDA 10 on its own minor version": (
        {"packages": [package("torch", "1.4.0", "cuda", "10.1")], "cuda": "10.0"},
        "supports 10.0 and older",
        "newer driver",
    ),
    "tensorflow 1": (
        {"packages": [package("tensorflow", "1.15.0", "cpu")]},
        "tensorflow 1.15.0 is built without CUDA",
        "tensorflow-gpu==1.15.0",
    ),
    "tensorflow-cpu": ({"packages": [package("tensorflow-cpu", "2.19.0", "cpu")]}, "without CUDA", "[and-cuda]"),
    "no cuDNN": (
        {"packages": [{**TENSORFLOW, "cudnn": False}]},
        "tensorflow 2.19.0 finds no cuDNN",
        "tensorflow[and-cuda]==2.19.0",
    ),
    "jax": ({"packages": [package("jax", "0.4.35", "cpu")]}, "jax 0.4.35 is built without CUDA", "jax[cuda12]"),
}


@pytest.mark.parametrize(("found", "why", "fix"), ROWS.values(), ids=ROWS)
def test_every_cause_is_told_with_its_fix(found: dict[str, Any], why: str, fix: str) -> None:
    judged = probe_verdict.judge(facts(**found))
    assert judged["ok"] is (not why)
    assert why in judged["why"]
    assert fix in judged["fix"]
    assert bool(judged["fix"]) is bool(why)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"library": "libcuda.so.1: no", "devices": []}, "there is no GPU in the container: NVIDIA's driver"),
        ({**refused(100), "nodes": []}, "there is no GPU in the container: no /dev/nvidia*"),
    ],
)
def test_in_a_container_the_compute_file_is_what_to_change(found: dict[str, Any], why: str) -> None:
    judged = probe_verdict.judge(facts(**found), contained=True)
    assert (judged["ok"], why in judged["why"], "nvidiaDocker: true" in judged["fix"]) == (False, True, True)


TRIAL = {"index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "ok": True, "bytes": 64 << 20, "how": "kernel"}


@pytest.mark.parametrize(
    ("trial", "why", "fix"),
    [
        ({}, "", ""),
        ({"ok": False, "note": "number 1 came back as 2"}, "NVIDIA H200 computes wrongly: number 1", "do not use"),
        (
            {"ok": False, "refused": {"step": "cuMemAlloc_v2", "code": 2, "name": "CUDA_ERROR_OUT_OF_MEMORY"}},
            "NVIDIA H200 has no memory left",
            "holdfast gpu",
        ),
        (
            {"ok": False, "refused": {"step": "cuLaunchKernel", "code": 719, "name": "CUDA_ERROR_LAUNCH_FAILED"}},
            "NVIDIA H200 cannot be used: cuLaunchKernel says CUDA_ERROR_LAUNCH_FAILED (719)",
            "nvidia-smi",
        ),
    ],
)
def test_a_card_that_fails_its_trial(trial: dict[str, Any], why: str, fix: str) -> None:
    judged = probe_verdict.judge(facts(trials=[{**TRIAL, **trial}]))
    assert (judged["ok"], why in judged["why"], fix in judged["fix"]) == (not why, True, True)


def environment(driver: FakeCuda | None, **more: str) -> dict[bytes, bytes]:
    env = {"PATH": os.environ["PATH"], **more, **({"LD_LIBRARY_PATH": str(driver.folder)} if driver else {})}
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}


@with_compiler
def test_here_is_the_runs_own_interpreter_and_environment(tmp_path: Path) -> None:
    driver = FakeCuda(tmp_path, CARD)
    place, python = os.fsencode(tmp_path), os.fsencode(sys.executable)
    found = probe_run.here(python, environment(driver), place, 60)
    assert (found["ok"], found["why"]) == (True, "")
    assert [device["name"] for device in found["facts"]["devices"]] == [CARD.name]
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.5.1+cpu'\ncuda = None\n")
    found = probe_run.here(python, environment(driver, PYTHONPATH=str(tmp_path)), place, 60)
    assert (found["ok"], found["facts"]["packages"][0]["build"]) == (False, "cpu")
    found = probe_run.here(python, environment(driver, CUDA_VISIBLE_DEVICES=""), place, 60)
    assert "hides every GPU" in found["why"]


@with_compiler
def test_a_driver_that_hangs_is_given_up_and_ended(tmp_path: Path) -> None:
    driver = FakeCuda(tmp_path)
    driver.tell(CARD, more=["* delay cuInit 1000000"])
    env = environment(driver, MARK=str(tmp_path))
    began = time.monotonic()
    found = probe_run.here(os.fsencode(sys.executable), env, os.fsencode(tmp_path), 2)
    assert time.monotonic() - began < 60
    assert (found["ok"], found["facts"]) == (False, {})
    assert found["why"] == "NVIDIA's driver did not respond within 2 s"
    eventually(lambda: _processes_with(f"MARK={tmp_path}") == [])


@with_compiler
def test_a_driver_that_crashes_is_no_verdict(tmp_path: Path) -> None:
    driver = FakeCuda(tmp_path)
    driver.tell(CARD, more=["* crash cuInit"])
    found = probe_run.here(os.fsencode(sys.executable), environment(driver), os.fsencode(tmp_path), 60)
    assert (found["ok"], found["facts"], found["why"]) == (
        True,
        {},
        "the GPU test did not finish: no message",
    )


def test_what_cannot_be_started_is_no_verdict(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path)
    for argv0, folder in ((b"/no/such/python", place), (b"/bin/true", place), (b"python3", place + b"/gone")):
        found = probe_run.here(argv0, environment(None), folder, 60)
        assert (found["ok"], found["facts"]) == (True, {})
        assert found["why"].startswith("the GPU test ")


def test_a_machine_without_a_plain_python(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    found = probe_run.here(b"python", {b"PATH": os.fsencode(tmp_path)}, os.fsencode(tmp_path), 60)
    assert found["facts"]["python"] == ".".join(map(str, sys.version_info[:3]))


def test_the_oldest_python_can_ask(tmp_path: Path) -> None:
    """As the runner is where there is nothing newer."""
    python = python_of(OLDEST)
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); from runner.gpu import probe_run\n"
        "print(json.dumps(probe_run.here(sys.executable.encode(), {}, b'/', 60)))"
    )
    folder = Path(probe_run.__file__).parents[2]
    argv = [python, "-I", "-S", "-B", "-c", code, str(folder)]
    done = subprocess.run(argv, capture_output=True, check=True)
    assert json.loads(done.stdout)["facts"]["python"].startswith("3.6.")


def write(attempt: Path, name: str, text: str) -> bytes:
    (attempt / "inside").mkdir(exist_ok=True)
    (attempt / "inside" / name).write_text(text)
    return os.fsencode(attempt)


def test_answers_from_within_are_data(tmp_path: Path) -> None:
    assert probe_run.told(os.fsencode(tmp_path)) is None
    for nonsense in ("", "null", "[]", "{", "[" * 100_000, '"x"'):
        assert probe_run.told(write(tmp_path, "touch", nonsense)) is None
        assert probe_run.lost(write(tmp_path, "gpu-lost", nonsense)) is None
    for said in ("nothing", 'holdfast-touch {"devices": 3}', "holdfast-touch [", 7, None):
        found = probe_run.told(write(tmp_path, "touch", json.dumps({"said": said})))
        assert found is not None
        assert (found["ok"], found["facts"]) == (True, {})
    evil: dict[str, Any] = {
        "devices": [{"name": "\x1b[31mred" + "x" * 1000, "index": True, "major": float("inf")}, 7] * 100
    }
    evil |= {"packages": {}, "cuda": ["12"], "refused": {"code": "3"}, "trials": [1, {"ok": "yes"}], "more": "x"}
    text = json.dumps({"said": f"holdfast-touch {json.dumps(evil)}"})
    found = probe_run.told(write(tmp_path, "touch", text))
    assert found is not None
    device = found["facts"]["devices"][0]
    assert (device["index"], device["major"], device["uuid"], len(device["name"]) <= 500) == (0, 0, "", True)
    assert device["name"].startswith("[31mredx")
    assert len(found["facts"]["devices"]) <= 64
    assert "more" not in found["facts"]


def test_no_link_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret").write_text(json.dumps({"node": "n", "why": "w", "time": 1.5}))
    (tmp_path / "inside" / "gpu-lost").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "inside" / "touch")
    assert (probe_run.lost(os.fsencode(tmp_path)), probe_run.told(os.fsencode(tmp_path))) == (None, None)
    (tmp_path / "inside" / "gpu-lost").unlink()
    (tmp_path / "secret").rename(tmp_path / "inside" / "gpu-lost")
    assert probe_run.lost(os.fsencode(tmp_path)) == {"node": "n", "why": "w", "time": 1.5}


def _processes_with(variable: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if alive(pid)]


@pytest.mark.parametrize(
    ("cuda", "driver", "is_too_new"),
    [
        *(("12.4", "12.4", False), ("12.8", "12.0", False), ("12.0", "13.0", False), ("13.0", "12.9", True)),
        *(("11.8", "11.0", False), ("11.0", "10.2", True), ("10.2", "10.1", True), ("10.1", "10.2", False)),
        *(("10.2", "11.0", False), ("10.2.89", "10.2", False), ("9", "9.1", False), ("", "12.4", False)),
        *(("12.4", "", False), ("10.2", "10.2.1", False)),
    ],
)
def test_build_is_too_new_for_a_driver(cuda: str, driver: str, is_too_new: bool) -> None:
    assert probe_verdict.too_new(cuda, driver) == is_too_new


def test_lists_and_texts_of_an_answer_have_limits() -> None:
    assert len(facts(nodes=["x"] * 65)["nodes"]) == 64
    assert facts(python="x" * 501)["python"] == "x" * 500
    assert facts(python="a\x1b[31m\x80\nb ")["python"] == "a [31m b"
    assert facts(python=3, visible=3, cuda="12.4\n") | {"python": "", "visible": None} == facts(python="")
    for seconds, expected in ((1.5, 1.5), (True, 0), ("1", 0), (1e15, 0), (-9e14, -9e14), (float("nan"), 0)):
        assert facts(seconds=seconds)["seconds"] == expected


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"devices": {}}', b"[" * 100_000])
def test_answer_without_devices_is_none(text: bytes) -> None:
    assert probe_verdict.parsed(text) is None
