"""The main value types, all frozen: project, job, plan, identity, login."""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, object]


class Project(Record):
    """A folder with an identity. account and workspace are names of the original, kept for its share path.

    ``passed_over`` is a project folder further up that was not used: it is another user's, or the home directory.
    """

    root: str
    id: str
    name: str
    account: str = "local"
    workspace: str = "default"
    is_new: bool = False
    passed_over: str = ""


class Link(Record):
    """A folder shown inside the run's copy by a link instead of being copied."""

    name: str
    target: str


class Data(Record):
    """Data of a run that is no part of its snapshot: ``source`` is a folder or file of this machine.

    ``path_on_target``: it is there already. ``link``: where the script finds it, below its folder. ``tree``: the
    content that a recorded run used, which it must have again; ``file`` as in the plan.
    """

    name: str
    source: str = ""
    path_on_target: str = ""
    link: str = ""
    tree: str = ""
    file: str = ""


class Login(Record):
    """How a machine is reached. ``folder`` holds what we keep for it: its pinned key, a key of our own.

    ``asks``: it takes no key of ours, so that a person or their keyring is asked each time.
    """

    name: str
    folder: str
    address: str = ""
    user: str | None = None
    port: int | None = None
    host_key: str | None = None
    identity: str | None = None
    asks: bool = False
    patience: int = 10


class GpuWish(Record):
    """What was said about GPUs. ``count`` None: nothing; ``wait_s`` None: wait as long as it takes."""

    count: int | str | None = None
    memory: int | None = None
    name: str | None = None
    shared: bool = False
    wait_s: float | None = None
    require: bool = False
    grace_s: float = 600.0


class Job(Record):
    """What the user requested, with defaults of the run configuration applied.

    ``python``: the interpreter that runs the script as it is, where that is not the target's own. ``interpreter``: what
    the plan says about that choice. ``command``: the words before the arguments; empty for a Python script. ``source``:
    the file of the project that tells what the run does, empty if there is none; None: the script. ``files``: what the
    run's snapshot has and the project has not, by path. ``spark``: as in the plan.
    """

    script: str
    arguments: tuple[str, ...]
    config: str
    target: str
    env: Mapping[str, str]
    links: tuple[Link, ...] = ()
    timeout_s: float | None = None
    grace_s: float = 30.0
    max_log: int = 10 * 1000**3
    keep_work: bool = False
    on_end: str = ""
    fetch_outputs: str = "small"
    parent_run_id: str | None = None
    retries: int = 0
    gpu: GpuWish = GpuWish()
    reproduces: str | None = None
    scalars: bool = False
    keep: Json | None = None
    capture: bool = True
    python: str | None = None
    interpreter: Json | None = None
    command: tuple[str, ...] = ()
    source: str | None = None
    name: str | None = None
    tags: Mapping[str, object] = {}
    files: Mapping[str, bytes] | None = None
    data: tuple[Data, ...] = ()
    spark: Json | None = None

    @property
    def source_file(self) -> str:
        return self.script if self.source is None else self.source


class Identity(Record):
    """How one run is known: to the protocol, to people and old tools, and within its project."""

    uid: str
    run_id: str
    run_number: int


class Plan(Record):
    """All that is decided about an attempt: printed by --dry-run, sent to the target, kept in history."""

    uid: str
    run_id: str
    run_number: int
    attempt: str
    project: str
    project_id: str
    target: str
    script: str
    argv: tuple[str, ...]
    tree: str
    env: tuple[str, ...]
    links: tuple[Link, ...]
    share: str | None
    timeout: float | None
    timeout_text: str
    grace: float
    max_log: int
    keep_work: bool
    shims: str | None
    environment: Json | None = None
    idle: Json | None = None
    container: Json | None = None
    gpu: Json | None = None
    scalars: bool = False
    keep: Json | None = None
    capture: bool = True
    interpreter: Json | None = None
    python: str | None = None
    data: tuple[Json, ...] = ()
    spark: Json | None = None

    def to_json(self) -> Json:
        plain: Json = self._asdict()
        data, spark = plain.pop("data"), plain.pop("spark")
        plain.update({"data": list(data)} if data else {})  # type: ignore[call-overload]
        plain.update({"spark": spark} if spark else {})
        plain.update(v=1, argv=list(self.argv), env=list(self.env), links=[link._asdict() for link in self.links])
        return plain
