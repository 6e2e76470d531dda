"""Records what a script gives to a wandb run: config, logged values, summary, tags, files and artifacts."""

import functools
import inspect
import os
import sys

from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OWN = "_"  # how wandb's own keys begin
# Not WANDB_SERVICE: wandb sets it at its first run, also for the processes that the script starts.
_LOGIN = {"WANDB_API_KEY", "WANDB_MODE", "WANDB_DISABLED", "WANDB_IDENTITY_TOKEN_FILE"}
_DECISIVE = {"mode", "api_key", "base_url", "identity_token_file"}  # settings that say where values are sent
_recorder = Recorder("wandb")
_summaries = set()  # type: set[str]
_sessions = set()  # type: set[int] # processes in which wandb.login() answered True
# Kept in the run itself: its properties are slow, and its attributes cannot be set.
_PREFIX, _STEP = "_holdfast_prefix", "_holdfast_step"


def install(module: "Any") -> "None":
    if module.__name__ == "wandb.sdk.wandb_init":
        _recorder.after(module, "init", _init)
        module.init = _offline_without_login(module.init)
        return
    if module.__name__ == "wandb.sdk.wandb_login":
        module.login = _no_question(module.login)
        return
    run = module.Run
    _recorder.after(run, "log", _log)
    _recorder.after(run, "_config_callback", _config)
    _recorder.after(run, "_summary_update_callback", _summary)
    _recorder.after(run, "_log_artifact", _log_artifact)
    _recorder.after(run, "save", _save)


def _offline_without_login(original: "Any") -> "Any":
    """Without a login ``init`` would ask for one and fail, since a run has no terminal."""
    names = list(inspect.signature(original).parameters)

    @functools.wraps(original)
    def init(*args: "Any", **kwargs: "Any") -> "Any":
        given = dict(zip(names, args), **kwargs)  # noqa: B905 - Python 3.6 has no strict
        if _recorder.works and "mode" not in names[: len(args)] and not _is_configured(given):
            kwargs["mode"] = "offline"
            _say_offline()
        return original(*args, **kwargs)

    return init


def _no_question(original: "Any") -> "Any":
    """Without a login ``login`` would ask for one and fail. It answers False, as it does in wandb's offline mode."""

    @functools.wraps(original)
    def login(*args: "Any", **kwargs: "Any") -> "Any":
        if _recorder.works and not args and not kwargs.get("key") and not _is_configured(kwargs):
            _say_offline()
            return False
        result = original(*args, **kwargs)
        if result:
            _sessions.add(os.getpid())
        return result

    return login


def _say_offline() -> "None":
    _recorder.mention("login", "there is no login in this run, so wandb works offline")


def _is_configured(arguments: "dict[str, Any]") -> "bool":
    """Whether the script, the environment or a login on this machine says where wandb sends its values."""
    if arguments.get("mode") or arguments.get("host") or not _LOGIN.isdisjoint(os.environ) or _sessions:
        return True
    given = arguments.get("settings") or {}
    if not isinstance(given, dict):
        given = getattr(given, "model_fields_set", _DECISIVE)  # of an older version: it decides itself
    if not _DECISIVE.isdisjoint(given):
        return True
    try:
        settings = sys.modules["wandb"].setup().settings
        return settings.mode != "online" or bool(settings.api_key) or _has_login(settings.base_url)
    except Exception:
        return True  # a version that keeps this elsewhere: it decides itself


def _has_login(url: "str") -> "bool":
    """Whether a netrc file has a login for the server, as ``wandb login`` writes it."""
    import netrc
    from urllib.parse import urlsplit

    given = os.environ.get("NETRC")
    paths = [given] if given else [os.path.expanduser(name) for name in ("~/.netrc", "~/_netrc")]
    host = urlsplit(url).netloc
    return any(os.path.exists(path) and bool(netrc.netrc(path).authenticators(host)) for path in paths)


def _init(result: "Any", *args: "Any", **kwargs: "Any") -> "None":
    prefix = _prefix(result)
    if not prefix:
        _recorder.tag("wandb.run_id", result.id)
    _parameters(prefix, result.config)
    for tag in result.tags or ():
        _recorder.tag(prefix + str(tag), True)


