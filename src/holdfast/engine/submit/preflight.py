"""Finds what would stop a run before anything is sent, each with the line that fixes it.

The checks use the facts of the target's hello; more is asked only where something is wrong, or nearly so.
A fix is one line: ``run: COMMAND``, ``on HOST run: COMMAND`` or ``write in FILE[:LINE]: KEY: VALUE``.
"""

from __future__ import annotations

import time

from holdfast import target_lookup
from holdfast.engine.connection import bundle
from holdfast.engine.connection.transport import run_to_end
from holdfast.engine.system_errors import room_hint
from holdfast.errors import ConfigError, HoldfastError, NoPlaceError, NoPythonError, RemoteCommandError, StoreError
from holdfast.record import Record
from holdfast.runner import json_text, untrusted
from holdfast.runner.decoding import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.engine.submit.environment import Environment
    from holdfast.model import Job, Json
    from holdfast.snapshot.snapshot import Snapshot
    from holdfast.target_lookup import Target

OK, WARNING, FAILED, SKIPPED = "ok", "warning", "failed", "skipped"
SKEW_S = 5.0
# What a run itself writes before its script does.
_ROOM, _FILES = 256 * 1024, 40
_OF_RUNNER = (4_000_000, 400)
_LOOK_S = 30.0


class Tick(Record):
    """``state`` is ok, warning, failed or skipped; ``fix`` is what to type or do; ``code`` is the exit code."""

    name: str
    state: str
    found: str
    fix: str = ""
    code: int = 0


class Need(Record):
    """What a run takes of its target's disk: the project stored, the run's copy of it, its environment."""

    bytes: int
    files: int
    environment: int = 0
    prefix: str = ""

    @property
    def is_executed(self) -> bool:
        return bool(self.prefix)

    def room(
        self, *, lacking: tuple[int, int] | None = None, clones: bool = False, built: bool = False
    ) -> tuple[int, int]:
        """Bytes and files. ``lacking`` is what of the project is not stored there yet; ``clones`` take no space."""
        missing, new = (self.bytes, self.files) if lacking is None else lacking
        size, files = _ROOM + missing + (0 if clones else self.bytes), _FILES + new + self.files
        # A package takes at least its download; the builder knows its real size. No run is refused on a guess.
        return size + (0 if built else self.environment), files


def need_of(taken: Snapshot, environment: Environment | None) -> Need:
    lock = environment.lock if environment is not None else {}
    sizes = [row.get("size") for row in _rows(lock.get("conda"))] + [lock.get("pip_bytes")]
    prefix = environment.prefix if environment is not None else ""
    return Need(taken.bytes, taken.files, sum(size for size in sizes if isinstance(size, int)), prefix)


