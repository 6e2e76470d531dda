"""The plan of a run, parsed once: each key has its type, or the plan is refused with the name of the key.

A key that is missing or null has its default, since older clients do not send all of them; unknown keys are ignored and
kept. The keys are described in docs/formats.md.
"""

from . import untrusted
from .store import layout

MYPY = False
if MYPY:
    from typing import Any

_LARGEST = 16 * 1024 * 1024  # bytes of a plan.json; no larger one can be sent
_TYPES = ((bool, "a truth value"), (str, "text"), (int, "a number"), (float, "a number"), (list, "a list"))


class PlanError(ValueError):
    """A plan that cannot be followed; the text names the key and what was found there."""

    code = "bad-plan"


class Link:
    __slots__ = ("name", "target")

    def __init__(self, fields: "_Fields") -> "None":
        self.name = fields.text("name")
        self.target = fields.text("target")


class Data:
    """Data of a run: kept by content (``tree``), or a ``path`` of this machine in the ``state`` that was hashed.

    ``file``: the only file of the tree, where a file was named and not a folder. ``shared``: a folder of the machine.
    """

    __slots__ = ("file", "link", "name", "path", "shared", "state", "tree")

    def __init__(self, fields: "_Fields") -> "None":
        self.name = fields.text("name")
        self.tree = fields.text("tree", "")
        self.path = fields.text("path", "")
        self.link = fields.text("link", "")
        self.file = fields.text("file", "")
        self.state = fields.text("state", "")
        self.shared = fields.text("shared", "")


class Environment:
    """The environment that the script's interpreter belongs to."""

    __slots__ = ("key", "prefix", "source", "why")

    def __init__(self, fields: "_Fields") -> "None":
        self.key = fields.text("key")
        self.prefix = fields.text("prefix")
        self.source = fields.text("source", "")
        self.why = fields.text("why", "")


class Interpreter:
    """Why this Python runs the script; ``origin`` is a word of the client's."""

    __slots__ = ("origin", "why")

    def __init__(self, fields: "_Fields") -> "None":
        self.origin = fields.text("origin", "")
        self.why = fields.text("why", "")


class Keep:
    """Limits for files outside outputs/ that are kept as results, and ignore patterns for those that never are."""

    __slots__ = ("files", "ignore", "limit")

    def __init__(self, fields: "_Fields") -> "None":
        self.limit = fields.integer("limit", 2 * 1000**3)
        self.files = fields.integer("files", 5000)
        self.ignore = fields.texts("ignore")


class Idle:
    """What to do when nothing has run on the machine for some time."""

    __slots__ = ("command", "minutes")

    def __init__(self, fields: "_Fields") -> "None":
        self.command = fields.text("command")
        self.minutes = fields.number("minutes", 30)


class Container:
    """``program`` is the path of the engine's client, ``python`` that of the interpreter in the image."""

    __slots__ = (
        "arguments",
        "copied",
        "cpus",
        "digest",
        "engine",
        "gpu",
        "image",
        "image_id",
        "memory",
        "memory_text",
        "network",
        "program",
        "python",
        "shm",
        "user",
    )

    def __init__(self, fields: "_Fields") -> "None":
        self.engine = fields.text("engine")
        self.program = fields.text("program")
        self.image = fields.text("image", "")
        self.image_id = fields.text("image_id")
        self.digest = fields.optional_text("digest")
        self.python = fields.text("python")
        self.user = fields.text("user", "")
        self.network = fields.text("network", "")
        self.shm = fields.integer("shm", 0)
        self.memory = fields.integer("memory", 0)
        self.memory_text = fields.text("memory_text", "")
        self.cpus = fields.number("cpus", 0)
        self.arguments = fields.texts("arguments")
        self.gpu = fields.flag("gpu")
        self.copied = fields.flag("copied")


class GpuRequest:
    """``count`` is a number, "all", or None: GPUs are only watched. ``source`` is the JSON object it was read from."""

    __slots__ = (
        "count",
        "grace_s",
        "grace_text",
        "memory",
        "name",
        "require",
        "shared",
        "source",
        "wait_s",
        "wait_text",
    )

    def __init__(self, fields: "_Fields") -> "None":
        self.source = fields.source
        self.count = "all" if fields.source.get("count") == "all" else fields.optional_integer("count")
        self.memory = fields.number("memory", 0)
        self.name = fields.text("name", "")
        self.shared = fields.flag("shared")
        self.wait_s = fields.optional_number("wait_s")
        self.wait_text = fields.text("wait_text", "")
        self.require = fields.flag("require")
        self.grace_s = fields.number("grace_s", 600.0)
        self.grace_text = fields.text("grace_text", "")


