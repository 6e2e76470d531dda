"""Verifies the whole store against its hashes and checksums: ``holdfast store verify``.

An object is named by its hash; the lines of a run carry checksums; its closing event has length and hash of its files,
and their manifest those of its outputs. ``audit`` changes nothing. ``repair`` takes away what can be made again, and
touches no run.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

from holdfast import settings
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import evidence, layout, objects
from holdfast.runner.store.files import unlink_quietly
from holdfast.runner.store.jsonl import is_intact
from holdfast.snapshot.stat_cache import StatCache
from holdfast.store import history_record, output_manifest, request_file, run_numbers, runs, verify
from holdfast.store.index import index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.home import Home
    from holdfast.store.runs import Run

    OnProgress = Callable[[int, int], None]

_AGAIN = "submit the project with this file again to store it again"
_LOOK = "the disk may be failing; do not use this run's file, and back up the others"
_REPAIR = "holdfast store verify --repair"
_REBUILD = f"no run is affected: the next command that lists runs makes it again, or: {_REPAIR}"


class Problem(Record):
    """``kind`` is object, missing, run, cache, number, runner, settings, index or newer; ``todo`` is for the reader."""

    kind: str
    path: str
    what: str
    todo: str


def audit(home: Home, on_progress: OnProgress) -> list[Problem]:
    """All damage. ``on_progress`` is called with the number of files and bytes read."""
    return _Audit(home, on_progress).problems()


def repair(home: Home, problems: list[Problem]) -> list[Problem]:
    """Remove damaged objects, caches and counters, rebuild the index; returns what is left for the user to do."""
    left = []
    for problem in problems:
        if problem.kind == "object":
            objects.discard(os.fsencode(home.objects), _digest_of(problem.path))
        elif problem.kind in ("cache", "number"):
            unlink_quietly(os.fsencode(problem.path))
        elif problem.kind == "index":
            index.rebuild(home)
        if problem.kind in ("object", "missing"):
            left.append(problem._replace(todo=_AGAIN))
        elif problem.kind in ("run", "runner", "settings"):
            left.append(problem)
    if any(problem.kind in ("object", "missing") for problem in problems):
        for path in _stat_caches(home, ("stat2-", "stat-")):
            unlink_quietly(os.fsencode(path))  # they say of these objects that they are stored
    return left


class _Audit:
    def __init__(self, home: Home, on_progress: OnProgress) -> None:
        self._home = home
        self._root = os.fsencode(home.objects)
        self._on_progress = on_progress
        self._files = 0
        self._bytes = 0
        self._used: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._names: dict[str, str] = {}

    def problems(self) -> list[Problem]:
        result: list[Problem] = []
        for uid in sorted(runs.uids(self._home)):
            result += self._run(runs.read(self._home, uid))
        for tree in os.listdir(self._home.saved) if os.path.isdir(self._home.saved) else ():
            self._use(tree, f"the saved state {tree[:12]}")
        result += self._objects()
        result += self._missing()
        result += self._caches()
        result += self._counters()
        result += self._runners()
        path = self._home.settings
        result += [Problem("settings", path, what, "fix or delete the file") for what in settings.problems(path)]
        problems = index.problems(self._home)
        result += [Problem("index", self._home.index_file, what, _REBUILD) for what in problems]
        return result

    def _run(self, run: Run) -> Iterator[Problem]:
        for path, what in self._run_files(run):
            self._count(path)
            if what and os.path.isdir(run.path):
                yield Problem("run", path, what, _LOOK)
        name, number = str(run.request.get("run_id", run.uid)), run.request.get("run_number")
        project = str(run.request.get("project_id"))
        if isinstance(number, int) and number < run_numbers.MOST:
            self._numbers[project] = max(number, self._numbers.get(project, 0))
        self._use(str(run.request.get("tree", "")), name)

    def _run_files(self, run: Run) -> Iterator[tuple[str, str]]:
        """Every file of a run, and what is wrong with it."""
        request = layout.request(run.path)
        yield request, run.problem or _check_lines(request, False, _judge_request) or self._check_identity(run)
        git = run.request.get("git")
        diff = git.get("diff") if isinstance(git, dict) else None
        if isinstance(diff, dict):
            path = layout.git_diff(run.path)
            yield path, verify.compare(path, diff.get("bytes"), diff.get("sha256"))
        client = layout.client(run.path)
        yield client, _check_lines(client, _is_alive(run), _judge_lines)
        for number in range(1, run.attempt_number + 1):
            yield from self._attempt_files(runs.attempt(run, number))

    def _check_identity(self, run: Run) -> str:
        """Fields of a wrong type, or a number or id that another run has too."""
        odd = request_file.checked(request_file.read_object(layout.request(run.path))[0])[1]
        if odd:
            return f"these fields have the wrong type: {', '.join(odd)}"
        number = f"number {run.request.get('run_number')} of project {run.request.get('project_id')}"
        for name in (f"id {run.request.get('run_id')}", number):
            other = self._names.setdefault(name, run.uid)
            if other != run.uid:
                return f"run {other} has the {name} too"
        return ""

    def _attempt_files(self, run: Run) -> Iterator[tuple[str, str]]:
        closed = next((event for event in run.events if event.get("type") == "closed"), None)
        alive = _is_alive(run)
        is_here = run.request.get("home") == self._home.path
        events = layout.events(run.attempt)
        yield events, _check_lines(events, alive, _judge_events) or _check_events(run, alive, is_here)
        control = layout.control(run.attempt)
        yield control, _check_lines(control, alive, _judge_lines)
        mark = layout.alive(run.attempt)
        yield mark, _check_lines(mark, alive, _judge_lines)
        if closed is None:
            return
        wrong = verify.damaged(run, closed)
        for name, *_ in verify.promised(closed):
            yield f"{run.attempt}/{name}", wrong.get(name, "")
        for row in history_record.output_rows(run):
            path = output_manifest.path_of(run, row)
            if is_here or os.path.lexists(path):
                yield path, _check_output(path, row)

    def _use(self, tree: str, by: str) -> None:
        """Note the objects of a snapshot and their paths in it."""
        waiting = [(tree, b"", True)] if tree else []
        while waiting:
            digest, path, is_tree = waiting.pop()
            if digest in self._used:
                continue
            self._used[digest] = f"{os.fsdecode(path) or 'the folder itself'} of {by}"
            try:
                entries = objects.read_tree(self._root, digest, path) if is_tree else []
            except (objects.Damaged, OSError, ValueError):
                continue  # reported when the objects are read
            waiting += [
                (entry.digest, os.path.join(path, entry.name), entry.kind == "dir")
                for entry in entries
                if entry.kind != "link"
            ]

    def _objects(self) -> Iterator[Problem]:
        for folder, _, names in os.walk(self._home.objects):
            for name in sorted(names):
                path = os.path.join(folder, name)
                digest = _digest_of(path)
                if len(os.path.basename(folder)) == 2 and len(digest) == 64:
                    what = self._check_object(path, digest)
                    if what:
                        yield Problem(
                            "object", path, f"{what} ({self._used.get(digest, 'not used by any run')})", _REPAIR
                        )

    def _check_object(self, path: str, digest: str) -> str:
        try:
            size = os.stat(path).st_size
        except FileNotFoundError:
            return ""  # pruned since it was listed
        self._count(path)
        return verify.compare(path, size, digest, changed="its content does not match its name")

    def _missing(self) -> Iterator[Problem]:
        for digest, use in self._used.items():
            try:
                path = objects.object_path(self._root, digest)
            except ValueError:
                continue  # no digest: a damaged run.json, reported already, or a file that is not ours
            if not os.path.exists(path):
                yield Problem("missing", os.fsdecode(path), f"missing ({use})", f"{_REPAIR}, then {_AGAIN}")

    def _caches(self) -> Iterator[Problem]:
        for path in _stat_caches(self._home):
            cache = StatCache.load(path)
            self._count(path)
            if not cache.files and not cache.folders and os.path.exists(path):
                yield Problem("cache", path, "it is damaged; unchanged files are read again", _REPAIR)

    def _counters(self) -> Iterator[Problem]:
        for project, highest in self._numbers.items():
            try:
                path = self._home.counter(project)
                with open(path, encoding="ascii", errors="replace") as source:
                    text = source.read().strip()
            except (OSError, ValueError):
                continue  # found again from the runs
            if (untrusted.whole_number(text, 100) or 0) < highest:
                yield Problem("number", path, f"it contains {text[:20]!r}, but the highest run is {highest}", _REPAIR)
        if not run_numbers.is_note_intact(self._home):
            yield Problem("number", self._home.counter("seen"), "it is damaged", _REPAIR)

    def _runners(self) -> Iterator[Problem]:
        top = layout.runners(self._home.path)
        for name in sorted(os.listdir(top)) if os.path.isdir(top) else ():
            folder = os.path.join(top, name)
            if len(name) == 64 and self._hash_runner(folder) != name:
                todo = "delete this folder while no run is active; it is created again"
                yield Problem("runner", folder, "the installed runner was changed", todo)

    def _hash_runner(self, top: str) -> str:
        """The name that the runner's files would have now; as in runner/bootstrap.py."""
        whole = hashlib.sha256()
        paths = {}
        for folder, folders, names in os.walk(top):
            derived = ("__pycache__", "code") if folder == top else ("__pycache__",)  # checked before they are used
            folders[:] = [name for name in folders if name not in derived]
            inner = os.path.relpath(folder, top).replace(os.sep, "/")
            kept = [name for name in names if name not in derived]  # a file keeps Python from writing __pycache__
            paths.update({name if inner == "." else f"{inner}/{name}": os.path.join(folder, name) for name in kept})
        for name, path in sorted(paths.items()):
            self._count(path)
            with open(path, "rb") as source:
                whole.update(as_bytes(name) + b"\0" + hashlib.sha256(source.read()).digest())
        return whole.hexdigest()

    def _count(self, path: str) -> None:
        self._files += 1
        try:
            self._bytes += os.lstat(path).st_size
        except OSError:
            return
        self._on_progress(self._files, self._bytes)


