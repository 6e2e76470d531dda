"""Whether what is asked for will use the NVIDIA GPU that a target has, and which build of torch its driver can run."""

from __future__ import annotations

import re

from holdfast.amlconfig.types import Finding
from holdfast.environments import matchspec, requirement
from holdfast.environments.edits import Edit, applied
from holdfast.environments.spec import Entry
from holdfast.environments.versions import allows, release
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.environments.spec import Facts, Spec


class Build(Record):
    """A published build of torch: the cards it holds code for, and the minor versions of torch 2 there are of it."""

    oldest_card: tuple[int, int]
    newest_card: tuple[int, int]
    torches: range


# Newest first; the last ones are still published, so their ranges are open.
BUILDS: Mapping[str, Build] = {
    "cu130": Build((7, 5), (12, 1), range(9, 100)),
    "cu128": Build((7, 0), (12, 1), range(7, 100)),
    "cu126": Build((5, 0), (9, 0), range(6, 100)),
    "cu124": Build((5, 0), (9, 0), range(4, 7)),
    "cu121": Build((5, 0), (9, 0), range(1, 6)),
    "cu118": Build((3, 7), (9, 0), range(8)),
}
_TORCH = ("torch", "torchvision", "torchaudio")
# The index of PyTorch and its mirrors: one folder for every build.
_TORCH_INDEX = re.compile(r"(https?://[^\s?#]+/whl/)(cpu|cu\d+)/?")
_CUDA_TAG = re.compile(r"cu(\d+)(\d)")
# From here on a driver runs every minor version of the CUDA it was made for.
_MINOR_COMPATIBLE = 11


def advice(spec: Spec, facts: Facts) -> list[Finding]:
    """What would leave the GPU idle, or cannot run on it; nothing for a target without one."""
    return [edit.finding for edit in edits(spec, facts)]


def edits(spec: Spec, facts: Facts) -> list[Edit]:
    """The changes after which the GPU is used."""
    if not facts.cuda:
        return []
    found = [edit for entry in spec.pip for edit in _pip_edits(entry, facts)]
    found += [edit for entry in spec.conda for edit in _conda_edits(entry)]
    return found + list(_index_edits(spec, facts))


def fix(text: str, spec: Spec, facts: Facts) -> str:
    """``text`` of the file that ``spec`` was read from, changed so that the GPU is used."""
    return applied(text, (edit for edit in edits(spec, facts) if edit.entry.file == spec.source and edit.entry.line))


def flavoured(spec: Spec, facts: Facts) -> Spec:
    """``spec`` with the build of torch that suits the target, where its author left that open."""
    torches = _torches(spec)
    options = spec.pip_options
    addresses = (options.index_url, *options.extra_index_urls, *options.find_links)
    is_chosen = options.no_index or any(_TORCH_INDEX.match(address) for address in addresses)
    if not torches or is_chosen or any("+" in wanted.specifier or wanted.hashes for wanted in torches):
        return spec
    version = ",".join(wanted.specifier for wanted in torches if wanted.name == "torch" and wanted.specifier)
    return spec._replace(pip_options=options._replace(torch_backend=torch_backend(facts, version)))


def torch_backend(facts: Facts, version: str = "") -> str:
    """The build for a target: for the driver's own CUDA or an older one if there is any, and for every card.

    ``cpu`` where there is no GPU; empty where that is not known, or where no build suits.
    """
    if "__cuda" not in facts.virtual or not facts.platform.startswith("linux"):
        return ""
    if not facts.cuda:
        return "cpu"
    cards = [release(capability)[:2] for capability in facts.capabilities]
    suiting = [
        name
        for name, build in BUILDS.items()
        if _runs(name, facts)
        and all(build.oldest_card <= card <= build.newest_card for card in cards)
        and _has_version(build, version)
    ]
    return next((name for name in suiting if _cuda_of(name) <= release(facts.cuda)), "") or "".join(suiting[-1:])