class Plan:
    """All that a client decided about an attempt. ``source`` is the JSON object it was read from."""

    __slots__ = (
        "argv",
        "attempt",
        "capture",
        "container",
        "data",
        "env",
        "environment",
        "gpu",
        "grace",
        "idle",
        "interpreter",
        "keep",
        "keep_work",
        "links",
        "max_log",
        "project",
        "project_id",
        "python",
        "run_id",
        "run_number",
        "scalars",
        "script",
        "share",
        "shims",
        "source",
        "spark",
        "target",
        "timeout",
        "timeout_text",
        "tree",
        "uid",
        "v",
    )

    def __init__(self, source: "object") -> "None":
        fields = _Fields(source, "")
        self.source = fields.source
        self.v = fields.integer("v", 1)
        self.uid = fields.text("uid")
        self.run_id = fields.text("run_id")
        self.run_number = fields.optional_integer("run_number")
        self.attempt = fields.text("attempt", "a1")
        self.project = fields.text("project", "")
        self.project_id = fields.text("project_id", "")
        self.target = fields.text("target", "")
        self.script = fields.text("script", "")
        self.argv = fields.texts("argv", least=1)
        self.python = fields.text("python", "") or self.argv[0]
        self.tree = fields.text("tree")
        self.env = fields.texts("env")
        self.links = [Link(link) for link in fields.objects("links")]
        self.data = [Data(data) for data in fields.objects("data")]
        self.share = fields.text("share", "")
        self.shims = fields.text("shims", "")
        self.timeout = fields.optional_number("timeout")
        self.timeout_text = fields.text("timeout_text", "")
        self.grace = fields.number("grace", 30.0)
        self.max_log = fields.integer("max_log", 10 * 1000**3)
        self.keep_work = fields.flag("keep_work")
        self.keep = Keep(fields.optional_object("keep") or _Fields({}, "keep"))
        self.scalars = fields.flag("scalars")
        self.capture = fields.source.get("capture") is None or fields.flag("capture")
        environment, idle = fields.optional_object("environment"), fields.optional_object("idle")
        container, gpu = fields.optional_object("container"), fields.optional_object("gpu")
        interpreter = fields.optional_object("interpreter")
        self.interpreter = Interpreter(interpreter) if interpreter else None
        spark = fields.optional_object("spark")
        self.spark = spark.source if spark else None  # read by the script's own process
        self.environment = Environment(environment) if environment else None
        self.idle = Idle(idle) if idle else None
        self.container = Container(container) if container else None
        self.gpu = GpuRequest(gpu) if gpu else None


def read_plan(attempt: "bytes") -> "Plan | None":
    """The plan that an attempt was started with; None where there is none, or none that can be understood."""
    try:
        return Plan(untrusted.loads(untrusted.read_file(layout.plan(attempt), _LARGEST)))
    except (OSError, ValueError):
        return None


def container(source: "object") -> "Container":
    return Container(_Fields(source, "container"))


def gpu_request(source: "object") -> "GpuRequest":
    return GpuRequest(_Fields(source, "gpu"))


class _Fields:
    """The keys of one JSON object; ``name`` is the key that holds the object, empty for the plan itself."""

    def __init__(self, source: "object", name: "str") -> "None":
        if not isinstance(source, dict):
            raise PlanError("%s: an object is expected, found %s" % (name or "plan", _shown(source)))
        self.source = source  # type: dict[str, Any]
        self._name = name

    def text(self, key: "str", default: "str | None" = None) -> "str":
        value = self.optional_text(key)
        if value is None and default is None:
            raise self._refusal(key, "text")
        return default or "" if value is None else value

    def optional_text(self, key: "str") -> "str | None":
        value = self.source.get(key)
        if value is not None and not isinstance(value, str):
            raise self._refusal(key, "text")
        return value

    def number(self, key: "str", default: "float") -> "float":
        value = self.optional_number(key)
        return default if value is None else value

    def optional_number(self, key: "str") -> "float | None":
        value = self.source.get(key)
        if value is not None and not _is_number(value):
            raise self._refusal(key, "a number that is not negative")
        return value

    def integer(self, key: "str", default: "int") -> "int":
        value = self.optional_integer(key)
        return default if value is None else value

    def optional_integer(self, key: "str") -> "int | None":
        value = self.source.get(key)
        if value is not None and not (_is_number(value) and int(value) == value):
            raise self._refusal(key, "an integer that is not negative")
        return None if value is None else int(value)

    def flag(self, key: "str") -> "bool":
        value = self.source.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._refusal(key, "true or false")
        return bool(value)

    def texts(self, key: "str", least: "int" = 0) -> "list[str]":
        value = self._list(key, least)
        if not all(isinstance(item, str) for item in value):
            raise self._refusal(key, "a list of texts")
        return value

    def objects(self, key: "str") -> "list[_Fields]":
        return [_Fields(item, "%s[%d]" % (self._path(key), index)) for index, item in enumerate(self._list(key, 0))]

    def optional_object(self, key: "str") -> "_Fields | None":
        value = self.source.get(key)
        return None if value is None else _Fields(value, self._path(key))

    def _list(self, key: "str", least: "int") -> "list[Any]":
        value = self.source.get(key)
        items = [] if value is None else value
        if not isinstance(items, list) or len(items) < least:
            raise self._refusal(key, "a list that is not empty" if least else "a list")
        return items

    def _path(self, key: "str") -> "str":
        return "%s.%s" % (self._name, key) if self._name else key

    def _refusal(self, key: "str", expected: "str") -> "PlanError":
        return PlanError(
            "plan: %s: %s is expected, found %s" % (self._path(key), expected, _shown(self.source.get(key)))
        )


def _is_number(value: "object") -> "bool":
    """One that can be added to a clock: a float can hold it."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e300


def _shown(value: "object") -> "str":
    if value is None:
        return "nothing"
    kind = next((name for kind, name in _TYPES if isinstance(value, kind)), "an object")
    return "%s (%.60s)" % (kind, ascii(value))
