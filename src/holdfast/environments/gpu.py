"""Checks whether the declared packages can use the target's NVIDIA GPU, and chooses the build of torch."""

from __future__ import annotations

import re
from functools import lru_cache

from holdfast.amlconfig.types import Finding
from holdfast.environments import matchspec, requirement
from holdfast.environments.edits import Edit
from holdfast.environments.revival import gpu_frameworks
from holdfast.environments.spec import Entry
from holdfast.environments.versions import allows, release
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.environments.spec import Facts, Spec


class Build(Record):
    """Builds of torch for one CUDA: the cards that they hold code for, and the minor versions of torch 2.

    Code for a card serves the later ones of its generation, so of the newest cards only the generation counts.
    """

    name: str
    oldest_card: tuple[int, int]
    newest_generation: int
    torches: range


# As PyTorch's release matrix and build scripts had it on 2026-11-15. Newest first; open ranges are still published.
_OPEN = 40
BUILDS: tuple[Build, ...] = (
    Build("cu132", (7, 5), _OPEN, range(12, _OPEN)),
    Build("cu130", (7, 5), _OPEN, range(9, _OPEN)),
    Build("cu128", (7, 5), 12, range(11, 12)),
    Build("cu128", (7, 0), 12, range(8, 11)),
    Build("cu128", (7, 5), _OPEN, range(7, 8)),
    Build("cu126", (5, 0), 9, range(6, 15)),
    Build("cu124", (5, 0), 9, range(4, 7)),
    Build("cu121", (5, 0), 9, range(1, 6)),
    Build("cu118", (3, 7), 9, range(8)),
)
# On Arm the same builds hold code for fewer cards, and older ones do not exist.
_ARM_OLDEST_CARD, _ARM_OLDEST_CUDA = (8, 0), (12, 6)
_TORCH = ("torch", "torchvision", "torchaudio")
# The index of PyTorch and its mirrors: one folder for every build.
_TORCH_INDEX = re.compile(r"(https?://[^\s?#]+/whl/)(cpu|cu\d+)/?")
_CUDA_TAG = re.compile(r"cu(\d{1,9})(\d)")
# From here on a driver runs every minor version of the CUDA it was made for.
_MINOR_COMPATIBLE = 11


def edits(spec: Spec, facts: Facts) -> list[Edit]:
    """The changes after which the GPU is used."""
    if not facts.cuda:
        return []
    changes = [edit for entry in spec.pip for edit in _pip_edits(entry, spec, facts)]
    changes += [edit for entry in spec.conda for edit in _conda_edits(entry)]
    return changes + list(_index_edits(spec, facts))


def unusable(spec: Spec, facts: Facts) -> list[Finding]:
    """Problems without a fix."""
    if not facts.cuda or not _leaves_open(spec) or not _minors(_torch_version(spec)) or _best(facts, ""):
        return []
    entry = next(entry for entry in spec.pip if _is_torch(entry))
    reason = _misfit(BUILDS[-1], facts)
    message = f"no build of torch 2 can use the GPU of this target: the oldest {reason}; the CPU build is used"
    return [Finding("warning", entry.file, entry.line, entry.column, message, "choose another target for long runs")]


def flavoured(spec: Spec, facts: Facts) -> Spec:
    """``spec`` with the build of torch that suits the target, where its author left that open."""
    if not _leaves_open(spec):
        return spec
    backend = torch_backend(facts, _torch_version(spec))
    return spec._replace(pip_options=spec.pip_options._replace(torch_backend=backend))


def torch_backend(facts: Facts, version: str = "") -> str:
    """The build for a target: of the newest torch that its driver and every card can run.

    ``cpu`` where there is no GPU that torch could use; empty where that is not known, and for versions of torch of
    which we know no builds.
    """
    if "__cuda" not in facts.virtual or not facts.platform.startswith("linux") or not _minors(version):
        return ""
    best = _best(facts, version) if facts.cuda else None
    return best.name if best else "cpu"


def _best(facts: Facts, version: str) -> Build | None:
    """A driver also runs newer minor versions of its CUDA; its own or an older one is the safer choice."""
    minors = _minors(version)
    suiting = [build for build in BUILDS if minors & set(build.torches) and not _misfit(build, facts)]

    def rank(build: Build) -> tuple[int, bool, int]:
        major, minor = _cuda_of(build.name)
        is_own = (major, minor) <= release(facts.cuda)
        number = major * 10 + minor
        return max(minors & set(build.torches)), is_own, number if is_own else -number

    return max(suiting, key=rank, default=None)


def _pip_edits(entry: Entry, spec: Spec, facts: Facts) -> Iterator[Edit]:
    if entry.text.startswith("./"):
        return
    wanted = requirement.parse(entry.text)
    if wanted.name in _TORCH:
        yield from _torch_edits(entry, wanted, spec, facts)
    elif wanted.name == "tensorflow-cpu":
        new = f"tensorflow[and-cuda]{wanted.specifier}"
        yield Edit(entry, new, "tensorflow-cpu never uses a GPU, and this target has one")
    elif wanted.name == "cntk" and not wanted.url and not gpu_frameworks.misfit(entry.text, facts):
        new = f"cntk-gpu{wanted.specifier}"
        yield Edit(entry, new, "cntk never uses a GPU, and this target has one")
    elif (
        wanted.name == "tensorflow"
        and wanted.specifier.startswith("==1.")
        and not gpu_frameworks.misfit(f"tensorflow-gpu{wanted.specifier}", facts)
    ):
        new = f"tensorflow-gpu{wanted.specifier}"
        yield Edit(entry, new, "tensorflow 1 never uses a GPU, and this target has one")


