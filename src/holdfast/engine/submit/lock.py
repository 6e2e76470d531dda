"""Finds or solves the lock of an environment without running code of the project on the wrong machine.

A package without a wheel says only through its own build program what it requires. For a target that is not this
machine itself, such a program is run on the target, in a container of the image where the run will be in one. The same
holds for a repository that needs a login: no key and no password of this machine is used for it.
"""

from __future__ import annotations

import hashlib
import os
import stat

from holdfast import answers
from holdfast.environments import lock, secrets
from holdfast.environments.requirement import parse
from holdfast.errors import BuildNeededError, ConfigError
from holdfast.location import PACKAGE
from holdfast.model import Json
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.machine import pip_configuration
from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.engine.submit.environment import Asked
    from holdfast.model import Project
    from holdfast.store.home import Home

HERE = ""
_LARGEST = 32 << 20  # of a lock


def place_of(channel: RunnerChannel, image: str) -> str:
    """Names a machine and image: what was solved there is not used for another, which may not trust it."""
    return hashlib.sha256(as_bytes(f"{channel.hello()['store']} {image}")).hexdigest()[:16]


def remembered(home: Home, project: Project, requirements: Asked, config: str) -> lock.Lock | None:
    """The lock beside the run configuration if it is for this very spec, else the one that was solved for it before."""
    name = lock.lock_file(config)
    text = text_of(os.path.join(project.root, name), project.root)
    committed = lock.from_text(text, name) if text is not None else None
    if committed is not None and lock.matches(committed, requirements.key):
        return committed
    for path in (_solved(home, requirements.key, HERE), _solved(home, requirements.key, requirements.place)):
        derived = _derived(path)
        if derived is not None and lock.matches(derived, requirements.key):
            return derived
    return None


def is_outdated(project: Project, requirements: Asked, config: str) -> bool:
    """Whether a lock is committed that no longer matches what it was made from."""
    text = text_of(os.path.join(project.root, lock.lock_file(config)), project.root)
    return text is not None and not lock.matches(lock.from_text(text, lock.lock_file(config)), requirements.key)


def solve(
    home: Home,
    project: Project,
    requirements: Asked,
    channel: RunnerChannel,
    tell: Callable[[Json], None],
    *,
    may_build: bool = True,
) -> lock.Lock:
    """Ask a builder for a lock with the target's facts, and remember what it finds.

    Without ``may_build``, BuildNeededError is raised where a package would have to be built.
    """
    request, log = _request(project, requirements), layout.solve_log(home.path)
    location = HERE
    answer = _ask_here(home, requirements, {**request, "no_build": not (requirements.is_here and may_build)}, log, tell)
    if answer.get("kind") in ("build", "login") and answer.get("event") != "done":
        if not may_build or requirements.is_here:
            raise _build_needed(requirements, answer)
        location = requirements.place
        answer, log = _ask_there(home, project, requirements, request, answer, channel, tell)
    if answer.get("event") != "done":
        raise _failure(requirements, answer, log)
    locked = lock.from_json(answer.get("lock"), "the builder's answer")
    if not lock.matches(locked, requirements.key):
        raise ConfigError("the target sent a lock of another environment", where=requirements.declared.file)
    _remember(_solved(home, requirements.key, location), locked)
    return locked


def _request(project: Project, requirements: Asked) -> Json:
    facts: Json = {"platform": requirements.facts.platform, "virtual": dict(requirements.facts.virtual)}
    if requirements.elsewhere is not None:
        facts["python"] = requirements.elsewhere
    return {
        "spec": requirements.spec.to_json(),
        "spec_key": requirements.key,
        "facts": facts,
        "python": requirements.python if requirements.spec.kind == "pip" and requirements.is_here else None,
        "project": project.root,
        "pip_configuration": requirements.pip_configuration,
    }


def _ask_here(home: Home, requirements: Asked, request: Json, log: str, tell: Callable[[Json], None]) -> Json:
    from holdfast.runner.machine import environment as runner

    cache = layout.packages(home.path)
    os.makedirs(os.path.dirname(cache), 0o700, exist_ok=True)
    program = layout.builder_program(PACKAGE)
    whole = {**request, "verb": "solve", "cache": cache, "log": log}
    try:
        return runner.ask_builder(os.fsencode(home.path), program, whole, os.fsencode(log), tell, lambda: False)
    except runner.CannotBuild as error:
        raise ConfigError(
            "the environment cannot be solved", where=requirements.declared.file, answer=str(error)
        ) from error


def _ask_there(
    home: Home,
    project: Project,
    requirements: Asked,
    request: Json,
    refused: Json,
    channel: RunnerChannel,
    tell: Callable[[Json], None],
) -> tuple[Json, str]:
    """The builder's answer on the target, and where its log is."""
    wanted, tree = {**request, "python": requirements.python}, None
    if requirements.is_remote:
        wanted["pip_configuration"] = pip_configuration.portable(requirements.pip_configuration or {})
    if channel.hello()["store"] != home.id:
        wanted["project"] = None
        tree = _send_packages(home, project, requirements, channel)
    for header, _ in channel.stream("solve", request=wanted, container=requirements.build, tree=tree):
        event = header.get("progress")
        if isinstance(event, dict):
            tell(event)
        if header.get("failed"):
            error = _build_needed(requirements, refused)
            raise ConfigError(error.what, where=error.where, answer=str(header["failed"]), hint=error.hint)
        if header.get("end"):
            return answers.table(header, "answer"), f"{header.get('log')} on the target"
    raise answers.malformed("end", None, "there")


