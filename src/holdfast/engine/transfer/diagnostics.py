"""Collects a bug report without secrets: a closed list of files, each of them redacted.

Code, outputs, metrics and project files other than those of ``aml_config`` are never part of it; the script's log is
only where it is asked for. Of configuration files the values of a closed list of keys are shown and of others the keys.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys

from holdfast import _version, redact, settings
from holdfast.environments.secrets import scrub
from holdfast.errors import HoldfastError
from holdfast.location import located
from holdfast.redact import GONE, Redactor, is_secret_name
from holdfast.runner import untrusted
from holdfast.runner.decoding import escaped
from holdfast.runner.store import layout
from holdfast.runner.store.jsonl import read_lines
from holdfast.store import disk_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json, Project
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_TAIL = 200_000  # bytes of a log
_LARGEST = 1_000_000
_LONGEST_ARGUMENTS = 65_536  # letters of a run's arguments that are looked for in every text
_STRUCTURED = ("run.json", "plan.json", "files.json")  # where arguments stand in a known place
_LOGS = (layout.runner_log.name, layout.environment_log.name, layout.engine_log.name)
_COMMANDS = ("argv", "command", "commands", "holders", "processes")  # in events: what others typed
_VARIABLES = ("LANG", "LC_ALL", "TERM", "SHELL")  # whose values are shown; of others only the names
_OURS = ("HOLDFAST_", "AZUREML_", "CONDA_", "PIP_", "UV_", "SSH_", "DOCKER_", "CUDA_", "NVIDIA_", "PYTHON")
_PROGRAMS = ("ssh", "ssh-keygen", "git", "docker", "podman", "nvidia-smi", "uv", "conda")
_PLAIN_SETTINGS = frozenset(("defaultTarget", "keepWork", "keepLimit", "keepFiles", "keepRuns"))
_PLAIN_KEYS = frozenset(
    (
        *("type", "port", "cpus", "memory", "gpus", "shmsize", "engine", "nvidiadocker", "native", "framework"),
        *("sharedvolumes", "usermanagedenvironment", "stopwhenidleminutes", "stopontarget", "prepareenvironment"),
        *("trackedrun", "usesampling", "fetchoutputs", "gpugrace", "grace", "maxlogsize", "requiregpu", "timeout"),
        *("waitforgpu", "count", "shared", "yarndeploymode"),
    )
)
_KEY = re.compile(r"(\s*(?:-\s+)?)[\"']?([A-Za-z][\w.-]*)[\"']?\s*:(?:\s+(.*))?")
_PLAIN_VALUE = re.compile(r"[\"']?[\w.+-]{0,40}[\"']?,?")


def gather(home: Home, project: Project, run: Run | None, *, with_log: bool) -> dict[str, bytes]:
    """Names in the report and their content, all of it redacted."""
    files = dict(_configuration(home, project))
    secrets = [*_of_environment(), *_of_settings(home), *(value for text in files.values() for value in _hidden(text))]
    arguments = run.request.get("arguments") if run is not None else None
    _, values = redact.words(arguments if isinstance(arguments, list) else ())
    length = sum(map(len, values))
    values = values if length <= _LONGEST_ARGUMENTS else []
    redactor = Redactor([*secrets, *values], os.path.expanduser("~"))
    contents: dict[str, str] = {
        "about.json": _json(redactor.value(_about(home))),
        "settings.json": _json(redactor.value(_settings(home))),
        **{name: redactor.text(_outline(text)) for name, text in files.items()},
        "solve.log": redactor.text(_tail(layout.solve_log(home.path))),
    }
    if run is not None:
        contents.update(_of_run(run, redactor, with_log))
    if length > _LONGEST_ARGUMENTS:
        note = f"omitted: the arguments of the run have {length} characters, too many to search for in this file\n"
        contents.update({name: note for name in contents if name.startswith("run/") and not name.endswith(_STRUCTURED)})
    return {name: text.encode("utf-8", "backslashreplace") for name, text in contents.items() if text}


def _about(home: Home) -> Json:
    names = sorted(name for name in os.environ if name.startswith(_OURS))
    return {
        "holdfast": _version.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "programs": {name: shutil.which(name) is not None for name in _PROGRAMS},
        "variables": {**{name: os.environ[name] for name in _VARIABLES if name in os.environ}, "set": names},
        "store_chosen_by": located()[1],
        "store": {row["what"]: row["bytes"] for row in disk_usage.measure(home)},
        "free": shutil.disk_usage(home.path).free,
    }


def _settings(home: Home) -> Json:
    try:
        stored = settings.read(home.settings)
    except HoldfastError as error:
        return {"unreadable": scrub(error.answer)}
    return {name: value if name in _PLAIN_SETTINGS or not value else GONE for name, value in stored.items()}


def _configuration(home: Home, project: Project) -> Iterator[tuple[str, str]]:
    for title, folder in (
        ("project", os.path.join(project.root, "aml_config")),
        ("user", layout.targets(home.path)),
    ):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = os.path.join(folder, name)
            if name.endswith((".compute", ".runconfig")) and os.path.isfile(path) and name.isprintable():
                yield f"{title}/{name}", _tail(path)


def _outline(text: str) -> str:
    """A configuration file reduced to its keys and the values that identify no person or machine."""
    lines = []
    for line in text.splitlines():
        match = _key(line)
        if match:
            indent, key, value = match[1], match[2], match[3] or ""
            plain = key.lower() in _PLAIN_KEYS and _PLAIN_VALUE.fullmatch(value)
            shown = value if plain or not value else GONE
            lines.append(f"{indent}{key}: {shown}".rstrip())
        elif line.strip():
            lines.append(GONE)
    return "\n".join(lines) + "\n" if lines else ""


def _hidden(text: str) -> Iterator[str]:
    """What the outline of a file leaves out: it may come again in a log."""
    for line in text.splitlines():
        match = _key(line)
        if match is None:
            yield line.strip().strip("-\"', ")
        elif match[3] and match[2].lower() not in _PLAIN_KEYS:
            yield match[3].split(" #")[0].strip("\"', ")


def _key(line: str) -> re.Match[str] | None:
    return _KEY.fullmatch(line.rstrip().removesuffix(",").rstrip())


def _of_environment() -> Iterator[str]:
    yield from (value for name, value in os.environ.items() if is_secret_name(name))


def _of_settings(home: Home) -> Iterator[str]:
    try:
        stored = settings.read(home.settings)
    except HoldfastError:
        return
    yield from (value for name, value in stored.items() if name not in _PLAIN_SETTINGS)


def _of_run(run: Run, redactor: Redactor, with_log: bool) -> Iterator[tuple[str, str]]:
    yield "run/run.json", _json(redactor.value(_request(run.request)))
    for number in range(1, run.attempt_number + 1):
        folder = layout.attempt(run.path, number)
        plan = _read_json(layout.plan(folder))
        if plan:
            yield f"run/a{number}/plan.json", _json(redactor.value(_plan(plan)))
        for name in (layout.events.name, layout.control.name):
            lines = read_lines(os.fsencode(os.path.join(folder, name)))
            yield f"run/a{number}/{name}", "".join(json.dumps(redactor.value(_event(line))) + "\n" for line in lines)
        for name in (*_LOGS, *((layout.log.name,) if with_log else ())):
            yield f"run/a{number}/{name}", redactor.text(_tail(os.path.join(folder, name)))
        yield f"run/a{number}/files.json", _json(_sizes(folder))


def _event(event: Json) -> Json:
    return {name: GONE if name in _COMMANDS and value else value for name, value in event.items()}


def _request(request: Json) -> Json:
    """The request, without the script's arguments and the address of its machine."""
    kept = {
        name: value for name, value in request.items() if name not in ("reached_by", "arguments", "git", "name", "tags")
    }
    arguments = request.get("arguments")
    shown, _ = redact.words(arguments if isinstance(arguments, list) else ())
    return {**kept, "arguments": shown}


