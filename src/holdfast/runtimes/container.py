"""A script run in a container: its command inside, and what is wished of the container around it.

The engine is found on the target, where the run's folders and the caller's ids are known too, so the engine's own words
are put together there, by a function as pure as this one (``runner/container.py``).
"""

from __future__ import annotations

from holdfast.runtimes.python import PythonRuntime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.model import Json


class ContainerRuntime(PythonRuntime):
    """Words that run within the image."""


def wish(compute: ComputeTarget, image: str, engine: Json, found: Json, python: str) -> Json:
    """What a plan says of its container. ``python`` is the interpreter, seen from within."""
    return {
        "engine": engine["name"],
        "program": engine["program"],
        "image": image,
        "image_id": found["id"],
        "digest": found["digest"],
        "python": python,
        "user": compute.container_user,
        "network": compute.network,
        "shm": compute.shm_size,
        "memory": compute.memory,
        "memory_text": size_text(compute.memory) if compute.memory else "",
        "cpus": compute.cpus,
        "arguments": list(compute.docker_arguments or ()),
        "gpu": bool(compute.nvidia_docker),
        "copied": compute.shared_volumes is False,
    }


def size_text(size: int) -> str:
    """As a person would write it."""
    for unit, factor in (("GB", 1000**3), ("MB", 1000**2), ("KB", 1000)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} bytes"
