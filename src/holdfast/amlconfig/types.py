"""The content of ``aml_config`` files as frozen values.

A field is ``None`` where its key is absent or null: the caller chooses the default, because defaults differ by target.
``extra`` holds unknown keys, with every scalar as the text in the file.
"""

from __future__ import annotations

from holdfast import kinds
from holdfast.record import Record
from holdfast.runner import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, TypeAlias

    from holdfast.kinds import Kind

    Raw: TypeAlias = "str | list[Raw] | dict[str, Raw] | None"
    Severity: TypeAlias = Literal["error", "warning"]


class Finding(Record):
    """Something a person should know about a file. Line and column count from 1; 0 means the file as a whole."""

    severity: Severity
    file: str
    line: int
    column: int
    message: str
    hint: str = ""


class GpuRequest(Record):
    """``gpus: 2``, ``gpus: all`` or ``gpus: {count: 1, memory: 24GB, name: A100, shared: true}``; memory in bytes."""

    number: int | Literal["all"]
    memory: int | None = None
    name: str | None = None
    shared: bool = False


class DataEntry(Record):
    """A row of ``data``: a folder or file of this machine as written, or one that the target has already."""

    name: str
    path: str = ""
    path_on_target: str = ""


class ComputeTarget(Record):
    """A ``.compute`` file; its name is the file's stem. Sizes are in bytes, ``dockerfile`` is a path in the project.

    ``environment`` is ``project``, ``active`` or a path, and decides ``user_managed_environment`` too.
    There is no password: what the original wrote there is a handle of a key store that is gone.
    """

    name: str
    type: str
    python_location: str | None = None
    spark_submit_location: str | None = None
    native_shared_directory: str | None = None
    base_docker_image: str | None = None
    shared_volumes: bool | None = None
    nvidia_docker: bool | None = None
    address: str | None = None
    username: str | None = None
    user_managed_environment: bool | None = None
    environment: str | None = None
    yarn_deploy_mode: Literal["cluster", "client"] | None = None
    root: str | None = None
    port: int | None = None
    engine: Literal["docker", "podman"] | None = None
    dockerfile: str | None = None
    container_user: str | None = None
    shm_size: int | None = None
    memory: int | None = None
    cpus: float | None = None
    network: str | None = None
    docker_arguments: tuple[str, ...] | None = None
    gpus: GpuRequest | None = None
    host_key: str | None = None
    private_key_file: str | None = None
    start_command: str | None = None
    stop_command: str | None = None
    stop_on_target: str | None = None
    stop_when_idle_minutes: float | None = None
    price_per_hour: float | None = None
    shared_data: str | None = None
    extra: Mapping[str, Raw] = {}

    @property
    def own_settings(self) -> dict[str, Raw]:
        """The values of the keys that only its kind knows."""
        return {name: self.extra[name] for name in self.kind.settings if self.extra.get(name) is not None}

    def to_settings(self) -> dict[str, object]:
        """All values, for a launcher or runtime; those that only its kind knows under their names in the file."""
        return {**self._asdict(), **self.own_settings}

    @property
    def own_environment(self) -> str | None:
        """The path that ``environment`` names: an interpreter, or the folder of an environment."""
        return None if self.environment in ("project", "active") else self.environment

    @property
    def script_python(self) -> str | None:
        """The interpreter that runs scripts where no environment is built, on another machine judged by its name."""
        path = self.own_environment
        if path is None:
            return self.python_location
        name = path.rpartition("/")[2]
        return path if name.startswith(("python", "pypy")) else f"{path.rstrip('/')}/bin/python"

    @property
    def kind(self) -> Kind:
        """The row of its type, which answers every question about what it is."""
        kind = kinds.of(self.type)
        return kinds.of(kind.url_kind) if kind.url_kind and "://" in (self.address or "") else kind


class RunConfig(Record):
    """A ``.runconfig`` file of any generation; its name is the file's stem.

    Times are in seconds, sizes in bytes, paths relative to the project with ``/``. ``container`` is what the form of
    2018 says about containers, which a ``.compute`` file says otherwise; ``successor.in_container`` joins them.
    """

    name: str
    target: str | None = None
    framework: Literal["Python", "PySpark"] | None = None
    argument_vector: tuple[str, ...] | None = None
    environment_variables: Mapping[str, str] | None = None
    conda_dependencies_file: str | None = None
    spark_dependencies_file: str | None = None
    prepare_environment: bool | None = None
    tracked_run: bool | None = None
    use_sampling: bool | None = None
    data_source_settings: Mapping[str, Raw] | None = None
    data_source_substitutions: Mapping[str, str] | None = None
    description: str | None = None
    links: tuple[str, ...] | None = None
    data: tuple[DataEntry, ...] | None = None
    timeout: float | None = None
    grace: float | None = None
    fetch_outputs: Literal["all", "small", "none"] | None = None
    max_log_size: int | None = None
    scalars: bool | None = None
    keep_limit: int | None = None
    keep_files: int | None = None
    capture: bool | None = None
    gpus: GpuRequest | None = None
    require_gpu: bool | None = None
    gpu_grace: float | None = None
    wait_for_gpu: float | None = None
    container: ComputeTarget | None = None
    extra: Mapping[str, Raw] = {}


class Item(Record):
    """One line of a list, with its place in the file."""

    text: str
    line: int
    column: int


# The image of a container for which none was chosen; attach writes it too.
DEFAULT_IMAGE = "python:3.12-slim"
# Targets that need no file: this machine, and a container on it.
BUILT_IN: Mapping[str, ComputeTarget] = {
    kinds.DEFAULT: ComputeTarget(name=kinds.DEFAULT, type=kinds.DEFAULT),
    "docker": ComputeTarget(name="docker", type="docker", base_docker_image=DEFAULT_IMAGE),
    "podman": ComputeTarget(name="podman", type="docker", engine="podman", base_docker_image=DEFAULT_IMAGE),
}


class CondaDependencies(Record):
    """``conda_dependencies.yml``. ``pip`` is ``None`` without a ``pip:`` list."""

    name: str | None = None
    channels: tuple[Item, ...] = ()
    dependencies: tuple[Item, ...] = ()
    pip: tuple[Item, ...] | None = None
    extra: Mapping[str, Raw] = {}


class SparkPackage(Record):
    """A Maven coordinate."""

    group: str
    artifact: str
    version: str

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


class SparkDependencies(Record):
    """``spark_dependencies.yml``. ``lines``: of each key of the configuration and of each package."""

    configuration: Mapping[str, str] = {}
    repositories: tuple[str, ...] = ()
    packages: tuple[SparkPackage, ...] = ()
    extra: Mapping[str, Raw] = {}
    lines: Mapping[str, int] = {}


def split_address(address: str, port: int | None) -> tuple[str, int | None]:
    """``host``, ``host:2222``, ``[::1]`` and ``[::1]:2222``; a bare IPv6 address has no port."""
    host, colon, digits = address.rpartition(":")
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        if not rest:
            return host, port
        given = untrusted.whole_number(rest[1:]) if rest[0] == ":" else None
    else:
        given = untrusted.whole_number(digits) if colon and ":" not in host else None
    return (address, port) if given is None else (host, given)
