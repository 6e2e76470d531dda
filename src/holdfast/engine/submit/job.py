"""Combines the options of ``submit`` and the run configuration into one job."""

from __future__ import annotations

import os

from holdfast.errors import ConfigError, UsageError
from holdfast.model import GpuWish, Job, Link
from holdfast.planning import script_path, seconds
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes, lossless
from holdfast.snapshot.ignore import KEEPIGNORE, refuse_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from holdfast.amlconfig.types import DataEntry, RunConfig
    from holdfast.model import Data, Json, Project
    from holdfast.target_lookup import Chosen

_LARGEST_ENV_FILE = 1 << 20
_LARGEST_KEEPIGNORE = 1 << 16
_LONGEST_FIRST_LINE = 512


class Asked(Record):
    """What a person typed, as typed. ``files`` as in Job: a script among them is not looked for in the project.

    ``command``, as in Job, is that of a program of ours; the first of the words is then only its name.
    """

    words: tuple[str, ...]
    folder: str
    env: tuple[str, ...] = ()
    env_files: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    timeout: str | None = None
    grace: str | None = None
    notify: str | None = None
    keep_work: bool = False
    scalars: bool = False
    keep_limit: str | None = None
    no_capture: bool = False
    retries: str | None = None
    gpus: str | None = None
    require_gpu: bool = False
    wait_for_gpu: str | None = None
    after_dashes: bool = False
    name: str | None = None
    tags: Mapping[str, object] = {}
    files: Mapping[str, bytes] | None = None
    data: tuple[str | DataEntry, ...] = ()
    command: tuple[str, ...] = ()


def make_job(
    given: Asked,
    project: Project,
    chosen: Chosen,
    target: str,
    settings: Mapping[str, str],
    ask: Callable[[str], str],
) -> Job:
    """``settings`` are those of the user; ``ask`` prompts for a secret that is not in the environment."""
    config, file = chosen.config, chosen.config_file
    command = given.words or config.argument_vector or ()
    if not command or command[0] == "$file":
        raise UsageError("no script given", hint="holdfast submit -c local train.py")
    env, places = _environment(given, config, file, ask)
    _check_text(command, env, places, given.notify or "")
    return Job(
        **_runnable(given, project.root, command),
        config=config.name,
        target=target,
        env=env,
        links=tuple(link(project.root, name, given.folder) for name in given.links)
        + tuple(link(project.root, name, project.root) for name in config.links or ()),
        timeout_s=seconds(given.timeout, "--timeout") if given.timeout else config.timeout,
        grace_s=seconds(given.grace, "--grace") if given.grace else config.grace if config.grace is not None else 30.0,
        max_log=config.max_log_size or 10 * 1000**3,
        keep_work=given.keep_work,
        on_end=given.notify or settings["onEnd"],
        fetch_outputs=config.fetch_outputs or "small",
        parent_run_id=os.environ.get("HOLDFAST_RUN_ID"),
        retries=_count(given.retries) if given.retries else 0,
        gpu=_gpu_wish(given, config, file, places),
        scalars=given.scalars or bool(config.scalars),
        keep=_keep(given, project, config, settings),
        name=given.name,
        tags=given.tags,
        files=given.files,
        data=_data(given, project, config, file),
        capture=not given.no_capture and config.capture is not False,
    )


def _check_text(argv: Sequence[str], env: Mapping[str, str], places: Mapping[str, str], notify: str) -> None:
    for argument in argv:
        _refuse_unpassable(argument, "an argument", answer=ascii(argument)[:200])
    for name, value in env.items():
        _refuse_unpassable(f"{name}={value}", f"the variable {name}", where=places[name])
    _refuse_unpassable(notify, "the command of --notify")


def _refuse_unpassable(text: str, what: str, *, where: str = "", answer: str = "") -> None:
    """No system passes a NUL or half of a surrogate pair to a program; a byte that is no UTF-8 it does."""
    try:
        is_text = b"\0" not in as_bytes(text)
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        reason = "contains a NUL character, or half of a surrogate pair"
        raise UsageError(f"{what} {reason}", where=where, answer=answer, hint="pass such text in a file")


def _data(given: Asked, project: Project, config: RunConfig, file: str) -> tuple[Data, ...]:
    if not given.data and not config.data:
        return ()
    from holdfast.engine.submit.data_request import requested

    return requested(project.root, given.folder, given.data, config.data or (), file)


def _runnable(typed: Asked, root: str, argv: tuple[str, ...]) -> dict[str, Any]:
    """Fields of a job: what is run. Most runs are of a Python file, of which only the first line has to be read."""
    if typed.command:
        return {"script": argv[0], "arguments": tuple(argv[1:]), "command": typed.command, "source": ""}
    if argv[0] in (typed.files or ()):
        return {"script": argv[0], "arguments": tuple(argv[1:])}
    if argv[0].endswith(".py"):
        script = script_path(root, typed.folder, argv[0])
        if not _has_options(os.path.join(root, script)):
            return {"script": script, "arguments": tuple(argv[1:])}
    from holdfast.engine.submit.runnable import understand

    return understand(root, typed.folder, argv, after_dashes=typed.after_dashes)._asdict()


def _has_options(path: str) -> bool:
    """Whether the ``#!`` line of a file may have options for Python. What cannot be read is refused later."""
    try:
        with open(untrusted.open_file(path), "rb") as source:
            line = source.readline(_LONGEST_FIRST_LINE)
    except (OSError, ValueError):
        return False
    return line.startswith(b"#!") and b" -" in line


