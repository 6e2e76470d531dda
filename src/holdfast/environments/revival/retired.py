"""Replaces packages, Pythons, wheels and channels of old projects that no longer exist (the facts: ``withdrawn``)."""

from __future__ import annotations

import re

from holdfast.amlconfig.types import Finding
from holdfast.environments import matchspec, requirement
from holdfast.environments.edits import Edit
from holdfast.environments.spec import Entry, python_of
from holdfast.environments.versions import from_conda, minor, release
from holdfast.environments.wheels import parse_wheel
from holdfast.withdrawn import (
    AZURE_WHEELS,
    CHANNELS,
    CNTK_LIVING,
    CNTK_NEWEST_PYTHON,
    CNTK_WHEEL,
    CONDA_NAMES,
    OLDEST_PYTHON,
    PIP_NAMES,
    TENSORFLOW_1,
    TENSORFLOW_1_BESIDE,
    TENSORFLOW_1_PYTHONS,
    TENSORFLOW_GPU,
    TENSORFLOW_GPU_ENDED,
    TENSORFLOW_TODAY,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.environments.spec import Interpreter, Spec

_TENSORFLOW = ("tensorflow", "tensorflow-gpu")
_BROUGHT_ANYWAY = ("python", "pip")
FIX = "holdfast env fix"


def edits(spec: Spec, interpreter: Interpreter | None = None, *, tensorflow_1: bool = False) -> list[Edit]:
    """The changes after which nothing in ``spec`` is retired; ``tensorflow_1``: its scripts are written for that."""
    python = minor(spec.python) or python_of(spec, interpreter)
    # What is written for the packages has to fit the Python that will be written beside them.
    coming = max(python, OLDEST_PYTHON) if python and python[0] == 3 else python
    tensorflow_1 = tensorflow_1 and asks_tensorflow(spec)
    if tensorflow_1 and coming is not None and coming > TENSORFLOW_1_PYTHONS[-1] and _python_entry(spec) is not None:
        coming = TENSORFLOW_1_PYTHONS[0]
    tensorflow_1 = tensorflow_1 and coming in TENSORFLOW_1_PYTHONS
    changes = [edit for entry in spec.channel_lines for edit in _channel_edits(entry)]
    changes += [edit for entry in spec.conda for edit in _conda_edits(entry, spec, coming, tensorflow_1=tensorflow_1)]
    changes += [edit for entry in spec.pip for edit in _pip_edits(entry, coming, tensorflow_1=tensorflow_1)]
    if tensorflow_1:
        changes += _tensorflow_python_edits(spec, python)
    return changes + list(_cntk_python_edits(spec, coming))


def replaced(spec: Spec, changes: list[Edit]) -> tuple[Spec, list[Finding]]:
    """``spec`` with each change made, and one warning for each; the file stays as it is."""
    by_place = {(edit.entry.file, edit.entry.line, edit.entry.column): edit for edit in changes}

    def changed(entries: tuple[Entry, ...], *, to_pip: bool = False) -> Iterator[Entry]:
        for entry in entries:
            edit = by_place.get((entry.file, entry.line, entry.column))
            if edit is None:
                if not to_pip:
                    yield entry
            elif edit.to_pip == to_pip and edit.new:
                yield from (entry._replace(text=text) for text in (edit.new, *edit.also))

    if not changes:
        return spec, []
    conda = tuple(changed(spec.conda))
    new = spec._replace(
        conda=conda,
        pip=(*changed(spec.pip), *changed(spec.conda, to_pip=True)),
        channels=_channels(spec, tuple(entry.text for entry in changed(spec.channel_lines))),
    )
    names = {matchspec.parse(entry.text).name: matchspec.parse(entry.text).version for entry in conda}
    if spec.kind == "conda" and conda and not set(names) - set(_BROUGHT_ANYWAY):
        new = new._replace(kind="pip")
    if names.get("python"):
        new = new._replace(python=from_conda(names["python"]))
    return new, [_warning(edit) for edit in changes]


def unmet(spec: Spec, interpreter: Interpreter | None, *, tensorflow_1: bool) -> list[Finding]:
    """An error where scripts for TensorFlow 1 would get a Python that it does not exist for."""
    python = python_of(spec, interpreter)
    if not tensorflow_1 or not asks_tensorflow(spec) or python is None or python in TENSORFLOW_1_PYTHONS:
        return []
    entry = next(entry for entry in (*spec.pip, *spec.conda) if _is_open_tensorflow(entry, conda=entry in spec.conda))
    message = (
        f"the scripts are written for TensorFlow 1, which exists for Python 3.6 and 3.7; here is {_text(python)}, for "
        "which only TensorFlow 2 does"
    )
    is_conda = spec.source.endswith((".yml", ".yaml"))
    hint = "write - python=3.6 under dependencies" if is_conda else "name a Python 3.6 or 3.7 with --python PATH"
    return [Finding("error", entry.file, entry.line, entry.column, message, hint)]


def asks_tensorflow(spec: Spec) -> bool:
    """Whether TensorFlow is required without a version, so that the scripts decide."""
    return any(_is_open_tensorflow(entry, conda=False) for entry in spec.pip) or any(
        _is_open_tensorflow(entry, conda=True) for entry in spec.conda
    )


def _is_open_tensorflow(entry: Entry, *, conda: bool) -> bool:
    if conda:
        package = matchspec.parse(entry.text)
        return package.name in _TENSORFLOW and not package.version.startswith("=")
    if entry.text.startswith("./"):
        return False
    wanted = requirement.parse(entry.text)
    return wanted.name in _TENSORFLOW and not wanted.url and not re.search(r"==|<|~=", wanted.specifier)


def _warning(edit: Edit) -> Finding:
    used = " and ".join((edit.new, *edit.also)) or "nothing"
    message = f"{edit.message}; {used} is used in its place"
    return edit.finding._replace(message=message, hint=f"{edit.finding.hint}, or run: {FIX}")


def _channels(spec: Spec, left: tuple[str, ...]) -> tuple[str, ...]:
    from holdfast.environments.conda import DEFAULT_CHANNELS

    if not spec.channel_lines:
        return spec.channels
    return tuple(dict.fromkeys(name for name in left if name != "nodefaults")) or DEFAULT_CHANNELS


def _channel_edits(entry: Entry) -> Iterator[Edit]:
    for pattern, new, why in CHANNELS:
        match = re.fullmatch(pattern, entry.raw, re.IGNORECASE)
        if match:
            yield Edit(entry, match.expand(new), f"this channel no longer exists: {why}")
            return


def _conda_edits(entry: Entry, spec: Spec, python: tuple[int, int] | None, *, tensorflow_1: bool) -> Iterator[Edit]:
    package = matchspec.parse(entry.text)
    pin = package.version.lstrip("=") if package.version.startswith("=") else ""
    if package.name == "python":
        yield from _python_edits(entry, release(pin))
    elif tensorflow_1 and package.name in _TENSORFLOW and not pin:
        yield _tensorflow_1_edit(entry, package.name, python, to_pip=True)
    elif package.name == "tensorflow-gpu" and not (pin and "defaults" in spec.channels):
        new = _tensorflow_gpu(f"=={pin}.*" if pin else "", release(pin), python)
        message = "tensorflow-gpu is no longer a separate conda package; it is available from pip"
        yield Edit(entry, new or f"tensorflow-gpu=={pin}.*", message, to_pip=True)
    elif package.name in CONDA_NAMES:
        retired = CONDA_NAMES[package.name]
        new = retired.new + (package.version if retired.keeps_pin else "")
        yield Edit(entry, new, f"{package.name} cannot be found: {retired.why}")


def _python_edits(entry: Entry, version: tuple[int, ...]) -> Iterator[Edit]:
    if version[:1] == (3,) and len(version) > 1 and version[:2] < OLDEST_PYTHON:
        text = ".".join(map(str, version))
        message = f"Python {text} is too old for the tools that install packages today; the nearest is 3.6"
        yield Edit(entry, "python=3.6", message)


def _pip_edits(entry: Entry, python: tuple[int, int] | None, *, tensorflow_1: bool) -> Iterator[Edit]:
    if entry.text.startswith("./"):
        return
    wanted = requirement.parse(entry.text)
    if wanted.url:
        yield from _dead_addresses(entry, wanted.url)
    elif tensorflow_1 and _is_open_tensorflow(entry, conda=False):
        yield _tensorflow_1_edit(entry, wanted.name, python)
    elif wanted.name == "tensorflow-gpu":
        new = _tensorflow_gpu(wanted.specifier, release(wanted.specifier.lstrip("=~<>!")), python)
        if new:
            yield Edit(entry, new, "tensorflow-gpu can no longer be installed: its last version is empty")
    elif wanted.name in PIP_NAMES:
        retired = PIP_NAMES[wanted.name]
        new = retired.new + (wanted.specifier if retired.keeps_pin else "")
        yield Edit(entry, new, f"{wanted.name} cannot be installed: {retired.why}")


def _tensorflow_1_edit(entry: Entry, name: str, python: tuple[int, int] | None, *, to_pip: bool = False) -> Edit:
    message = f"the scripts are written for TensorFlow 1, and {name} without a version is TensorFlow 2"
    also = TENSORFLOW_1_BESIDE.get(python, ()) if python else ()
    return Edit(entry, f"{name}=={TENSORFLOW_1}", message, to_pip=to_pip, also=also)


def _tensorflow_gpu(specifier: str, pin: tuple[int, ...], python: tuple[int, int] | None) -> str:
    """The line to write; empty for a pin that can still be had."""
    if specifier.startswith("==") and pin[:2] < TENSORFLOW_GPU_ENDED:
        return ""
    return TENSORFLOW_GPU.get(python, TENSORFLOW_TODAY) if python else TENSORFLOW_TODAY


def _tensorflow_python_edits(spec: Spec, python: tuple[int, int] | None) -> Iterator[Edit]:
    entry = _python_entry(spec)
    if entry is not None and python is not None and python > TENSORFLOW_1_PYTHONS[-1]:
        new = f"python={_text(TENSORFLOW_1_PYTHONS[0])}"
        yield Edit(entry, new, f"TensorFlow 1 has no wheel for Python {_text(python)}; it has for 3.6 and 3.7")


def _dead_addresses(entry: Entry, url: str) -> Iterator[Edit]:
    if re.match(AZURE_WHEELS, url, re.IGNORECASE):
        yield Edit(entry, "", "azuremldownloads no longer exists; Holdfast provides azureml.logging to every run")
    cntk = re.match(CNTK_WHEEL, url, re.IGNORECASE)
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
        yield Edit(entry, f"{name}=={version}", message)


def _cntk_python_edits(spec: Spec, python: tuple[int, int] | None) -> Iterator[Edit]:
    wants_cntk = any(re.match(r"cntk(-gpu)?(?![\w-])", entry.text) for entry in spec.pip)
    entry = _python_entry(spec)
    if wants_cntk and python and python > CNTK_NEWEST_PYTHON and entry is not None:
        message = f"CNTK has no wheel for Python {_text(python)}; the newest it supports is 3.6"
        yield Edit(entry, "python=3.6", message)


def _python_entry(spec: Spec) -> Entry | None:
    return next((entry for entry in spec.conda if matchspec.parse(entry.text).name == "python"), None)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