def _torch_edits(entry: Entry, wanted: requirement.Requirement, spec: Spec, facts: Facts) -> Iterator[Edit]:
    local = wanted.specifier.partition("+")[2] or wanted.url.partition("%2B")[2] or wanted.url.partition("+")[2]
    bare = wanted.specifier.partition("+")[0]
    version = bare if wanted.name == "torch" else ""
    is_served = bool(_best(facts, version)) or not _minors(version) or not _served(facts)
    new = f"{wanted.name}{bare}" if is_served else f"torch{_served(facts)}"
    tag = _CUDA_TAG.match(local)
    if local.startswith("cpu"):
        message = f"{wanted.name} is pinned to its CPU build, and this target has an NVIDIA GPU"
        if _best(facts, ""):
            yield Edit(entry, new, message)
    elif tag and (reason := _why_not(tag[0], version, facts)):
        yield Edit(entry, new, f"this build of torch {reason}", "error")
    elif wanted.name == "torch" and _leaves_open(spec) and not is_served:
        reason = _misfit([build for build in BUILDS if _minors(version) & set(build.torches)][-1], facts)
        yield Edit(entry, new, f"every build of {wanted.text} {reason}", "error")


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
    version = _torch_version(spec)
    better = _best(facts, version)
    for line in spec.option_lines:
        match = _TORCH_INDEX.search(line.raw)
        if not match or not better:
            continue
        new = line.raw.replace(match[0].rstrip("/"), f"{match[1]}{better.name}")
        if match[2] == "cpu":
            yield Edit(line, new, "these are the CPU builds of torch, and this target has an NVIDIA GPU")
        elif reason := _why_not(match[2], version, facts):
            yield Edit(line, new, f"this build of torch {reason}", "error")


def _leaves_open(spec: Spec) -> bool:
    """Whether torch is required without a particular build."""
    options = spec.pip_options
    addresses = (options.index_url, *options.extra_index_urls, *options.find_links)
    if options.no_index or any(_TORCH_INDEX.match(address) for address in addresses):
        return False
    wanted = _torches(spec)
    return bool(wanted) and not any("+" in torch.specifier or torch.hashes for torch in wanted)


def _torch_version(spec: Spec) -> str:
    wanted = (torch.specifier.partition("+")[0] for torch in _torches(spec) if torch.name == "torch")
    return ",".join(filter(None, wanted))


def _torches(spec: Spec) -> list[requirement.Requirement]:
    wanted = [requirement.parse(entry.text) for entry in spec.pip if _is_torch(entry)]
    return [torch for torch in wanted if not torch.url]


def _is_torch(entry: Entry) -> bool:
    return not entry.text.startswith("./") and requirement.parse(entry.text).name in _TORCH


@lru_cache
def _minors(version: str) -> frozenset[int]:
    """The minor versions of torch 2 that a constraint leaves, of those we know builds of."""
    known = {minor for build in BUILDS for minor in build.torches}
    return frozenset(minor for minor in known if any(allows(version, f"2.{minor}.{patch}") for patch in range(4)))


def _served(facts: Facts) -> str:
    """The constraint that leaves every torch 2 which the target can run with its GPU."""
    served = {minor for build in BUILDS if not _misfit(build, facts) for minor in build.torches}
    clauses = [f">=2.{min(served)}"] if served and min(served) > 0 else []
    clauses += [f"<2.{max(served) + 1}"] if served and max(served) + 1 < _OPEN else []
    return ",".join(clauses)


def _why_not(name: str, version: str, facts: Facts) -> str:
    """Why no build of that name, such as ``cu126``, runs on the target; empty if one does, or as far as we know."""
    if not _runs(name, facts):
        return _too_old(name, facts)
    reasons = [
        _misfit(build, facts) for build in BUILDS if build.name == name and _minors(version) & set(build.torches)
    ]
    return reasons[0] if reasons and all(reasons) else ""


def _misfit(build: Build, facts: Facts) -> str:
    """Why the target cannot run it; empty if it can. Cards that we know nothing of are no obstacle."""
    oldest = build.oldest_card
    if facts.platform == "linux-aarch64":
        if _cuda_of(build.name) < _ARM_OLDEST_CUDA:
            return "is not available for Arm"
        oldest = max(oldest, _ARM_OLDEST_CARD)
    if not _runs(build.name, facts):
        return _too_old(build.name, facts)
    for capability in facts.capabilities:
        card = release(capability)[:2]
        if card < oldest or card[0] > build.newest_generation:
            return f"does not support a GPU of this target, which has compute capability {capability}"
    return ""


def _runs(name: str, facts: Facts) -> bool:
    """Whether the driver serves the CUDA that a build such as ``cu126`` was made with."""
    needed, have = _cuda_of(name), release(facts.cuda)
    return have[:1] >= needed[:1] if needed[0] >= _MINOR_COMPATIBLE else have[:2] >= needed


def _cuda_of(name: str) -> tuple[int, int]:
    match = _CUDA_TAG.match(name)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _too_old(name: str, facts: Facts) -> str:
    needed = ".".join(map(str, _cuda_of(name)))
    driver = f"driver {facts.driver} of this target" if facts.driver else "driver of this target"
    return f"needs CUDA {needed}; the {driver} supports CUDA {facts.cuda} and older"