def _pip_edits(entry: Entry, facts: Facts) -> Iterator[Edit]:
    if entry.text.startswith("./"):
        return
    wanted = requirement.parse(entry.text)
    local = wanted.specifier.partition("+")[2] or wanted.url.partition("%2B")[2] or wanted.url.partition("+")[2]
    if wanted.name in _TORCH and local.startswith("cpu"):
        new = f"{wanted.name}{wanted.specifier.partition('+')[0]}"
        yield Edit(entry, new, f"{wanted.name} is pinned to its CPU build, and this target has an NVIDIA GPU")
    elif wanted.name in _TORCH and _CUDA_TAG.match(local) and not _runs(local, facts):
        yield Edit(entry, f"{wanted.name}{wanted.specifier.partition('+')[0]}", _too_old(local, facts), "error")
    elif wanted.name == "tensorflow-cpu":
        new = f"tensorflow[and-cuda]{wanted.specifier}"
        yield Edit(entry, new, "tensorflow-cpu never uses a GPU, and this target has one")
    elif wanted.name == "cntk" and not wanted.url:
        new = f"cntk-gpu{wanted.specifier}"
        yield Edit(entry, new, "cntk never uses a GPU, and this target has one")
    elif wanted.name == "tensorflow" and wanted.specifier.startswith("==1."):
        new = f"tensorflow-gpu{wanted.specifier}"
        yield Edit(entry, new, "tensorflow 1 never uses a GPU, and this target has one")


def _conda_edits(entry: Entry) -> Iterator[Edit]:
    package = matchspec.parse(entry.text)
    if package.name == "cpuonly":
        yield Edit(entry, "", "cpuonly keeps pytorch from using the NVIDIA GPU of this target")
    elif package.name == "pytorch" and "cpu" in package.build:
        new = package._replace(build="").text
        yield Edit(entry, new, "pytorch is pinned to its CPU build, and this target has an NVIDIA GPU")
    elif package.name == "pytorch-cpu":
        new = package._replace(name="pytorch").text
        yield Edit(entry, new, "pytorch-cpu never uses a GPU, and this target has one")


def _index_edits(spec: Spec, facts: Facts) -> Iterator[Edit]:
    better = torch_backend(facts)
    for place in spec.option_lines:
        found = _TORCH_INDEX.search(place.raw)
        if not found or not better:
            continue
        new = place.raw.replace(found[0].rstrip("/"), f"{found[1]}{better}")
        if found[2] == "cpu":
            yield Edit(place, new, "these are the CPU builds of torch, and this target has an NVIDIA GPU")
        elif not _runs(found[2], facts):
            yield Edit(place, new, _too_old(found[2], facts), "error")


def _torches(spec: Spec) -> list[requirement.Requirement]:
    wanted = [requirement.parse(entry.text) for entry in spec.pip if not entry.text.startswith("./")]
    return [one for one in wanted if one.name in _TORCH and not one.url]


def _has_version(build: Build, version: str) -> bool:
    patches = range(4)
    return any(allows(version, f"2.{minor}.{patch}") for minor in build.torches for patch in patches)


def _runs(backend: str, facts: Facts) -> bool:
    """Whether the driver serves the CUDA that a build such as ``cu126`` was made with."""
    needed, have = _cuda_of(backend), release(facts.cuda)
    return have[:1] >= needed[:1] if needed[0] >= _MINOR_COMPATIBLE else have[:2] >= needed


def _cuda_of(backend: str) -> tuple[int, int]:
    found = _CUDA_TAG.match(backend)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _too_old(backend: str, facts: Facts) -> str:
    needed = ".".join(map(str, _cuda_of(backend)))
    driver = f"driver {facts.driver} of this target" if facts.driver else "driver of this target"
    return f"this build of torch needs CUDA {needed}; the {driver} serves CUDA {facts.cuda} and older"
