"""Before an image is fetched: whether framework, CUDA of the image, driver and cards can work together."""

from __future__ import annotations

from holdfast import image_names
from holdfast.engine.submit import declaration
from holdfast.engine.submit.environment import refuse, target_facts, understood
from holdfast.environments import gpu_frameworks, sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Project
    from holdfast.target_lookup import Chosen


def needed_cuda(project: Project, chosen: Chosen, script: str, channel: RunnerChannel) -> tuple[int, int] | None:
    """The CUDA that the image must have for the declared framework, None for any.

    Raised is what no image can change: a driver or a card that the framework has no build for.
    """
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