def _log(_: "Any", run: "Any", data: "Any", step: "Any" = None, commit: "Any" = None, *args: "Any") -> "None":
    own = run.__dict__
    following = own.get(_STEP)
    if following is None:
        following = int(getattr(run, "starting_step", 0) or 0)
    current = following if step is None else step
    if current < following:
        return  # wandb ignores these values and says so
    following = current
    own[_STEP] = following + 1 if commit or (step is None and commit is None) else following
    points = []  # type: list[tuple[str, object]]
    _collect(_prefix(run), data, current, points)
    if points:
        _recorder.values(points, current)


def _collect(prefix: "str", data: "Any", step: "int", points: "list[tuple[str, object]]") -> "None":
    """The plain values of a dictionary, also of inner ones; others are recorded at once."""
    for name, value in data.items():
        kind = value.__class__
        if kind is float:
            points.append((prefix + name, value))
        elif kind is int or kind is bool or kind is str:
            if not name.startswith(_OWN):
                points.append((prefix + name, value))
        elif isinstance(value, dict):
            _collect("%s%s." % (prefix, name), value, step, points)
        elif isinstance(value, (list, tuple)) and value and _media(value[0]):
            for number, item in enumerate(value):
                _record_media("%s%s/%d" % (prefix, name, number), item, step)
        elif _media(value):
            _record_media(prefix + name, value, step)
        elif getattr(value, "shape", ()) == () or hasattr(value, "savefig") or hasattr(value, "getbands"):
            points.append((prefix + name, value))
        else:
            _recorder.mention(kind.__name__, "values of the type %s are not recorded" % kind.__name__)


def _media(value: "object") -> "bool":
    return type(value).__module__.partition(".")[0] == "wandb"


def _record_media(name: "str", value: "Any", step: "int") -> "None":
    kind = type(value).__name__
    if kind == "Image":
        picture = getattr(value, "image", None) or getattr(value, "_image", None) or getattr(value, "_path", None)
        _recorder.made("image", name, picture, step)
    elif kind == "Table":
        rows = [dict(zip(map(str, value.columns), row)) for row in value.data]  # noqa: B905 - Python 3.6 has no strict
        _recorder.made("table", name, rows, step)
    else:
        _recorder.mention(kind, "values of the type wandb.%s are not recorded" % kind)


def _config(_: "Any", run: "Any", key: "Any" = None, val: "Any" = None, data: "Any" = None) -> "None":
    if data is not None:
        _parameters(_prefix(run), data)
    elif key is not None:
        parts = [key] if isinstance(key, str) else list(key)
        _parameters(_prefix(run), {".".join(map(str, parts)): val})


def _parameters(prefix: "str", values: "Any") -> "None":
    for name, value in dict(values).items():
        if str(name).startswith(_OWN):
            continue
        if isinstance(value, dict):
            _parameters("%s%s." % (prefix, name), value)
        else:
            _recorder.parameter(prefix + str(name), value)


def _summary(_: "Any", run: "Any", summary_record: "Any") -> "None":
    for item in summary_record.update:
        _summarize(_prefix(run) + ".".join(map(str, item.key)), item.value)


def _summarize(name: "str", value: "Any") -> "None":
    if isinstance(value, dict):
        for key, inner in value.items():
            _summarize("%s.%s" % (name, key), inner)
    elif value.__class__ in (float, int, bool, str) or getattr(value, "shape", None) == ():
        if _recorder.has(name) and name not in _summaries:
            name += ".summary"  # the name is that of a series
        _summaries.add(name)
        _recorder.value(name, value, None)


def _log_artifact(result: "Any", run: "Any", *args: "Any", **kwargs: "Any") -> "None":
    if getattr(result, "type", "") == "run_table":
        return  # how wandb stores a table that was logged
    name = str(result.name).partition(":")[0]
    for path, entry in result.manifest.entries.items():
        if getattr(entry, "local_path", None):
            _recorder.artifact(entry.local_path, "%s%s/%s" % (_prefix(run), name, path))


def _save(result: "Any", run: "Any", *args: "Any", **kwargs: "Any") -> "None":
    for path in result if isinstance(result, list) else ():
        _recorder.artifact(path, _prefix(run) + os.path.relpath(path, run.dir))


def _prefix(run: "Any") -> "str":
    prefix = run.__dict__.get(_PREFIX)
    if prefix is None:
        prefix = _recorder.prefix(run.id, str(getattr(run, "name", None) or run.id))
        run.__dict__[_PREFIX] = prefix
    return prefix  # type: ignore[no-any-return]
