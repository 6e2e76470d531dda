"""The command lines and file blocks of the GPU guide of 2017 and 2018, by language, and its 32 steps."""

from __future__ import annotations

from typing import NamedTuple

PROMPT = "C:\\MyProj> "
REM = "REM install latest TensorFlow with GPU support"
LOCAL = "az ml experiment submit -c local my-deep-learning-script.py"
SUBMIT = "az ml experiment submit -c my_dsvm my_tensorflow_or_cntk_script.py"
ADDRESS = '--name "my_dsvm" --address "my_dsvm_ip_address" --username "my_name" --password "my_password"'
WITH_TYPE = f"az ml computetarget attach {ADDRESS} --type remotedocker"
WITH_WORD = f"az ml computetarget attach remotedocker {ADDRESS} "
NVIDIA = "nvidiaDocker: true"
FRAMEWORK = '"Framework": "Python"'
TENSORFLOW = """\
name: project_environment
dependencies:
  - python=3.5.2
  # latest TensorFlow library with GPU support
  - tensorflow-gpu
"""
WHEELS = "https://cntk.ai/PythonWheel"
FIVE_LINES = """\
name: Tesla K80
major: 3 minor: 7 memoryClockRate (GHz) 0.8235
pciBusID 06c3:00:00.0
Total memory: 11.17GiB
Free memory: 11.11GiB
"""


def cntk(wheel: str, comment: str, blanks: str = " ") -> str:
    return (
        f"name: project_environment\ndependencies:\n  - python=3.5.2\n  - pip:{blanks}\n"
        f"    # {comment}\n    - {WHEELS}/{wheel}\n"
    )


_2_1 = "use the Linux build of Microsoft Cognitive Toolkit 2.1 with GPU support"
_2_5 = "use the Linux build of Microsoft Cognitive Toolkit 2.5 with GPU support"
_1BIT = "use the Linux build of the Microsoft Cognitive Toolkit 2.1 with 1-bit SGD and GPU support"
_WINDOWS = cntk("GPU/cntk-2.1-cp35-cp35m-win_amd64.whl", _2_1)
_LINUX = cntk("GPU/cntk-2.1-cp35-cp35m-linux_x86_64.whl", _2_1)
_NEWER = cntk("GPU/cntk_gpu-2.5.1-cp35-cp35m-win_amd64.whl", _2_5)
_ONE_BIT = cntk("GPU-1bit-SGD/cntk-2.1-cp35-cp35m-linux_x86_64.whl", _1BIT, "    ")


class Guide(NamedTuple):
    """What one language prints: ``image`` is that of the block, ``conda`` its three or two conda files."""

    attach: str
    image: str
    conda: tuple[str, ...]


_OLDER_IMAGE, _NEWER_IMAGE = "microsoft/mmlspark:plus-gpu-0.7.91", "microsoft/mmlspark:plus-gpu-0.9.9"
GUIDES = {
    "de": Guide(WITH_TYPE, _OLDER_IMAGE, (TENSORFLOW, _WINDOWS, _ONE_BIT)),
    "fr": Guide(WITH_TYPE, _OLDER_IMAGE, (TENSORFLOW, _LINUX, _ONE_BIT)),
    "ja": Guide(WITH_WORD, _NEWER_IMAGE, (TENSORFLOW, _NEWER)),
    "pt-BR": Guide(WITH_WORD, _NEWER_IMAGE, (TENSORFLOW, _LINUX, _ONE_BIT)),
    "zh-TW": Guide(WITH_TYPE, _OLDER_IMAGE, (TENSORFLOW, _WINDOWS, _ONE_BIT)),
}

PRINTED, REPLACED, OTHERWISE, PROVIDER, APP = "as printed", "replaced", "otherwise", "provider", "app"
STEPS = (
    ("Install the Workbench", OTHERWISE),
    ("Have a machine with an NVIDIA GPU", PRINTED),
    ("Open the command prompt from the app", APP),
    ("`REM` lines in listings", PRINTED),
    ("`pip install tensorflow-gpu`", OTHERWISE),
    ("`pip install` of a CNTK wheel", OTHERWISE),
    ("Write Python code with a deep learning library", PRINTED),
    ("Choose _local_ as the environment", PRINTED),
    ("`az ml experiment submit -c local`", PRINTED),
    ("Sign in at the provider", PROVIDER),
    ("Ask for a new resource", PROVIDER),
    ("Find the image", PROVIDER),
    ("Create the machine", PROVIDER),
    ("Choose name, login and region", PROVIDER),
    ("Choose a size with a GPU", PROVIDER),
    ("Finish, and note the address", PROVIDER),
    ("Create a project from the TensorFlow sample", PRINTED),
    ("Create a project from the CNTK sample", PRINTED),
    ("Launch the command line from the app", APP),
    ("Replace the placeholders", PRINTED),
    ("`az ml computetarget attach`", PRINTED),
    ("Refresh the files view", APP),
    ("Find `my_dsvm.compute` and `my_dsvm.runconfig`", PRINTED),
    ("`baseDockerImage: microsoft/mmlspark:plus-gpu-...`", REPLACED),
    ("`nvidiaDocker: true` as a new line", PRINTED),
    ('`"Framework": "Python"`', PRINTED),
    ("The conda file with `tensorflow-gpu`", REPLACED),
    ("The conda file with a CNTK wheel", REPLACED),
    ("The conda file with a 1-bit CNTK wheel", REPLACED),
    ("Run the script in the app", APP),
    ("`az ml experiment submit -c my_dsvm`", PRINTED),
    ("The five lines about the GPU", PRINTED),
)
