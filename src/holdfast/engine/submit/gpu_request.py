"""Combines the GPU options of command line and run configuration into one request, and names the CUDA it needs."""

from __future__ import annotations

import os

from holdfast.errors import ConfigError, HoldfastError, UsageError
from holdfast.model import GpuWish
from holdfast.planning import seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.amlconfig.types import RunConfig
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Project
    from holdfast.target_lookup import Chosen

VISIBLE = "CUDA_VISIBLE_DEVICES"
MOST_GPUS = 1024


def make_wish(
    config: RunConfig, file: str, *, gpus: str | None = None, require: bool = False, wait: str | None = None
) -> GpuWish:
    """The command line wins. A number there replaces the file's; the file's conditions on the GPUs stay."""
    requested = config.gpus
    count: int | str | None = requested.number if requested is not None else None
    if gpus is not None:
        count = _count(gpus)
    require = require or bool(config.require_gpu)
    if require and count == 0:
        raise _contradiction(
            "a run without GPUs cannot be required to use one",
            _place_of_count(gpus, file),
            "omit --require-gpu (requireGpu), or request a GPU",
            usage=gpus is not None,
        )
    return GpuWish(
        count=count,
        memory=requested.memory if requested is not None else None,
        name=requested.name if requested is not None else None,
        shared=requested.shared if requested is not None else False,
        wait_s=_wait(wait) if wait is not None else config.wait_for_gpu,
        require=require,
        grace_s=config.gpu_grace or GpuWish.grace_s,
    )


def check_typed(gpus: str | None, wait: str | None) -> None:
    """Refuse what no submit would accept."""
    if gpus:
        _count(gpus)
    if wait:
        _wait(wait)


def refuse_two_masters(wanted: GpuWish, places: Mapping[str, str], gpus: str | None, file: str) -> None:
    """A run that reserves GPUs gets their numbers from the reservation; its own CUDA_VISIBLE_DEVICES would contradict.

    ``places`` tells where each variable of the run was set.
    """
    origin = places.get(VISIBLE)
    if origin is None or not wanted.count:
        return
    if origin == file:
        from holdfast.amlconfig.check import key_place

        origin = key_place(file, "EnvironmentVariables", VISIBLE)
    claim = _place_of_count(gpus, file)
    raise _contradiction(
        f"the run requests GPUs ({claim}) and also sets {VISIBLE} ({origin}); use only one of the two",
        origin,
        f"remove {VISIBLE}: the run sees the GPUs reserved for it. Or remove the number: no GPU is reserved",
        usage=gpus is not None or origin.startswith("-"),
    )


def _count(text: str) -> int | str:
    if text.lower() == "all":
        return "all"
    if text.isascii() and text.isdigit() and len(text) < 5 and int(text) <= MOST_GPUS:
        return int(text)
    raise UsageError(f"--gpus {text}: not a number of GPUs", hint="write --gpus 1, or --gpus all")


def _wait(text: str) -> float:
    return 0.0 if text == "0" else seconds(text, "--wait-for-gpu")


def _place_of_count(gpus: str | None, file: str) -> str:
    if gpus is not None:
        return f"--gpus {gpus}"
    from holdfast.amlconfig.check import key_place

    return key_place(file, "gpus") if os.path.isfile(file) else file


def _contradiction(what: str, where: str, hint: str, *, usage: bool) -> HoldfastError:
    return (UsageError if usage else ConfigError)(what, where=where, hint=hint)


def needed_cuda(project: Project, chosen: Chosen, script: str, channel: RunnerChannel) -> tuple[int, int] | None:
    """Before an image is fetched: the CUDA that it must have for the declared framework, None for any.

    Raised is what no image can change: a driver or a card that the framework has no build for.
    """
    from holdfast import image_names
    from holdfast.engine.submit import declaration
    from holdfast.engine.submit.environment import refuse, target_facts, understood
    from holdfast.environments import sources
    from holdfast.environments.revival import gpu_frameworks

    compute = chosen.compute
    if not compute.nvidia_docker or compute.user_managed_environment:
        return None
    declared = sources.find(project.root, chosen.config, script)
    if declared is None:
        return None
    spec, _ = declaration.read_replaced(project.root, chosen, declared, script, None)
    if spec is None or not any(gpu_frameworks.build_of(entry) for entry in spec.pip):
        return None
    facts, _, _ = understood(target_facts(channel, chosen))
    cuda = gpu_frameworks.needed_cuda(spec)
    image = image_names.replaced(compute.base_docker_image or "", cuda)[0]
    refuse(list(gpu_frameworks.findings(spec, facts, image, needs_gpu=True)))
    return cuda
