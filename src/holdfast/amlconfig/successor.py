"""The lower-case ``.runconfig`` of the product that followed in 2018, known by its key ``script``.

What says *what to run* is read; what describes that product's own machinery is kept in ``extra`` and named in one
warning.
"""

from __future__ import annotations

from holdfast.amlconfig.compute import docker_arguments, image
from holdfast.amlconfig.form import Form, raw
from holdfast.amlconfig.nodes import no_entries
from holdfast.amlconfig.runconfig import framework
from holdfast.amlconfig.types import ComputeTarget, RunConfig
from holdfast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.nodes import Mapping
    from holdfast.amlconfig.source import Source

_READ = ("script", "arguments", "target", "framework", "maxRunDurationSeconds", "environment", "prepareEnvironment")
_ENVIRONMENT = ("environmentVariables", "python", "docker", "spark")
_PYTHON = ("userManagedDependencies", "interpreterPath", "condaDependenciesFile")
_DOCKER = ("enabled", "baseImage", "sharedVolumes", "gpuSupport", "shmSize", "arguments", "baseImageRegistry")
_REGISTRY = ("address", "username", "password")


def read_successor(source: Source, root: Mapping, name: str) -> RunConfig:
    form = Form(source, root, (*_READ, *(key.text for key, _ in root.entries)))
    environment = Form(source, form.mapping("environment") or no_entries(), _ENVIRONMENT)
    python = Form(source, environment.mapping("python") or no_entries(), _PYTHON)
    ignored = [key for key in form.nodes if key not in _READ]
    if ignored:
        form.source.warn(*form.place("script"), f"the 2018 format: not used here: {', '.join(ignored)}")
    script = form.text("script")
    return RunConfig(
        name=name,
        target=form.text("target") or "local",
        framework=framework(form, "framework") or "Python",
        argument_vector=None if script is None else (script, *(form.texts("arguments") or ())),
        environment_variables=environment.text_map("environmentVariables"),
        conda_dependencies_file=python.path("condaDependenciesFile"),
        prepare_environment=form.flag("prepareEnvironment"),
        timeout=form.duration("maxRunDurationSeconds"),
        container=_container(environment, name),
        extra={key: raw(form.nodes[key]) for key in ignored},
    )


def in_container(target: ComputeTarget, config: RunConfig) -> ComputeTarget:
    """The target with what the run configuration says about containers; where both say something, the latter wins."""
    if config.container is None:
        return target
    settings = {name: value for name, value in config.container._asdict().items() if value is not None}
    for name in ("name", "type", "extra"):
        del settings[name]
    joined = target._replace(type=target.kind.container_kind or target.type, **settings)
    if not joined.base_docker_image and not joined.dockerfile:
        what = "docker is enabled, and neither this file nor its target names an image"
        hint = "write environment.docker.baseImage: name:tag"
        raise ConfigError(what, where=f"{config.name}.runconfig", hint=hint)
    return joined


def _container(environment: Form, name: str) -> ComputeTarget | None:
    docker = Form(environment.source, environment.mapping("docker") or no_entries(), _DOCKER)
    if not docker.flag("enabled"):
        return None
    return ComputeTarget(
        name=name,
        type="docker",
        base_docker_image=_qualified(image(docker, "baseImage"), _registry(docker)),
        shared_volumes=docker.flag("sharedVolumes"),
        nvidia_docker=docker.flag("gpuSupport"),
        shm_size=_docker_size(docker, "shmSize"),
        docker_arguments=docker_arguments(docker, "arguments"),
    )


def _registry(docker: Form) -> str:
    registry = Form(docker.source, docker.mapping("baseImageRegistry") or no_entries(), _REGISTRY)
    address = registry.text("address") or ""
    if not registry.absent("username") or not registry.absent("password"):
        message = "registry logins in files are not used; the engine's own login is"
        hint = f"on the target: docker login {address}, then delete username and password here"
        docker.warn("baseImageRegistry", message, hint)
    return address.rstrip("/")


def _qualified(name: str | None, registry: str) -> str | None:
    return f"{registry}/{name}" if name and registry and not name.startswith(f"{registry}/") else name


def _docker_size(docker: Form, name: str) -> int | None:
    """As docker reads it: here ``2g`` is two times 1024³ bytes."""
    from holdfast.quantities import parse_size

    text = docker.text(name)
    if text is None:
        return None
    return parse_size(f"{text}iB" if text[-1] in "kmgtKMGT" else text) or docker.size(name)
