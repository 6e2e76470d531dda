"""Replacements chosen for scripts of TensorFlow 1, and frameworks checked against driver, cards and image."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environments.edits import applied
from holdfast.environments.read import read
from holdfast.environments.revival import gpu_frameworks, retired, script_imports
from holdfast.environments.sources import Declared
from holdfast.environments.spec import Entry, Facts, Interpreter, Spec

TF1 = "import tensorflow as tf\nx = tf.placeholder(tf.float32)\nwith tf.Session() as s:\n    pass\n"
TF2 = "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
HOPPER = Facts("linux-64", {"__cuda": "12.8"}, "570.86", ("9.0",))
VOLTA = Facts("linux-64", {"__cuda": "12.4"}, "550.54", ("7.0",))
OLD_DRIVER = Facts("linux-64", {"__cuda": "9.1"}, "390.48", ("7.0",))


def spec_of(root: Path, text: str, file: str = "env.yml") -> Spec:
    (root / file).write_text(text)
    spec, findings = read(str(root), Declared(file, "conda" if file.endswith(".yml") else "requirements", ""))
    assert spec is not None, findings
    return spec


@pytest.mark.parametrize(
    ("declared", "fixed"),
    [
        (
            "dependencies:\n  - python=3.5.2\n  # newest\n  - tensorflow-gpu\n",
            "dependencies:\n  - python=3.6\n  # newest\n  - pip:\n    - tensorflow-gpu==1.15.5\n",
        ),
        (
            "dependencies:\n- python=3.11\n- pip:\n  - tensorflow  # any\n  - six\n",
            "dependencies:\n- python=3.6\n- pip:\n  - tensorflow==1.15.5  # any\n  - six\n",
        ),
        (
            "dependencies:\n- python=3.7\n- pip:\n  - tensorflow>=1.4\n  - six\n",
            "dependencies:\n- python=3.7\n- pip:\n  - tensorflow==1.15.5\n  - protobuf<3.21\n  - six\n",
        ),
        (
            "dependencies:\n- python=3.6\n- pip:\n  - tensorflow==1.4.0\n",
            "dependencies:\n- python=3.6\n- pip:\n  - tensorflow==1.4.0\n",
        ),
    ],
)
def test_script_of_tensorflow_1_gets_the_newest_1_x(tmp_path: Path, declared: str, fixed: str) -> None:
    spec = spec_of(tmp_path, declared)
    edits = retired.edits(spec, tensorflow_1=True)
    assert applied(declared, edits) == fixed
    used, warnings = retired.replaced(spec, edits)
    assert len(warnings) == len(edits)
    again = spec_of(tmp_path, fixed)
    assert {entry.text for entry in used.pip} == {entry.text for entry in again.pip}
    assert (used.kind, used.python) == (again.kind, again.python)
    assert retired.edits(again, tensorflow_1=True) == []


def test_no_python_for_tensorflow_1_is_an_error(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "tensorflow\n", "requirements.txt")
    (finding,) = retired.unmet(spec, Interpreter("3.11.2", "x"), tensorflow_1=True)
    assert finding.severity == "error"
    assert "Python 3.6 and 3.7" in finding.message
    assert finding.hint == "name a Python 3.6 or 3.7 with --python PATH"
    assert retired.unmet(spec, Interpreter("3.7.2", "x"), tensorflow_1=True) == []
    assert retired.unmet(spec, Interpreter("3.11.2", "x"), tensorflow_1=False) == []


def test_the_script_decides_before_the_project_does(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text(TF1)
    (tmp_path / "new.py").write_text(TF2)
    (tmp_path / "plain.py").write_text("print(1)\n")
    root = str(tmp_path)
    assert script_imports.is_for_tensorflow_1(root, "old.py")
    assert not script_imports.is_for_tensorflow_1(root, "new.py")
    assert script_imports.is_for_tensorflow_1(root, "plain.py")
    assert script_imports.is_for_tensorflow_1(root, "")


@pytest.mark.parametrize(
    "text",
    [
        "from tensorflow.examples.tutorials.mnist import input_data\n",
        "import tensorflow.contrib.layers as layers\n",
        "from tensorflow import Session\n",
        "import tensorflow as tf\nprint 'python 2', tf.Session()\n",
    ],
)
def test_marks_of_tensorflow_1(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text)
    assert script_imports.is_for_tensorflow_1(str(tmp_path), "a.py")


def test_scripts_outside_the_project_and_endless_ones_are_not_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret.py").write_text(TF1)
    (project / "link.py").symlink_to("../secret.py")
    (project / "deep.py").write_text("(" * 100_000)
    assert not script_imports.is_for_tensorflow_1(str(project), "")


@pytest.mark.parametrize("line", ["tensorflow-gpu==1.15.5", "cntk-gpu==2.7"])
def test_no_combination_on_hopper_offers_the_processor(tmp_path: Path, line: str) -> None:
    spec = spec_of(tmp_path, f"{line}\n", "requirements.txt")
    (finding,) = gpu_frameworks.findings(spec, HOPPER, needs_gpu=True)
    assert finding.severity == "error"
    assert "compute capability" in finding.message
    assert "9.0" in finding.message
    assert f"to run on the processor: write {line.replace('-gpu', '')}" in finding.hint
    (milder,) = gpu_frameworks.findings(spec, HOPPER, needs_gpu=False)
    assert milder.severity == "warning"
    assert list(gpu_frameworks.findings(spec, VOLTA, needs_gpu=True)) == []
    assert list(gpu_frameworks.findings(spec, Facts(), needs_gpu=True)) == []


def test_driver_older_than_the_framework_needs(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "tensorflow-gpu==1.15.5\n", "requirements.txt")
    (finding,) = gpu_frameworks.findings(spec, OLD_DRIVER, needs_gpu=True)
    assert "needs CUDA 10.0, and the driver of this target serves CUDA 9.1 and older" in finding.message


def test_image_with_another_cuda_than_the_framework(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "tensorflow-gpu==2.6.2\n", "requirements.txt")
    assert gpu_frameworks.needed_cuda(spec) == (11, 2)
    image = "docker.io/nvidia/cuda:12.6.3-cudnn-runtime-ubuntu22.04"
    (finding,) = gpu_frameworks.findings(spec, VOLTA, image, needs_gpu=True)
    assert (finding.severity, "11.2.2-cudnn8" in finding.hint) == ("warning", True)
    right = "docker.io/nvidia/cuda:11.2.2-cudnn8-runtime-ubuntu20.04"
    assert list(gpu_frameworks.findings(spec, VOLTA, right, needs_gpu=True)) == []
    cntk = spec_of(tmp_path, "cntk-gpu==2.7\n", "requirements.txt")
    assert list(gpu_frameworks.findings(cntk, VOLTA, image, needs_gpu=True)) == []


def test_dead_channel_is_replaced_where_it_stands(tmp_path: Path) -> None:
    text = (
        "channels:\n- https://conda.binstar.org/menpo  # old\n- conda-forge\n"
        "- https://cntk.ai/conda\ndependencies:\n- python=3.8\n- opencv\n"
    )
    spec = spec_of(tmp_path, text)
    edits = retired.edits(spec)
    assert applied(text, edits) == ("channels:\n- menpo  # old\n- conda-forge\ndependencies:\n- python=3.8\n- opencv\n")
    used, warnings = retired.replaced(spec, edits)
    assert used.channels == ("menpo", "conda-forge")
    assert [warning.line for warning in warnings] == [2, 4]


def test_conda_file_for_tensorflow_1_gets_a_line_to_write(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "dependencies:\n- python=3.11\n- pip:\n  - tensorflow\n", "conda_dependencies.yml")
    (finding,) = retired.unmet(spec, Interpreter("3.11.2", "x"), tensorflow_1=True)
    assert finding.hint == "write - python=3.6 under dependencies"


def test_old_cntk_has_a_build_for_gpus() -> None:
    build = gpu_frameworks.build_of(Entry("cntk-gpu==2.0", "requirements.txt", 1))
    assert build is not None
    assert build.name == "cntk"