def _plan(plan: Json) -> Json:
    argv = plan.get("argv")
    shown, _ = redact.words(argv[1:] if isinstance(argv, list) else ())
    container = plan.get("container")
    if isinstance(container, dict):
        arguments = container.get("arguments")
        container = {**container, "arguments": redact.words(arguments if isinstance(arguments, list) else ())[0]}
    program = str(argv[0]) if isinstance(argv, list) and argv else ""
    return {**plan, "argv": [program, *shown], "container": container, "links": GONE if plan.get("links") else []}


def _sizes(folder: str) -> Json:
    """Of the files that every run has; what the script called its own is its own."""
    sizes: Json = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            sizes[name] = os.lstat(path).st_size
        elif os.path.isdir(path) and not os.path.islink(path):
            sizes[f"{name}/"] = sum(len(names) for _, _, names in os.walk(path))
    return sizes


def _tail(path: str) -> str:
    try:
        with open(untrusted.open_file(path, follow=False), "rb") as source:
            size = os.fstat(source.fileno()).st_size
            source.seek(max(0, size - _TAIL))
            data = source.read(_TAIL)
    except (OSError, untrusted.Untrusted):
        return ""
    if size > _TAIL:
        data = b"...\n" + data.partition(b"\n")[2]
    return escaped(data)


def _read_json(path: str) -> Json:
    try:
        document = json.loads(untrusted.read_file(path, _LARGEST, follow=False))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
