"""The container that a run will be in: its engine and image, found or fetched on the target."""

from __future__ import annotations

import os

from holdfast import answers, image_names
from holdfast.environments.versions import release
from holdfast.errors import ConfigError, NoGpuError
from holdfast.model import Json
from holdfast.record import Record
from holdfast.runner import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Project
    from holdfast.store.home import Home


class Container(Record):
    """``facts`` are those of the machine as a program in the image finds it; ``build`` is for who builds in it."""

    image: str
    engine: Json
    found: Json
    facts: Json

    @property
    def python(self) -> str | None:
        path = self.found.get("python")
        return str(path) if path else None

    @property
    def build(self) -> Json:
        return {"program": self.engine["program"], "image_id": self.found["id"]}


def question(compute: ComputeTarget) -> Json:
    """What is asked of the target; where no Dockerfile is involved it is known before anything else."""
    name = image_names.replaced(compute.base_docker_image or "")[0]
    return {"engine": compute.engine, "image": name, "python": compute.python_location or "python"}


def settle(
    home: Home,
    project: Project,
    compute: ComputeTarget,
    channel: RunnerChannel,
    tell: Callable[[Json], None],
    *,
    needs_gpu: bool = False,
) -> Container:
    """Ask the target; it fetches or builds the image where it has none, and tells how far it is."""
    parameters = question(compute)
    if needs_gpu:
        parameters["gpu"] = True
    name = str(parameters["image"])
    if compute.dockerfile:
        tree = _send_recipe(home, project, compute.dockerfile, channel)
        name = f"holdfast-built:{tree[:32]}"
        file = os.path.basename(compute.dockerfile)
        parameters.update(image=name, build={"tree": tree, "file": file, "network": compute.network})
    for header, _ in channel.stream("image", **parameters):
        event = header.get("progress")
        if isinstance(event, dict):
            tell(event)
        if header.get("failed") is not None:
            raise _failure(compute, answers.table(header, "failed", compute.name))
        if header.get("end"):
            return _understood(name, header)
    raise answers.malformed("end", None, "there", compute.name)


def _failure(compute: ComputeTarget, failed: Json) -> ConfigError:
    what, answer, hint, fix = (answers.optional_text(failed, name) for name in ("what", "answer", "hint", "fix"))
    if fix:
        from holdfast.engine.submit.preflight import there_run

        hint = f"{there_run(compute, fix)}\n{hint}"
    kind = NoGpuError if failed.get("code") == NoGpuError.code else ConfigError
    return kind(what, where=f"{compute.name}.compute", answer=answer, hint=hint)


def refuse_newer_cuda(compute: ComputeTarget, image: str, driver_cuda: str) -> None:
    """A driver runs programs of its own CUDA, and from CUDA 11 on those of later minor versions."""
    wanted = image_names.cuda_of(image)
    if wanted is None or not driver_cuda or wanted[0] <= release(driver_cuda)[0]:
        return
    raise NoGpuError(
        f"the image {image} has CUDA {wanted[0]}.{wanted[1]}, and the driver of this target serves CUDA {driver_cuda}",
        where=f"{compute.name}.compute",
        hint="write a baseDockerImage with an older CUDA, or install a newer driver on the target",
    )


def plan_section(
    compute: ComputeTarget, image: str, engine: Json, details: Json, python: str, *, gpu: bool | None = None
) -> Json:
    """The container part of a plan. ``python`` is the path in the container; ``gpu``: the run requests one."""
    return {
        "engine": engine["name"],
        "program": engine["program"],
        "image": image,
        "image_id": details["id"],
        "digest": details["digest"],
        "python": python,
        "user": compute.container_user,
        "network": compute.network,
        "shm": compute.shm_size,
        "memory": compute.memory,
        "memory_text": _size_text(compute.memory) if compute.memory else "",
        "cpus": compute.cpus,
        "arguments": list(compute.docker_arguments or ()),
        "gpu": bool(compute.nvidia_docker) if gpu is None else gpu,
        "copied": compute.shared_volumes is False,
    }


def _size_text(size: int) -> str:
    """As a person would write it."""
    for unit, factor in (("GB", 1000**3), ("MB", 1000**2), ("KB", 1000)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} bytes"


def _send_recipe(home: Home, project: Project, dockerfile: str, channel: RunnerChannel) -> str:
    """The folder of a Dockerfile is what it is built from, as content: the same content is built once."""
    from holdfast.engine.submit.upload import Shipment
    from holdfast.snapshot import snapshot

    path = os.path.join(project.root, dockerfile)
    try:
        untrusted.inside(path, project.root)
    except untrusted.Untrusted as error:
        hint = "its folder is the build context; keep both in the project"
        raise ConfigError("the Dockerfile is not in the project", where=path, answer=str(error), hint=hint) from None
    if not os.path.isfile(path):
        raise ConfigError("no such Dockerfile", where=path, hint="dockerfile: must be a path in the project")
    tree = snapshot.scan(os.path.dirname(path), cache=None).store(home.objects).tree
    if channel.hello()["store"] != home.id:
        Shipment(home, channel, f"{project.id}-image", lambda _done, _total: None).send_missing(tree)
    return tree


def _understood(name: str, header: Json) -> Container:
    engine, details, facts = (answers.table(header, field) for field in ("engine", "image", "facts"))
    for field in ("name", "program"):
        answers.text(engine, field)
    answers.text(details, "id")
    for field in ("digest", "python"):
        answers.optional_text(details, field)
    return Container(name, engine, details, facts)
