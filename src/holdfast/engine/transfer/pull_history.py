"""Adds the runs of a shared folder to this store (``holdfast history pull FOLDER``).

What others wrote there is untrusted, as an archive is: names, sizes, hashes and fields are checked, and a run that
fails a check costs one line. Nothing that is in the store is replaced.
"""

from __future__ import annotations

import errno
import os

from holdfast.engine.transfer import admission
from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.store import layout, object_removal, objects
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import mirror, runs, trash
from holdfast.store.home import Home
from holdfast.store.shared import shared_folder, shared_labels
from holdfast.store.staging import Staging, free_id, taken_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.transfer.pull_runs import Offer
    from holdfast.model import Json, Project
    from holdfast.store.shared.shared_folder import Author, SharedFolder, SharedRun

_AT_ONCE, _AT_ONCE_BYTES = 50, 256 << 20  # runs and bytes that are synced together
_LARGEST = 64 << 20  # of run.json and other files that are read as a whole
_MOST_NUMBER = 10**8  # a run number of one's own that is kept
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Pulled(Record):
    """``new``: run ids. ``present``: runs that are here or in the trash. ``left_out``: one line for each problem.

    ``labels`` is the number of names, tags, notes and hidden marks that were added; ``changed`` the uids that got one.
    ``others`` is the number of new runs of other projects, which were not wanted.
    """

    new: list[str]
    present: int
    left_out: list[str]
    labels: int
    changed: list[str]
    others: int


class _Candidate(Record):
    """A run that is new here; what is sorted, so that numbers follow the order in which runs were made."""

    author: Author
    uid: str
    run_id: str


def pull(
    home: Home, project: Project, folder: SharedFolder, wanted: Wanted, tell: Callable[[int, int, int], None]
) -> Pulled:
    """``project`` is the present one. ``tell`` is called with runs done, runs in all (0: not known), and bytes read."""
    authors = [author for author in folder.authors() if wanted.is_from(author)]
    if wanted.author and not authors:
        raise UsageError("no store in this folder has this owner or id", where=folder.name, answer=wanted.author)
    with Staging(home) as stage, object_removal.Kept(os.fsencode(home.objects)):
        receiver = _Receiver(home, project, folder, stage)
        candidates, present = receiver.choose(authors, wanted, tell)
        for done, candidate in enumerate(candidates):
            tell(done, len(candidates), receiver.bytes)
            receiver.receive(candidate)
        receiver.publish()
    changed, count = _merge_labels(home, folder, authors, receiver.left_out)
    return Pulled(receiver.new, present, receiver.left_out, count, changed, receiver.others)


class Wanted(Record):
    """Which runs: of this project (empty: all), of stores with this owner or id (empty: all)."""

    project_id: str
    author: str = ""

    def is_from(self, author: Author) -> bool:
        return not self.author or self.author in (author.id, author.owner_name)


