"""The kinds of target: one typed row for each ``type`` of a ``.compute`` file, and the only place that knows them.

A row names a host, a launcher and a runtime, and says what else differs between kinds. Other modules ask the row
(``compute.kind.in_container``), never the type. To add a kind, write one row here; code outside this package calls
``register`` with a row before it calls ``holdfast.cli.main``.
"""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(Record):
    """``host``, ``launcher`` and ``runtime`` are classes, written ``package.module:Class`` and imported on first use.

    ``name``: the ``type`` in a ``.compute`` file, in lower case.
    ``is_remote``: it is reached at an ``address``, which its file must have. The other kinds are this machine: the
    runner is started by our own interpreter, and its store may be the client's own.
    ``over_ssh``: it is reached by SSH, so that host key and login can be checked and ``attach`` can make its files.
    ``in_container``: scripts run in a container of an image that its file must name.
    ``container_kind``: the kind that this one becomes where a run configuration asks for a container.
    ``url_kind``: the kind that this one becomes where its address is a URL: it is then a service, used from here.
    ``machine_kind``: the kind by which the bare machine is reached, whatever runs on it; empty: this one.
    ``attach_settings``: what ``attach`` writes into a new file; None where ``attach`` does not make this kind.
    ``framework``: that of a new run configuration, where it is not Python.
    ``settings``: further keys of its ``.compute`` file, for its launcher and runtime. Their values are text, are
    confirmed by the user where they come with a project, and are kept with a run.
    """

    name: str
    host: str = ""
    launcher: str = ""
    runtime: str = ""
    is_remote: bool = False
    over_ssh: bool = False
    in_container: bool = False
    container_kind: str = ""
    url_kind: str = ""
    machine_kind: str = ""
    attach_settings: tuple[tuple[str, str | bool], ...] | None = None
    framework: str = ""
    settings: tuple[str, ...] = ()

    @property
    def is_available(self) -> bool:
        """Whether this version can run something there; a row without a host is a name that is kept for later."""
        return bool(self.host)


LOCAL_HOST, SSH_HOST = "holdfast.hosts.local:LocalHost", "holdfast.hosts.ssh:SshHost"
PROCESS = "holdfast.launchers.process:ProcessLauncher"
PYTHON, CONTAINER = "holdfast.runtimes.python:PythonRuntime", "holdfast.runtimes.container:ContainerRuntime"
SPARK = "holdfast.runtimes.spark:SparkRuntime"
DEFAULT = "local"  # the target that needs no file
DEFAULT_ATTACHED = "remotedocker"
DEFAULT_MACHINE = "remote"

_ROWS = (
    Kind("local", LOCAL_HOST, PROCESS, PYTHON, container_kind="docker"),
    Kind("docker", LOCAL_HOST, PROCESS, CONTAINER, in_container=True),
    Kind("localdocker", LOCAL_HOST, PROCESS, CONTAINER, in_container=True),
    Kind(
        "remote",
        SSH_HOST,
        PROCESS,
        PYTHON,
        is_remote=True,
        over_ssh=True,
        container_kind="remotedocker",
        attach_settings=(("environment", "project"),),
    ),
    Kind(
        "remotedocker",
        SSH_HOST,
        PROCESS,
        CONTAINER,
        is_remote=True,
        over_ssh=True,
        in_container=True,
        machine_kind="remote",
        attach_settings=(
            ("environment", "project"),
            ("nativeSharedDirectory", "~/.azureml/share/"),
            ("sharedVolumes", True),
        ),
    ),
    Kind(
        "virtualmachine",
        SSH_HOST,
        PROCESS,
        CONTAINER,
        is_remote=True,
        over_ssh=True,
        in_container=True,
        machine_kind="remote",
    ),
    Kind(
        "cluster",
        SSH_HOST,
        PROCESS,
        SPARK,
        is_remote=True,
        over_ssh=True,
        url_kind="spark",
        machine_kind="remote",
        attach_settings=(("environment", "project"), ("yarnDeployMode", "client")),
        framework="PySpark",
        settings=("sparkMaster",),
    ),
    Kind("spark", LOCAL_HOST, PROCESS, PYTHON, framework="PySpark", attach_settings=(("environment", "project"),)),
    Kind("slurm", over_ssh=True, machine_kind="remote"),
    Kind("ray", over_ssh=True, machine_kind="remote"),
)
_TABLE = {kind.name: kind for kind in _ROWS}


def register(kind: Kind) -> Kind | None:
    """Add a row, or replace the one of that name, for this process; returns the row that it replaced."""
    before = _TABLE.get(kind.name)
    _TABLE[kind.name] = kind
    return before


def of(name: str) -> Kind:
    """The row of a type; one without a host where there is none of that name."""
    return _TABLE.get(name) or Kind(name)


def is_known(name: str) -> bool:
    return name in _TABLE


def names() -> list[str]:
    return list(_TABLE)


def available() -> list[str]:
    return _names(kind for kind in _TABLE.values() if kind.is_available)


def attachable() -> list[str]:
    """Those that ``attach`` makes, its default first; kinds of a URL have no name of their own there."""
    of_urls = {kind.url_kind for kind in _TABLE.values()}
    result = _names(kind for kind in _TABLE.values() if kind.attach_settings is not None and kind.name not in of_urls)
    return sorted(result, key=lambda name: name != DEFAULT_ATTACHED)


def _names(kinds: Iterable[Kind]) -> list[str]:
    return [kind.name for kind in kinds]
