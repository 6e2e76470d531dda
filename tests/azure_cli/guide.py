"""The command lines and file blocks of the GPU guide of 2017 and 2018, by language, and its 32 steps."""

from __future__ import annotations

from typing import NamedTuple

PROMPT = "C:\\MyProj> "
REM = "REM install latest TensorFlow with GPU support"
PIP = "pip install tensorflow-gpu"
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
    """What one language prints: ``image`` is that of the block, ``conda`` its three or two conda files.

    ``wheel`` is that of its second ``pip install``.
    """

    attach: str
    image: str
    conda: tuple[str, ...]
    wheel: str = f"{WHEELS}/GPU-1bit-SGD/cntk-2.1-cp35-cp35m-win_amd64.whl"


_OLDER_IMAGE, _NEWER_IMAGE = "microsoft/mmlspark:plus-gpu-0.7.91", "microsoft/mmlspark:plus-gpu-0.9.9"
GUIDES = {
    "de": Guide(WITH_TYPE, _OLDER_IMAGE, (TENSORFLOW, _WINDOWS, _ONE_BIT)),
    "fr": Guide(WITH_TYPE, _OLDER_IMAGE, (TENSORFLOW, _LINUX, _ONE_BIT)),
    "ja": Guide(WITH_WORD, _NEWER_IMAGE, (TENSORFLOW, _NEWER), f"{WHEELS}/GPU/cntk_gpu-2.5.1-cp35-cp35m-win_amd64.whl"),
    "pt-BR": Guide(WITH_WORD, _NEWER_IMAGE, (TENSORFLOW, _LINUX, _ONE_BIT)),
    "zh-TW": Guide(WITH_TYPE, _OLDER_IMAGE, (TENSORFLOW, _WINDOWS, _ONE_BIT)),
}

PRINTED, IN_APP, REPLACED, OTHERWISE, PROVIDER = "as printed", "in the app", "replaced", "otherwise", "provider"
# How the sentence about the steps names an outcome, in its order.
OUTCOMES = {
    PRINTED: "work as printed",
    IN_APP: "in the app, which is `holdfast ui`",
    REPLACED: "with a replacement and a warning",
    OTHERWISE: "otherwise",
    PROVIDER: "are on the pages of the provider of the machine",
}


class Step(NamedTuple):
    """A step of the guide; ``proof`` is the test that fails if it works otherwise: file below tests/ and function."""

    title: str
    outcome: str
    how: str
    proof: str


_WALK = "azure_cli/test_guide.py::test_guide_from_its_first_to_its_last_line"
_APP = "web/test_guide_steps.py::test_steps_of_the_guide_that_are_in_the_app"
_BLOCKS = "e2e/test_environments_guide.py::test_guide_file_runs_as_printed_with_a_python_of_the_channel"
_PAGE = "containers/test_guide_pages.py::test_commands_of_a_machines_page_are_ours_or_a_providers"
_SAMPLES = "e2e/test_mnist_templates.py::test_new_project_checks_well_and_names_its_script"
_TYPED = "azure_cli/test_guide.py::test_lines_of_the_first_listing_run_in_the_shell"
STEPS = (
    Step(
        "Install the Workbench",
        OTHERWISE,
        "`pip install holdfast` and `az extension add`, above",
        "fresh/test_fresh_root.py::test_demo_and_smoke_tests_pass_in_a_fresh_root",
    ),
    Step("Have a machine with an NVIDIA GPU", PRINTED, "`holdfast gpu` shows it", _WALK),
    Step("Open the command prompt from the app", IN_APP, "_Command prompt_ of the project; a terminal, too", _APP),
    Step("`REM` lines in listings", PRINTED, "in `holdfast shell`; in bash, begin the line with `#`", _TYPED),
    Step(
        "`pip install tensorflow-gpu`",
        REPLACED,
        "in `holdfast shell`, where it declares the package: by the newest that the Python can have",
        "e2e/test_environments_guide.py::test_pip_line_of_the_guide_declares_what_the_next_run_replaces",
    ),
    Step(
        "`pip install` of a CNTK wheel",
        OTHERWISE,
        "in `holdfast shell` it declares `cntk-gpu`; without Python 3.6 on the machine use the conda file",
        _TYPED,
    ),
    Step("Write Python code with a deep learning library", PRINTED, "", _WALK),
    Step("Choose _local_ as the environment", PRINTED, "`-c local`", _WALK),
    Step("`az ml experiment submit -c local`", PRINTED, "", _WALK),
    Step("Sign in at the provider", PROVIDER, "[getting a machine](getting-a-machine.md)", _PAGE),
    Step("Ask for a new resource", PROVIDER, "step 4 there", _PAGE),
    Step("Find the image", PROVIDER, "step 3 there", _PAGE),
    Step("Create the machine", PROVIDER, "step 6 there", _PAGE),
    Step("Choose name, login and region", PROVIDER, "steps 2 and 6 there", _PAGE),
    Step("Choose a size with a GPU", PROVIDER, "step 6 there", _PAGE),
    Step("Finish, and note the address", PROVIDER, "step 7 there", _PAGE),
    Step(
        "Create a project from the TensorFlow sample",
        PRINTED,
        "`az ml project create --name mnist --template mnist-tensorflow`",
        _SAMPLES,
    ),
    Step("Create a project from the CNTK sample", PRINTED, "`--template mnist-cntk`", _SAMPLES),
    Step("Launch the command line from the app", IN_APP, "_Command prompt_ of the project", _APP),
    Step("Replace the placeholders", PRINTED, "", _WALK),
    Step("`az ml computetarget attach`", PRINTED, "both forms; the password is used once, to install a key", _WALK),
    Step("Refresh the files view", IN_APP, "load the page _Files_ again", _APP),
    Step("Find `my_dsvm.compute` and `my_dsvm.runconfig`", PRINTED, "", _WALK),
    Step(
        "`baseDockerImage: microsoft/mmlspark:plus-gpu-...`",
        REPLACED,
        "by an image with the CUDA that the framework needs",
        _WALK,
    ),
    Step("`nvidiaDocker: true` as a new line", PRINTED, "a second line with this key counts", _WALK),
    Step('`"Framework": "Python"`', PRINTED, "", _WALK),
    Step(
        "The conda file with `tensorflow-gpu`",
        REPLACED,
        "by the newest version that the Python can have; `python=3.5` by 3.6",
        _BLOCKS,
    ),
    Step("The conda file with a CNTK wheel", REPLACED, "by `cntk` or `cntk-gpu` of the public index", _BLOCKS),
    Step("The conda file with a 1-bit CNTK wheel", REPLACED, "1-bit SGD is in the ordinary build", _BLOCKS),
    Step("Run the script in the app", IN_APP, "_Run_ of the project", _APP),
    Step("`az ml experiment submit -c my_dsvm`", PRINTED, "", _WALK),
    Step("The five lines about the GPU", PRINTED, "before the output of the script", _WALK),
)


def counted() -> str:
    """The sentence of the documentation."""
    counts = {outcome: sum(step.outcome == outcome for step in STEPS) for outcome in OUTCOMES}
    *parts, last = (f"{counts[outcome]} {words}" for outcome, words in OUTCOMES.items())
    return f"The GPU guide of the Workbench has {len(STEPS)} steps. Of these {', '.join(parts)}, and {last}."


def rows() -> list[tuple[str, str, str, str]]:
    """The table of the documentation."""
    return [(str(number), step.title, step.outcome, step.how) for number, step in enumerate(STEPS, 1)]