def _check_lines(path: str, alive: bool, judge: Callable[[list[bytes]], str]) -> str:
    """What is wrong with a file of lines; one that is being written to may end within a line."""
    try:
        with open(untrusted.open_file(path), "rb") as source:
            *lines, rest = source.read().split(b"\n")
    except FileNotFoundError:
        return ""
    except (OSError, untrusted.Untrusted) as error:
        return str(error)
    return "it ends within a line" if rest and not alive else judge(lines) or _judge_values(lines)


def _judge_values(lines: list[bytes]) -> str:
    """Values that are intact by their checksum and that no Holdfast writes: numbers beyond 64 bits, half characters."""
    for number, line in enumerate(lines, 1):
        try:
            if untrusted.loads(line) != json.loads(line):
                return f"line {number} has invalid values"
        except (ValueError, RecursionError):
            continue  # reported by other checks
    return ""


def _is_alive(run: Run) -> bool:
    """As the runner judges it, whose folder this may be."""
    if sys.platform == "win32" or any(event.get("type") == "closed" for event in run.events):
        return False  # Windows is never a target
    from holdfast.runner.store import run_files

    try:
        return run_files.may_live(os.fsencode(run.attempt))
    except OSError:
        return False  # a file that cannot be read is reported by other checks


def _check_events(run: Run, alive: bool, is_here: bool) -> str:
    """Whether lines are missing at the end, which no checksum of a line can tell."""
    if alive:
        return ""
    problems = evidence.contradictions(os.fsencode(run.attempt), run.events, is_here)
    closed = next((event for event in run.events if event.get("type") == "closed"), {})
    for line in run.client:
        if line.get("type") == "ledger" and line.get("attempt", run.attempt_name) == run.attempt_name:
            outcome = line.get("outcome", closed.get("outcome"))
            if not closed:
                problems.append("a command saw the run end, but there is no event for it")
            elif outcome != closed.get("outcome"):
                problems.append(f"a command saw the run end as {outcome}, its events show {closed.get('outcome')}")
    return f"lines are missing: {'; '.join(problems)}" if problems else ""


