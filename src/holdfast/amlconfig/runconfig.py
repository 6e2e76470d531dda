"""``.runconfig`` files: YAML of 2017, the JSON before it, and (by way of ``successor``) the lower-case form after."""

from __future__ import annotations

import os

from holdfast.amlconfig.form import Form, raw
from holdfast.amlconfig.source import Source
from holdfast.amlconfig.types import RunConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from holdfast.amlconfig.types import DataEntry, Finding, Raw

KEYS = (
    "ArgumentVector",
    "Target",
    "Framework",
    "PrepareEnvironment",
    "TrackedRun",
    "CondaDependenciesFile",
    "SparkDependenciesFile",
    "EnvironmentVariables",
    "UseSampling",
    "DataSourceSettings",
    "DataSourceSubstitutions",
    "Description",
    "CondaFile",
    "ManagedEnvironment",
    "links",
    "data",
    "timeout",
    "grace",
    "fetchOutputs",
    "maxLogSize",
    "gpus",
    "requireGpu",
    "gpuGrace",
    "waitForGpu",
    "scalars",
    "keepLimit",
    "keepFiles",
    "capture",
)
MAPS = ("EnvironmentVariables", "DataSourceSubstitutions")


def read_runconfig(path: str | os.PathLike[str], shown: str = "") -> tuple[RunConfig | None, list[Finding]]:
    """The run configuration in a file, or ``None`` exactly when a finding is an error."""
    path = os.fspath(path)
    source = Source(path, shown or path, KEYS, MAPS)
    if source.root is None:
        return None, source.findings
    name = os.path.splitext(os.path.basename(path))[0]
    if any(key.text == "script" for key, _ in source.root.entries):
        from holdfast.amlconfig.successor import read_successor

        config = read_successor(source, source.root, name)
    else:
        config = _config(Form(source, source.root, KEYS), name)
    return source.result(config)


def framework(form: Form, name: str) -> Literal["Python", "PySpark"] | None:
    """None where the file says nothing, which means PySpark, as in the original."""
    return form.choice(name, ("Python", "PySpark"))


def _config(form: Form, name: str) -> RunConfig:
    if form.absent("Target"):
        form.source.error(0, 0, "the key 'Target' is missing", f"add the line {form.line('Target', 'local')}")
    return RunConfig(
        name=name,
        target=form.text("Target"),
        framework=framework(form, "Framework"),
        argument_vector=form.texts("ArgumentVector"),
        environment_variables=_environment(form),
        conda_dependencies_file=form.path("CondaDependenciesFile") or form.path("CondaFile"),
        spark_dependencies_file=form.path("SparkDependenciesFile"),
        prepare_environment=form.flag("PrepareEnvironment"),
        tracked_run=form.flag("TrackedRun"),
        use_sampling=form.flag("UseSampling"),
        data_source_settings=_settings(form),
        data_source_substitutions=_substitutions(form),
        description=form.text("Description"),
        links=form.paths("links"),
        data=_data(form),
        timeout=form.duration("timeout"),
        grace=form.duration("grace"),
        fetch_outputs=form.choice("fetchOutputs", ("all", "small", "none")),
        max_log_size=form.size("maxLogSize"),
        gpus=form.gpus("gpus"),
        require_gpu=form.flag("requireGpu"),
        gpu_grace=form.duration("gpuGrace"),
        wait_for_gpu=form.duration("waitForGpu", or_none=True),
        scalars=form.flag("scalars"),
        keep_limit=form.size("keepLimit", or_zero=True),
        keep_files=form.number("keepFiles", 0, 10**8, 20000),
        capture=form.flag("capture"),
        extra=form.extra(),
    )


def _environment(form: Form) -> dict[str, str] | None:
    variables = form.text_map("EnvironmentVariables")
    for name in variables or ():
        if not name or "=" in name or "\0" in name:
            form.error("EnvironmentVariables", f"{name!r} cannot be the name of an environment variable")
    return variables


def _data(form: Form) -> tuple[DataEntry, ...] | None:
    if form.absent("data"):
        return None
    from holdfast.amlconfig.data_entries import read

    return read(form, "data")


def _substitutions(form: Form) -> dict[str, str] | None:
    """A run would go on with other data than the file says, so it is told."""
    pairs = form.text_map("DataSourceSubstitutions")
    for old, new in (pairs or {}).items():
        hint = f"load {new} in the script, or have the data flow refer to it"
        form.warn("DataSourceSubstitutions", f"not supported: {old} is loaded, and not {new}", hint)
    return pairs


def _settings(form: Form) -> dict[str, Raw] | None:
    node = form.mapping("DataSourceSettings")
    return None if node is None else {key.text: raw(value) for key, value in node.entries}