class _Receiver:
    def __init__(self, home: Home, project: Project, folder: SharedFolder, stage: Staging) -> None:
        self._home, self._project, self._folder, self._stage = home, project, folder, stage
        self._ready: list[tuple[_Candidate, Offer, list[str]]] = []
        self._ready_bytes = 0
        self._taken = taken_ids(home)
        self.new: list[str] = []
        self.left_out: list[str] = []
        self.others = 0
        self.bytes = 0

    def choose(
        self, authors: list[Author], wanted: Wanted, tell: Callable[[int, int, int], None]
    ) -> tuple[list[_Candidate], int]:
        """Runs that are new here, by store and age, and how many are here already."""
        here = {*runs.uids(self._home), *trash.uids(self._home)}
        seen: dict[str, tuple[Author, SharedRun]] = {}
        conflicts: set[str] = set()
        present = set()
        for author in authors:
            names = self._folder.names(author, shared_folder.RUNS)
            present.update(here.intersection(names))
            new = [uid for uid in names if uid not in here]
            wrong = self._folder.bring(author, shared_folder.RUNS, dict.fromkeys(new, shared_folder.LARGEST_LINES))
            for uid in new:
                tell(len(seen), 0, 0)
                try:
                    _refuse_if(wrong.get(uid))
                    shared = shared_folder.read_run(author, uid)
                except (OSError, ValueError) as error:
                    self._leave_out(author, uid, error)
                    continue
                if wanted.project_id and shared.project_id != wanted.project_id.lower():
                    self.others += 1
                    continue
                first, other = seen.setdefault(uid, (author, shared))
                if other is shared or uid in conflicts:
                    continue
                if self._evidence(first, other) != self._evidence(author, shared):
                    conflicts.add(uid)
                    hint = f"--author {first.id} or --author {author.id} decides"
                    self.left_out.append(f"{shared.run_id}: two stores offer it with different contents; {hint}")
        kept = ((author, shared) for uid, (author, shared) in seen.items() if uid not in conflicts)
        order = {author.id: number for number, author in enumerate(authors)}
        candidates = [_Candidate(author, shared.uid, shared.run_id) for author, shared in kept]
        return sorted(candidates, key=lambda item: (order[item.author.id], _stamp(item.run_id))), len(present)

    def _evidence(self, author: Author, shared: SharedRun) -> tuple[object, ...]:
        _, digest = shared.files.get("run.json", (0, ""))
        if digest:
            self._folder.bring(author, shared_folder.OBJECTS, {digest: _LARGEST})
        return shared_folder.evidence(author, shared)

    def receive(self, candidate: _Candidate) -> None:
        """Copy a run to the staging folder and check it; publish when there are enough."""
        before = self.bytes
        try:
            shared = shared_folder.read_run(candidate.author, candidate.uid)
            self._copy(candidate.author, shared)
            offer = admission.offer(runs.read(Home(self._stage.path, ""), candidate.uid))
            digests = admission.new_objects(self._home, self._stage, shared.tree) if shared.tree else []
            if shared.tree not in ("", offer.request.get("tree")):
                raise admission.Refused("it names the code of another run")
        except (OSError, ValueError, objects.Damaged) as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            remove_tree(os.fsencode(self._stage.run(candidate.uid)))
            self._leave_out(candidate.author, candidate.run_id, error)
            return
        finally:
            self._folder.forget(candidate.author)
        self._ready.append((candidate, offer, digests))
        self._ready_bytes += self.bytes - before
        if len(self._ready) >= _AT_ONCE or self._ready_bytes >= _AT_ONCE_BYTES:
            self.publish()

    def _leave_out(self, author: Author, name: str, error: Exception) -> None:
        reason = _reason(error, author.path, self._stage.path).removeprefix(f"{name}: ")
        self.left_out.append(f"{name} of {author.owner_name or author.id}: {reason}")

    def publish(self) -> None:
        self._stage.settle()
        for candidate, offer, digests in self._ready:
            admission.adopt(self._home, self._stage, digests)
            run_id = free_id(offer.run_id, self._taken)
            author = candidate.author
            request = admission.request(self._project, offer)
            request["team"] = {"store": author.id, "owner": author.owner_name}
            # Its old number is kept for one's own runs only: others could use up the numbers of a project.
            at_least = offer.number if author.is_own and offer.number < _MOST_NUMBER else 1
            if self._stage.publish(candidate.uid, run_id, request, at_least) is not None:
                self._taken.add(run_id)
                self.new.append(run_id)
        self._ready, self._ready_bytes = [], 0

    def _copy(self, author: Author, shared: SharedRun) -> None:
        _refuse_without_space(self._home.path, shared.bytes * self._folder.copies)
        self._refuse_oversized(shared)
        self._bring(author, {digest: size for size, digest in shared.files.values()})
        for name, (size, digest) in shared.files.items():
            target = self._stage.run(shared.uid, shared_folder.local_name(name))
            shared_folder.copy_object(author, digest, size, target)
            self.bytes += size
        if shared.tree:
            self._copy_code(author, shared.tree)

    def _refuse_oversized(self, shared: SharedRun) -> None:
        quotas: dict[str, mirror.Quota] = {}
        for name, (size, _) in shared.files.items():
            attempt, _, inner = name.partition("/")
            quota = quotas.setdefault(attempt, mirror.Quota(None, {}))
            if not inner.startswith("outputs/"):
                limit = quota.limit(inner) if mirror.is_mirrored(inner) else _LARGEST
                if size > limit:
                    raise admission.Refused(f"{name}: {size} bytes, at most {limit} are read")
                quota.count(inner, size)

    def _bring(self, author: Author, limits: dict[str, int], most: int | None = None) -> None:
        problems = self._folder.bring(author, shared_folder.OBJECTS, limits, most)
        _refuse_if(next(iter(problems.values()), None))

    def _copy_code(self, author: Author, tree: str) -> None:
        """Objects of a snapshot that are not in the store, folders behind what they hold."""

        def bring(digests: list[str], most: int) -> None:
            self._bring(author, dict.fromkeys(digests, most), most)

        folders = []
        new: dict[str, int] = {}
        for digest, size, entries in shared_folder.trees(author, tree, self._has, bring):
            folders.append((digest, size))
            new.update(
                (each.digest, each.size) for each in entries if each.kind == "file" and not self._has(each.digest)
            )
        _refuse_without_space(self._home.path, sum(new.values()) * self._folder.copies)
        self._bring(author, new)
        for digest, size in new.items():
            shared_folder.copy_object(author, digest, size, self._staged(digest))
            self.bytes += size
        for digest, size in reversed(folders):
            shared_folder.copy_object(author, digest, size, self._staged(digest))

    def _has(self, digest: str) -> bool:
        return objects.has(os.fsencode(self._home.objects), digest) or os.path.exists(self._staged(digest))

    def _staged(self, digest: str) -> str:
        return os.fsdecode(objects.object_path(os.fsencode(layout.objects(self._stage.path)), digest))


