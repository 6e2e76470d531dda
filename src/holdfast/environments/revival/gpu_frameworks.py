"""Checks TensorFlow and CNTK, the CUDA of the base image, the driver and the cards together, before a download."""

from __future__ import annotations

from holdfast import image_names
from holdfast.amlconfig.types import Finding
from holdfast.environments import matchspec, requirement
from holdfast.environments.versions import release
from holdfast.withdrawn import GPU_BUILDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.environments.spec import Entry, Facts, Spec
    from holdfast.withdrawn import GpuBuild

_GPU_NAMES = {"tensorflow-gpu": "tensorflow", "cntk-gpu": "cntk"}
# From here on a driver runs every minor version of the CUDA it was made for.
_MINOR_COMPATIBLE = 11
_ONE_PACKAGE = (2, 1)  # from here on tensorflow has the GPU build in it


def findings(spec: Spec, facts: Facts, image: str = "", *, needs_gpu: bool) -> Iterator[Finding]:
    """What cannot work together; an error if the run is to have a GPU (``needs_gpu``), otherwise a warning.

    ``image`` is the base image that will be used.
    """
    for entry in (*spec.pip, *spec.conda):
        build = build_of(entry, conda=entry in spec.conda)
        if build is None:
            continue
        reason = _reason(build, facts)
        if reason:
            yield _no_combination(entry, build, reason, "error" if needs_gpu else "warning")
        elif needs_gpu and (text := _image_mismatch(build, image)):
            yield Finding("warning", entry.file, entry.line, entry.column, *text)


def needed_cuda(spec: Spec) -> tuple[int, int] | None:
    """The CUDA that the base image must have for the spec's framework; None where any will do."""
    builds = [build_of(entry, conda=entry in spec.conda) for entry in (*spec.pip, *spec.conda)]
    return next((build.cuda for build in builds if build is not None and not build.bundled), None)


def misfit(text: str, facts: Facts) -> str:
    """Why the target's cards cannot be used by a pip requirement; empty if they can or nothing is known."""
    wanted = requirement.parse(text)
    build = _build(_GPU_NAMES.get(wanted.name, wanted.name), wanted.specifier)
    return _reason(build, facts) if build is not None else ""


def build_of(entry: Entry, *, conda: bool = False) -> GpuBuild | None:
    """The GPU build that an entry asks for by name and version."""
    if conda:
        package = matchspec.parse(entry.text)
        name, version = package.name, package.version
    elif entry.text.startswith("./"):
        return None
    else:
        wanted = requirement.parse(entry.text)
        name, version = wanted.name, wanted.specifier
    if name == "tensorflow" and release(version.lstrip("=")) < _ONE_PACKAGE:
        return None
    return _build(_GPU_NAMES.get(name, name), version)


def _build(name: str, version: str) -> GpuBuild | None:
    numbers = release(version.lstrip("=")) if version.startswith("=") else ()
    suiting = (build for build in GPU_BUILDS if build.name == name and numbers[:2] <= build.until)
    return next(suiting, None) if numbers else None


def _reason(build: GpuBuild, facts: Facts) -> str:
    """Why no card of the target can be used; empty where there is none, or nothing is known about it."""
    if not facts.cuda:
        return ""
    have = release(facts.cuda)[:2]
    is_served = have[:1] >= build.cuda[:1] if build.cuda[0] >= _MINOR_COMPATIBLE else have >= build.cuda
    if not is_served:
        return f"needs CUDA {_text(build.cuda)}, and the driver of this target serves CUDA {facts.cuda} and older"
    cards = [release(capability)[:2] for capability in facts.capabilities]
    if cards and not any(card >= build.oldest_card and card[0] <= build.newest_generation for card in cards):
        shown = ", ".join(sorted(set(facts.capabilities)))
        return (
            f"was built with CUDA {_text(build.cuda)} for cards of compute capability {_text(build.oldest_card)} to "
            f"{build.newest_generation}.x; the GPU of this target has {shown}"
        )
    return ""


def _no_combination(entry: Entry, build: GpuBuild, reason: str, severity: str) -> Finding:
    text = entry.raw if entry.raw in entry.text else entry.text
    message = f"{text} cannot use the GPU: it {reason}. No other build exists for it"
    processor = entry.text.replace(f"{build.name}-gpu", build.name) if "-gpu" in entry.text else entry.text
    hint = (
        f"to run on the processor: write {processor}, and nvidiaDocker: false in the .compute file\n"
        f"or choose a target with an older GPU, or port the script to a newer framework"
    )
    return Finding("error" if severity == "error" else "warning", entry.file, entry.line, entry.column, message, hint)


def _image_mismatch(build: GpuBuild, image: str) -> tuple[str, str] | None:
    has = image_names.cuda_of(image)
    if build.bundled or has is None or has == build.cuda or (has[0] == build.cuda[0] >= _MINOR_COMPATIBLE):
        return None
    better = image_names.for_cuda(build.cuda)
    message = f"this version needs CUDA {_text(build.cuda)} and the base image {image} has CUDA {_text(has)}"
    return f"{message}; the script would run on the processor", f"write baseDockerImage: {better} in the .compute file"


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
