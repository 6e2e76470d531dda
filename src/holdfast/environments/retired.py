"""Packages, channels and URLs of old projects that no longer exist, with their replacements.

The lines for pip were last resolved against the public index on 2026-11-15.
"""

from __future__ import annotations

import re

from holdfast.environments import matchspec, requirement
from holdfast.environments.edits import Edit
from holdfast.environments.spec import python_of
from holdfast.environments.versions import minor, release
from holdfast.environments.wheels import parse_wheel
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.amlconfig.types import Severity
    from holdfast.environments.spec import Entry, Interpreter, Spec


class Retired(Record):
    """A name that leads nowhere since that month; ``keeps_pin`` if versions mean the same under the new name."""

    since: str
    new: str
    why: str
    keeps_pin: bool = False


PIP_NAMES: Mapping[str, Retired] = {
    "sklearn": Retired("2023-12", "scikit-learn", "the package sklearn was a placeholder and has been removed"),
    "pytorch": Retired("2018-04", "torch", "pip's pytorch is an empty package that refuses to install"),
    "skimage": Retired("2017-01", "scikit-image", "skimage is the name of the module, not of the package"),
    "pil": Retired("2011-01", "pillow", "PIL ended with Python 2"),
    "cv2": Retired("2017-01", "opencv-python", "cv2 is the name of the module, not of the package"),
    "opencv": Retired("2017-01", "opencv-python", "opencv is conda's name for it"),
}
CONDA_NAMES: Mapping[str, Retired] = {
    "sklearn": Retired("2017-01", "scikit-learn", "sklearn is the name of the module, not of the package"),
    "torch": Retired("2017-01", "pytorch", "torch is pip's name for it", keeps_pin=True),
    "skimage": Retired("2017-01", "scikit-image", "skimage is the name of the module, not of the package"),
    "pil": Retired("2011-01", "pillow", "PIL ended with Python 2"),
    "cv2": Retired("2017-01", "opencv", "cv2 is the name of the module, not of the package"),
}
# The last tensorflow-gpu that has a wheel for a Python; from 3.9 on the CUDA libraries come as an extra.
TENSORFLOW_GPU: Mapping[tuple[int, int], str] = {
    (3, 6): "tensorflow-gpu==2.6.2",
    (3, 7): "tensorflow-gpu==2.11.0",
    (3, 8): "tensorflow-gpu==2.11.0",
}
TENSORFLOW_TODAY = "tensorflow[and-cuda]"
# Its 2.12.0 is an empty package that refuses to install, and the newest.
_TENSORFLOW_GPU_ENDED = (2, 12)
# The CNTK versions that the public index has, all with wheels for Python 3.6; older ones were on cntk.ai only.
CNTK_LIVING = ("2.5", "2.5.1", "2.6", "2.7")
CNTK_NEWEST_PYTHON = (3, 6)
OLDEST_PYTHON = (3, 6)
_CNTK = re.compile(r"https?://(?:www\.)?cntk\.ai/PythonWheel/([^/]+)/[^/]+\.whl", re.IGNORECASE)
_AZURE_WHEELS = re.compile(r"https?://azuremldownloads\.[^/]+/", re.IGNORECASE)


def edits(spec: Spec, interpreter: Interpreter | None = None) -> list[Edit]:
    """The changes after which nothing in ``spec`` is retired."""
    python = minor(spec.python) or python_of(spec, interpreter)
    # What is written for the packages has to fit the Python that will be written beside them.
    coming = max(python, OLDEST_PYTHON) if python and python[0] == 3 else python
    changes = [edit for entry in spec.conda for edit in _conda_edits(entry, spec, coming)]
    changes += [edit for entry in spec.pip for edit in _pip_edits(entry, coming)]
    return changes + list(_cntk_python_edits(spec, coming))