def _judge_request(lines: list[bytes]) -> str:
    return "" if len(lines) == 1 and is_intact(lines[0]) else "it is damaged"


def _judge_lines(lines: list[bytes]) -> str:
    return next((f"line {number} is damaged" for number, line in enumerate(lines, 1) if not is_intact(line)), "")


def _judge_events(lines: list[bytes]) -> str:
    """They count from 0. A line that a killed writer left torn was ended by the next one, which took its number."""
    expected = 0
    is_torn = False
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
            is_torn = False
        except (ValueError, RecursionError):
            is_torn = True
            continue
        if not is_intact(line) or not isinstance(event, dict) or event.get("seq") != expected:
            return f"line {number} or one before it is damaged"
        expected += 1
    return "its last line is damaged" if is_torn else ""


def _check_output(path: str, row: dict[str, object]) -> str:
    if "link" in row:
        try:
            same = os.readlink(path) == row["link"]
        except OSError as error:
            return str(error)
        return "" if same else "the link's target was changed"
    return verify.compare(path, row.get("size"), row.get("sha256"))


def _stat_caches(home: Home, prefixes: tuple[str, ...] = ("stat2-",)) -> list[str]:
    folder = layout.cache(home.path)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in sorted(names) if name.startswith(prefixes)]


def _digest_of(path: str) -> str:
    return os.path.basename(os.path.dirname(path)) + os.path.basename(path)
