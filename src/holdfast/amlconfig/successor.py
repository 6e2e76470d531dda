"""The lower-case ``.runconfig`` of the product that followed in 2018, known by its key ``script``.

What says *what to run* is read; what describes that product's own machinery is kept in ``extra`` and named in one
warning.
"""

from __future__ import annotations

from holdfast.amlconfig.form import Form, raw
from holdfast.amlconfig.nodes import Mapping, Scalar
from holdfast.amlconfig.runconfig import framework
from holdfast.amlconfig.types import RunConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.source import Source

_READ = ("script", "arguments", "target", "framework", "maxRunDurationSeconds", "environment", "prepareEnvironment")
_ENVIRONMENT = ("environmentVariables", "python", "docker", "spark")
_PYTHON = ("userManagedDependencies", "interpreterPath", "condaDependenciesFile")


def read_successor(source: Source, root: Mapping, name: str) -> RunConfig:
    form = Form(source, root, (*_READ, *(key.text for key, _ in root.entries)))
    environment = Form(source, form.mapping("environment") or Mapping(False, 0, 0), _ENVIRONMENT)
    python = Form(source, environment.mapping("python") or Mapping(False, 0, 0), _PYTHON)
    ignored = [key for key in form.nodes if key not in _READ]
    if ignored:
        form.source.warn(*form.place("script"), f"the 2018 format: not used here: {', '.join(ignored)}")
    _point_out_docker(environment)
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
        extra={key: raw(form.nodes[key]) for key in ignored},
    )


def _point_out_docker(environment: Form) -> None:
    docker = environment.mapping("docker")
    for key, value in docker.entries if docker else ():
        if key.text == "enabled" and isinstance(value, Scalar) and value.text.lower() == "true":
            hint = "make a .compute file with type: docker and baseDockerImage:, and name it as target"
            environment.source.warn(value.line, value.column, "docker settings are not read from here", hint)