def _conda_edits(entry: Entry, spec: Spec, python: tuple[int, int] | None) -> Iterator[Edit]:
    package = matchspec.parse(entry.text)
    pin = package.version.lstrip("=") if package.version.startswith("=") else ""
    if package.name == "python":
        yield from _python_edits(entry, release(pin), "error" if spec.pip else "warning")
    elif package.name == "tensorflow-gpu" and not (pin and "defaults" in spec.channels):
        new = _tensorflow_gpu(f"=={pin}.*" if pin else "", release(pin), python)
        message = "tensorflow-gpu is no longer a separate conda package; it is available from pip"
        yield Edit(entry, new or f"tensorflow-gpu=={pin}.*", message, to_pip=True)
    elif package.name in CONDA_NAMES:
        retired = CONDA_NAMES[package.name]
        new = retired.new + (package.version if retired.keeps_pin else "")
        yield Edit(entry, new, f"{package.name} cannot be found: {retired.why}", "error")


def _python_edits(entry: Entry, version: tuple[int, ...], severity: Severity) -> Iterator[Edit]:
    if version[:1] == (3,) and len(version) > 1 and version[:2] < OLDEST_PYTHON:
        text = ".".join(map(str, version))
        message = f"Python {text} is too old for the tools that install packages today; the nearest is 3.6"
        yield Edit(entry, "python=3.6", message, severity)


def _pip_edits(entry: Entry, python: tuple[int, int] | None) -> Iterator[Edit]:
    if entry.text.startswith("./"):
        return
    wanted = requirement.parse(entry.text)
    if wanted.url:
        yield from _dead_addresses(entry, wanted.url)
    elif wanted.name == "tensorflow-gpu":
        new = _tensorflow_gpu(wanted.specifier, release(wanted.specifier.lstrip("=~<>!")), python)
        if new:
            yield Edit(entry, new, "tensorflow-gpu can no longer be installed: its last version is empty", "error")
    elif wanted.name in PIP_NAMES:
        retired = PIP_NAMES[wanted.name]
        new = retired.new + (wanted.specifier if retired.keeps_pin else "")
        yield Edit(entry, new, f"{wanted.name} cannot be installed: {retired.why}", "error")


def _tensorflow_gpu(specifier: str, pin: tuple[int, ...], python: tuple[int, int] | None) -> str:
    """The line to write; empty for a pin that can still be had."""
    if specifier.startswith("==") and pin[:2] < _TENSORFLOW_GPU_ENDED:
        return ""
    return TENSORFLOW_GPU.get(python, TENSORFLOW_TODAY) if python else TENSORFLOW_TODAY


def _dead_addresses(entry: Entry, url: str) -> Iterator[Edit]:
    if _AZURE_WHEELS.match(url):
        message = "azuremldownloads no longer exists; Holdfast provides azureml.logging to every run"
        yield Edit(entry, "", message, "error")
    cntk = _CNTK.match(url)
    wheel = parse_wheel(url)
    if cntk and wheel:
        name = "cntk-gpu" if cntk[1].upper().startswith("GPU") else "cntk"
        version = wheel.version if wheel.version in CNTK_LIVING else CNTK_LIVING[-1]
        message = f"cntk.ai no longer has wheels; of CNTK {wheel.version} the public index has {name}"
        if version != wheel.version:
            message = (
                f"cntk.ai no longer has wheels, and CNTK {wheel.version} is no longer available; {name} 2.5 to 2.7 are"
            )
        if "1bit" in cntk[1].lower():
            message += ", with 1-bit SGD in the ordinary GPU build"
        yield Edit(entry, f"{name}=={version}", message, "error")


def _cntk_python_edits(spec: Spec, python: tuple[int, int] | None) -> Iterator[Edit]:
    wants_cntk = any(re.match(r"cntk(-gpu)?(?![\w-])", entry.text) for entry in spec.pip)
    if not wants_cntk or not python or python <= CNTK_NEWEST_PYTHON:
        return
    for entry in spec.conda:
        if matchspec.parse(entry.text).name == "python":
            message = f"CNTK has no wheel for Python {python[0]}.{python[1]}; the newest it supports is 3.6"
            yield Edit(entry, "python=3.6", message, "error")