class Preflight:
    """``file`` is the target's .compute file, ``config`` the run configuration: what a fix may have to change.

    ``is_here``: its store is our own, written to a moment ago by our own clock: nothing of that need be asked.
    ``lacking`` tells how much of the project is not there yet; it is asked only where space is short.
    """

    def __init__(
        self,
        target: Target,
        channel: RunnerChannel,
        file: str,
        config: str,
        *,
        is_here: bool,
        lacking: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._lacking = lacking
        self._target = target
        self._channel = channel
        self._file = file or f"{target.name}.compute"
        self._config = config
        self._is_here = is_here

    def check(self, taken: Snapshot, environment: Environment | None, job: Job) -> list[str]:
        """Raise what would stop the run; returns what it is only warned of."""
        warnings = []
        for tick in self.ticks(taken, environment, job):
            if tick.state == FAILED:
                kind = ConfigError if tick.code == ConfigError.exit_code else StoreError
                raise kind(_HEADS[tick.name], where=self._target.name, answer=tick.found, hint=tick.fix)
            if tick.state == WARNING:
                warnings.append(f"{_HEADS[tick.name]}: {tick.found}; try: {tick.fix}")
        return warnings

    def ticks(self, taken: Snapshot, environment: Environment | None, job: Job) -> list[Tick]:
        hello = self._channel.hello()
        result = [Tick("reach", OK, f"{hello.get('host')}, with Python {hello.get('python')}")]
        if not self._is_here:
            result += [self._disk(need_of(taken, environment)), self._locks(), self._clock()]
        # Whether a container can share all that there is, is its engine's to say.
        if job.gpu.count not in (None, 0) and not (job.gpu.shared and job.gpu.count == "all"):
            result.append(self._gpus(job))
        return result

    def _disk(self, need: Need) -> Tick:
        """All checks of the store's folder in one tick: another folder fixes every problem."""
        fit, folder = self._fit(), str(self._channel.hello()["home"])
        free, inodes = _number(fit.get("free")), fit.get("inodes")
        message = f"{_size(free)} and {'any number of' if inodes is None else inodes} files free in {folder}"
        if _suffices(free, inodes, *need.room()) and not self._forbids(fit, need):
            return Tick("disk", OK, message)
        look = _ask_more(self._target, need.prefix)
        lacking = self._lacking() if self._lacking is not None else None
        wanted = need.room(lacking=lacking, clones=bool(look.get("clones")), built=bool(look.get("built")))
        if fit.get("read_only"):
            message = f"{folder} is read-only"
        elif fit.get("no_exec") and need.is_executed:
            message = f"{folder} is mounted noexec: programs of an environment cannot run from there"
        elif _suffices(free, inodes, *wanted):
            return Tick("disk", OK, message)
        else:
            message = f"{_size(wanted[0])} and {wanted[1]} files are needed, {message}"
            fix = f"{room_hint(self._target.name)}; or {self._elsewhere(look, wanted, need)}"
            return Tick("disk", FAILED, message, fix, StoreError.exit_code)
        return Tick("disk", FAILED, message, self._elsewhere(look, wanted, need), StoreError.exit_code)

    def _forbids(self, fit: Json, need: Need) -> bool:
        return bool(fit.get("read_only") or (fit.get("no_exec") and need.is_executed))

    def _locks(self) -> Tick:
        trouble, folder = str(self._fit().get("locks") or ""), str(self._channel.hello()["home"])
        if not trouble:
            return Tick("locks", OK, "locking and appending work")
        none = Need(0, 0)
        fix = self._elsewhere(_ask_more(self._target, ""), none.room(), none)
        return Tick("locks", FAILED, f"{folder}: {trouble}", fix, ConfigError.exit_code)

    def _clock(self) -> Tick:
        there, now = _number(self._fit().get("clock_ns")) / 1e9, time.time()
        skew = there - now if there > now else min(0.0, there - self._channel.began)
        if abs(skew) <= SKEW_S:
            return Tick("clock", OK, "as here")
        message = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
        return Tick("clock", WARNING, message, there_run(self._target.compute, "sudo timedatectl set-ntp true"))

    def _gpus(self, job: Job) -> Tick:
        facts = self._channel.ask("probe").get("facts")
        there = facts.get("gpus") if isinstance(facts, dict) else None
        wanted = 1 if job.gpu.count == "all" else _number(job.gpu.count)
        if there is None or _number(there) >= wanted:
            return Tick("gpus", OK, "not counted yet" if there is None else f"{there} there")
        line = _line_of(self._config, "gpus", str(job.gpu.count))
        fix = f"use --gpus {there}, or another target: -c NAME"
        if line:
            fix = f"write in {self._config}{line}: gpus: {there}"
        message = f"{job.gpu.count} requested, but this machine has {there or 'none'}"
        return Tick("gpus", FAILED, message, fix, ConfigError.exit_code)

    def _elsewhere(self, look: Json, wanted: tuple[int, int], need: Need) -> str:
        """A folder there that will do; the first one, as the most lasting ones are asked first."""
        for candidate in _lists(look.get("places")):
            name, free, inodes, read_only, no_exec = candidate
            fits = _suffices(_number(free), inodes, *wanted) and not read_only
            if fits and not (no_exec and need.is_executed):
                return f"write in {self._file}{_line_of(self._file, 'root')}: root: {name}"
        return there_run(self._target.compute, f"du -xsh {self._channel.hello()['home']}/*   # then free disk space")

    def _fit(self) -> Json:
        fit = self._channel.hello().get("fit")
        return fit if isinstance(fit, dict) else {}


def there_run(compute: ComputeTarget, command: str) -> str:
    """A command for the target's own shell."""
    where = target_lookup.endpoint(compute)[0]
    return f"on {where} run: {command}" if where else f"run: {command}"


def mended(error: HoldfastError, target: Target, file: str) -> HoldfastError:
    """Why a target that accepts the login cannot be used, with a fix; other errors stay as they are."""
    try:
        if isinstance(error, RemoteCommandError) and target.kind.is_remote:
            return _other_python(error, target, file)
        if isinstance(error, NoPlaceError):
            return _other_place(error, target, file)
    except HoldfastError:
        return error
    return error


def _other_python(error: HoldfastError, target: Target, file: str) -> HoldfastError:
    """Only where a search ran there: a login shell that ends, or a link that breaks, says nothing about Python."""
    from holdfast.engine.machines.attach import search_python

    try:
        name, path = search_python(target.host)
        if target.runner_python in (name, path):
            return error  # that Python runs: something else ended the command
        fix = f"write in {file}{_line_of(file, 'pythonLocation')}: pythonLocation: {path}"
    except NoPythonError:
        fix = there_run(target.compute, "sudo apt-get install -y python3")
    what = f"{target.runner_python} is missing or older than 3.6, the oldest supported Python"
    return ConfigError(what, where=target.name, answer=error.answer, hint=fix)


def _other_place(error: HoldfastError, target: Target, file: str) -> HoldfastError:
    for name, free, inodes, read_only, _ in _lists(_ask_more(target, "").get("places")):
        if not read_only and _suffices(_number(free), inodes, *_OF_RUNNER):
            fix = f"write in {file}{_line_of(file, 'root')}: root: {name}"
            return StoreError(error.what, where=error.where, answer=error.answer, hint=fix)
    return error


_HEADS = {
    "disk": "not enough disk space on the target for this run",
    "locks": "the target's file system does not support locking",
    "clock": "the clocks of the target and this machine differ",
    "gpus": "the target does not have the requested GPUs",
}


def _ask_more(target: Target, prefix: str) -> Json:
    """What is worth a trip of its own only when a run cannot be as it is."""
    argv = bundle.standalone("runner/machine/store_locations.py", {"home": target.home, "prefix": prefix})
    printed = run_to_end(target.host, (target.runner_python, *argv), _LOOK_S).out
    try:
        answer = json_text.loads(printed.rstrip().rpartition(b"\n")[2].decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _suffices(free: int, inodes: object, size: int, files: int) -> bool:
    return free >= size and (not isinstance(inodes, int) or inodes >= files)


def _line_of(file: str, key: str, value: str = "") -> str:
    """``:LINE`` where a file has this key already (with a value: this very one)."""
    try:
        lines = readable(untrusted.read_file(file, 1 << 20)).splitlines()
    except (OSError, ValueError):
        return ""
    for number, line in enumerate(lines, 1):
        name, _, text = line.partition(":")
        if name.strip() == key and value in ("", text.strip()):
            return f":{number}"
    return ""


def _lists(value: object) -> list[list[object]]:
    return [item for item in value if isinstance(item, list) and len(item) == 5] if isinstance(value, list) else []


def _rows(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