def _merge_labels(
    home: Home, folder: SharedFolder, authors: list[Author], left_out: list[str]
) -> tuple[list[str], int]:
    """Uids of runs that got new labels, and how many."""
    offered: dict[str, list[tuple[str, Json]]] = {}
    for author in authors:
        names = folder.names(author, shared_folder.LABELS) if author.id != home.id else []
        wrong = folder.bring(author, shared_folder.LABELS, dict.fromkeys(names, shared_folder.LARGEST_LINES))
        for name in names:
            try:
                _refuse_if(wrong.get(name))
                lines = shared_folder.read_labels(author, name)
            except (OSError, ValueError) as error:
                left_out.append(_labels_left_out(author, error))
                continue
            values, problems = _labels(lines, author.labels_path(name))
            left_out += [_labels_left_out(author, problem) for problem in problems]
            for line in values:
                offered.setdefault(str(line["uid"]), []).append((author.id, line))
    own = {author.id for author in authors if author.is_own}
    counts = {
        uid: shared_labels.merge(home, runs.read(home, uid), offered[uid], own)
        for uid in runs.uids(home)
        if uid in offered
    }
    return [uid for uid, count in counts.items() if count], sum(counts.values())


def _labels(lines: list[bytes], path: str) -> tuple[list[Json], list[Exception]]:
    """The labels of a file; and what is wrong with versions of its lines, each kind of problem once."""
    values: list[Json] = []
    problems: dict[type[Exception], Exception] = {}
    for number, value in enumerate(map(_value, lines), 1):
        try:
            shared_folder.check_version(value, f"{path}: line {number}")
        except ValueError as error:
            problems.setdefault(type(error), error)
            continue
        if shared_labels.is_label(value):
            values.append(value)
    return values, list(problems.values())


def _labels_left_out(author: Author, error: Exception) -> str:
    return f"labels of {author.owner_name or author.id}: {_reason(error, author.path)}"


def _value(line: bytes) -> Json:
    """Empty where the line has none: one damaged line costs one line."""
    try:
        value = untrusted.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _reason(error: Exception, *folders: str) -> str:
    """The message, with paths as they are in these folders."""
    text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else str(error)
    for folder in folders:
        text = text.replace(f"{folder}{os.sep}", "")
    return text


def _refuse_if(problem: str | None) -> None:
    if problem:
        raise admission.Refused(problem)


def _refuse_without_space(path: str, needed: int) -> None:
    if hasattr(os, "statvfs"):
        status = os.statvfs(path)
        free = status.f_bavail * status.f_frsize
        if needed > free:
            raise admission.Refused(f"it has {needed} bytes, {free} are free in the store")


def _stamp(run_id: str) -> int:
    digits = run_id.rpartition("_")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0