def _send_packages(home: Home, project: Project, requirements: Asked, channel: RunnerChannel) -> str | None:
    """The packages among the project's files, sent to the target; None where there are none."""
    named = [entry.text.split(" ")[0] for entry in requirements.spec.pip] + list(
        requirements.spec.pip_options.find_links
    )
    paths = sorted({name[2:] for name in named if name.startswith("./")})
    if not paths:
        return None
    import shutil
    import tempfile

    from holdfast.engine.submit.upload import Shipment
    from holdfast.snapshot import snapshot

    with tempfile.TemporaryDirectory(dir=layout.cache(home.path)) as folder:
        for path in paths:
            source, copy = os.path.join(project.root, path), os.path.join(folder, path)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, copy, symlinks=True, ignore=_irregular, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, copy)
        tree = snapshot.scan(folder, cache=None).store(home.objects).tree
    Shipment(home, channel, f"{project.id}-packages", lambda _done, _total: None).send_missing(tree)
    return tree


def _irregular(folder: str, names: list[str]) -> list[str]:
    """What is neither file, folder nor link: reading a FIFO would wait for ever."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    return [
        name for name, mode in modes.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    ]


def _build_needed(requirements: Asked, answer: Json) -> BuildNeededError:
    if answer.get("kind") == "login":
        return _login_needed(requirements, answer)
    from packaging.utils import canonicalize_name

    package = str(answer.get("package") or "")
    name = canonicalize_name(package)
    entry = next((entry for entry in requirements.spec.pip if name and _name(entry.text) == name), None)
    where = f"{entry.file}:{entry.line}" if entry is not None and entry.line else requirements.declared.file
    what = f"{package or 'a package'} has no wheel for this target, so it would have to be built from source"
    hint = "pin a version that has a wheel, or put a wheel into the project: pip wheel -w wheels NAME"
    return BuildNeededError(what, where=where, answer=secrets.scrub(str(answer.get("what") or "")), hint=hint)


def _login_needed(requirements: Asked, answer: Json) -> BuildNeededError:
    """The user's keys and passwords are not used for an address that a project names."""
    by_git = [entry for entry in requirements.spec.pip if "git+" in entry.text]
    entry = next((entry for entry in by_git if "git+ssh:" in entry.text), by_git[0] if by_git else None)
    where = f"{entry.file}:{entry.line}" if entry is not None and entry.line else requirements.declared.file
    what = "a repository requires a login, and this machine does not send credentials to addresses named by a project"
    at = "" if requirements.is_here else " on the target, with the target's credentials"
    hint = f"submit fetches it{at}; or name a public https address, or put a wheel into the project"
    return BuildNeededError(what, where=where, answer=secrets.scrub(str(answer.get("what") or "")), hint=hint)


def _name(text: str) -> str:
    """Of a requirement or of the path of a source archive."""
    if not text.startswith("./"):
        return parse(text).name
    from packaging.utils import canonicalize_name

    file = os.path.basename(text.partition(" ")[0])
    return canonicalize_name(file.rpartition("-")[0] or file)


def _failure(requirements: Asked, answer: Json, log: str) -> ConfigError:
    last = answer.get("tail")
    lines = _of_last_attempt([str(line) for line in last[-30:]] if isinstance(last, list) else [])
    hint = str(answer.get("hint") or "")
    return ConfigError(
        str(answer.get("what")),
        where=str(answer.get("where") or requirements.declared.file),
        answer=secrets.scrub("\n".join(lines)),
        hint=f"{hint}\nthe whole log: {log}".strip(),
    )


def _of_last_attempt(lines: list[str]) -> list[str]:
    """What a tool printed when it was run last; its command line, with our paths, is in the log."""
    commands = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    return lines[commands[-1] + 1 :] if commands else lines


def _remember(path: str, locked: lock.Lock) -> None:
    from holdfast.runner.store.files import write_whole

    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    write_whole(path, lock.to_text(locked).encode())


def _solved(home: Home, key: str, location: str) -> str:
    return home.solved(f"{key}-{location}" if location else key)


def _derived(path: str) -> lock.Lock | None:
    """A remembered lock; one that is damaged is found again by a solve."""
    try:
        text = text_of(path, None)
        return lock.from_text(text, path) if text is not None else None
    except ConfigError:
        return None


def text_of(path: str, within: str | None) -> str | None:
    """The text of a declaration or lock; None where there is no such file."""
    try:
        return untrusted.read_file(path, _LARGEST, within).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError("this file cannot be read", where=path, answer=str(error)) from None