def _keep(typed: Asked, project: Project, config: RunConfig, settings: Mapping[str, str]) -> Json | None:
    """Limits and rules for results outside outputs/; None where all are the defaults."""
    from holdfast.settings import SETTINGS, keep_files, keep_limit

    texts = [settings["keepLimit"], settings["keepFiles"]]
    defaults = [SETTINGS[name].default for name in ("keepLimit", "keepFiles")]
    ignore = _keep_ignore(project.root)
    if texts == defaults and (typed.keep_limit, config.keep_limit, config.keep_files) == (None,) * 3 and not ignore:
        return None
    limit = keep_limit(typed.keep_limit, "--keep-limit") if typed.keep_limit else config.keep_limit
    return {
        "limit": keep_limit(texts[0]) if limit is None else limit,
        "files": keep_files(texts[1]) if config.keep_files is None else config.keep_files,
        "ignore": ignore,
    }


def _keep_ignore(root: str) -> list[str]:
    path = os.path.join(root, KEEPIGNORE)
    if not os.path.lexists(path):
        return []
    try:
        lines = untrusted.read_file(path, _LARGEST_KEEPIGNORE, within=root)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{KEEPIGNORE} cannot be read", where=path, answer=str(error)) from error
    refuse_foreign(path, root)
    texts = (lossless(line.rstrip(b"\r")) for line in lines.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    return [line for line in texts if line.strip() and not line.startswith("#")]


def _gpu_wish(given: Asked, config: RunConfig, file: str, places: Mapping[str, str]) -> GpuWish:
    """Most runs request no GPUs, and the module for it is not imported for them."""
    values = (config.gpus, config.require_gpu, config.gpu_grace, config.wait_for_gpu, given.gpus, given.wait_for_gpu)
    if values == (None,) * 6 and not given.require_gpu:
        return GpuWish()
    from holdfast.engine.submit.gpu_request import make_wish, refuse_two_masters

    wanted = make_wish(config, file, gpus=given.gpus, require=given.require_gpu, wait=given.wait_for_gpu)
    refuse_two_masters(wanted, places, given.gpus, file)
    return wanted


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise UsageError(f"--retries {text}: not a whole number from 0 to 999")
    return int(text)


def _environment(
    given: Asked, config: RunConfig, file: str, ask: Callable[[str], str]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Values, and where each was set. Later ones win: the run configuration, --env-file, -e, --secret."""
    values = dict(config.environment_variables or {})
    places = dict.fromkeys(values, file)
    for path in given.env_files:
        for name, (value, number) in _env_file(path).items():
            values[name], places[name] = value, f"{path}:{number}"
    for word in given.env:
        name, equals, value = word.partition("=")
        values[_name(name, "-e")] = value if equals else _from_shell(name)
        places[name] = f"-e {name}"
    for name in given.secrets:
        values[_name(name, "--secret")] = os.environ[name] if name in os.environ else ask(name)
        places[name] = f"--secret {name}"
    return values, places


def _from_shell(name: str) -> str:
    if name not in os.environ:
        from difflib import get_close_matches

        meant = get_close_matches(name, ("project", "active", "none"), 1, 0.75)
        if meant:
            raise UsageError(f"--env {name} names no environment", hint=f"did you mean --env {meant[0]}?")
        raise UsageError(f"-e {name}: {name} is not set in this shell", hint=_unset(name))
    return os.environ[name]


def _unset(name: str) -> str:
    environment = "" if name.isupper() else "; --env takes project, active or none"
    return f"export {name}=..., or -e {name}=VALUE{environment}"


def _name(name: str, where: str) -> str:
    if (
        not name
        or "\0" in name
        or not (name[0].isalpha() or name[0] == "_")
        or not all(c.isalnum() or c == "_" for c in name)
    ):
        raise UsageError(f"{name!r} is not a valid variable name", where=where)
    return name


def _env_file(path: str) -> dict[str, tuple[str, int]]:
    """NAME=VALUE lines and their numbers.

    Blank lines and # comments are passed over, one pair of quotes round a value is taken off.
    """
    values = {}
    try:
        lines = untrusted.read_file(path, _LARGEST_ENV_FILE).decode("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError("the --env-file cannot be read", where=path, answer=str(error)) from error
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError("this line is not NAME=VALUE", where=f"{path}:{number}", answer=text[:80])
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        values[_name(name.strip(), f"{path}:{number}")] = value, number
    return values


def link(root: str, named: str, folder: str = "") -> Link:
    """``data``: the project's own folder of that name. ``data=/mnt/big``: another folder, shown as data.

    ``folder`` is the one that it is typed in; without it names are those in the project.
    """
    name, equals, target = named.partition("=")
    inside = os.path.normpath(os.path.join(folder or root, name))
    target = os.path.abspath(os.path.join(folder, os.path.expanduser(target))) if equals else inside
    shown = os.path.relpath(inside, root)
    if shown == os.curdir or shown.startswith(os.pardir) or os.path.isabs(shown):
        raise UsageError(
            f"--link {named}: not inside the project",
            where=root,
            hint="give it a name: --link data=/path/to/folder",
        )
    if not os.path.exists(target):
        raise UsageError(
            f"--link {named}: {target} does not exist",
            hint="--link NAME=/path/to/folder links a folder under another name",
        )
    return Link(shown, target)
