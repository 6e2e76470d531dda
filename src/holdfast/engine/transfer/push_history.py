"""Adds runs of this store to a shared folder (``holdfast history push``). Its layout: ``store/shared_folder``.

The objects of a run come first, its line in ``runs/`` last, so that a push that was killed can be repeated: a run
that has its line is complete. The folder is on this machine or on a target.
"""

from __future__ import annotations

import functools
import hashlib
import os

from holdfast import lifecycle
from holdfast.engine.transfer import admission
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes, lossless
from holdfast.runner.store import layout, objects
from holdfast.runner.store.jsonl import sealed
from holdfast.store import archive_export, output_manifest, runs
from holdfast.store.shared import local_folder, shared_folder, shared_labels
from holdfast.store.shared.shared_folder import Content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.store.shared.shared_folder import Author, SharedFolder, Writer

_AT_ONCE, _AT_ONCE_BYTES = 50, 256 << 20  # runs and bytes that are sent and synced together


class Pushed(Record):
    """``present``: runs that are in the folder already. ``open``: they have not ended. ``left_out``: one line each.

    ``labels`` is the number of new names, tags, notes and hidden marks, ``bytes`` what was written.
    """

    new: list[str]
    present: int
    open: list[str]
    left_out: list[str]
    labels: int
    bytes: int


def push(home: Home, uids: list[str], folder: SharedFolder, tell: Callable[[int, int, int], None]) -> Pushed:
    """``tell`` is called with runs looked at, runs in all, and bytes written."""
    present, unfinished = 0, []
    with home.lock("push"), folder.writer(home.id) as writer:
        sender = _Sender(home, folder, writer)
        for done, uid in enumerate(uids):
            sender.on_bytes = functools.partial(tell, done, len(uids))
            sender.on_bytes(sender.bytes)
            run = runs.read(home, uid)
            if not run.problem and lifecycle.state_of(run.events) not in lifecycle.FINAL:
                unfinished.append(str(run.request.get("run_id")))
                continue
            sender.note_labels(run)
            if sender.has(run):
                present += 1
            else:
                sender.add(run)
        sender.send()
        count = sender.send_labels()
    return Pushed(sender.new, present, unfinished, sender.left_out, count, sender.bytes)


class _Ready(Record):
    """A run that can be sent: its line, and what has to be in the folder before."""

    run: Run
    line: Content
    contents: dict[str, Content]


class _Sender:
    def __init__(self, home: Home, folder: SharedFolder, writer: Writer) -> None:
        self._home, self._writer = home, writer
        authors = folder.authors()
        self._present = {author.id: set(folder.names(author, shared_folder.RUNS)) for author in authors}
        self._others = set(self._present) - {home.id}
        self._labels: list[tuple[str, bytes]] = []
        own = [author for author in authors if author.id == home.id]
        self._known_labels = {line for author in own for line in _label_lines(folder, author)}
        self._ready: list[_Ready] = []
        self._ready_bytes = 0
        self.new: list[str] = []
        self.left_out: list[str] = []
        self.bytes = 0
        self.on_bytes: Callable[[int], object] = int

    def has(self, run: Run) -> bool:
        """Another store counts only for runs that came from it, so that a planted line suppresses no push."""
        team = run.request.get("team")
        stores = (self._home.id, team.get("store") if isinstance(team, dict) else None)
        return any(run.uid in self._present.get(str(store), ()) for store in stores)

    def add(self, run: Run) -> None:
        """A run that is damaged here costs one line."""
        try:
            offer = admission.offer_without_outputs(run)
            contents: dict[str, Content] = {}
            files = {name: self._noted(contents, content) for name, content in self._files(run)}
            tree = self._code(run, contents)
        except (admission.Refused, local_folder.Changed, untrusted.Untrusted) as error:
            self._leave_out(run, str(error))
            return
        facts = {"uid": run.uid, "run_id": offer.run_id, "project_id": offer.request["project_id"]}
        facts |= {"project": offer.request["project"], "user": run.request.get("user"), "tree": tree, "files": files}
        line = _content(sealed({"kind": shared_folder.RUN_KIND, **facts}))
        self._ready.append(_Ready(run, line, contents))
        self._ready_bytes += sum(content.size for content in contents.values())
        if len(self._ready) >= _AT_ONCE or self._ready_bytes >= _AT_ONCE_BYTES:
            self.send()

    def send(self) -> None:
        """Objects of the runs so far; when they are on disk, the lines of the runs that have all of theirs."""
        contents = {digest: content for ready in self._ready for digest, content in ready.contents.items()}
        problems = self._writer.send(list(contents.values()), self._count) if contents else {}
        lines = {}
        for ready in self._ready:
            run = ready.run
            problem = next((problems[digest] for digest in ready.contents if digest in problems), "")
            if problem:
                self._leave_out(run, problem)
            else:
                lines[run.uid] = ready.line
                self.new.append(str(run.request.get("run_id")))
        if lines:
            self._writer.publish(lines, [])
            self._present.setdefault(self._home.id, set()).update(lines)
        self._ready, self._ready_bytes = [], 0

    def _count(self, size: int) -> None:
        self.bytes += size
        self.on_bytes(self.bytes)

    def _leave_out(self, run: Run, problem: str) -> None:
        run_id = str(run.request.get("run_id") or run.uid)
        self.left_out.append(f"{run_id}: {problem.removeprefix(f'{run_id}: ')}")

    def note_labels(self, run: Run) -> None:
        lines = shared_labels.contributed(run, self._others)
        self._labels += [(run.uid, line) for line in lines if line not in self._known_labels]

    def send_labels(self) -> int:
        """New labels of runs that the folder has, as one file."""
        everything = set[str]().union(*self._present.values())
        lines = [line for uid, line in self._labels if uid in everything]
        if lines:
            self._writer.publish({}, [_content(b"".join(lines))])
        return len(lines)

    def _files(self, run: Run) -> Iterator[tuple[str, Content]]:
        """Plain files of the run, with size and hash; of outputs those that are as the run left them."""
        outputs = dict(_outputs(run))
        for name in archive_export.file_names(run):
            path = os.path.join(run.path, *name.split("/"))
            if name == layout.client.name or not archive_export.is_plain(path):
                continue
            size, digest = _fingerprint(path)
            if name.partition("/")[2].startswith("outputs/") and outputs.get(path) != (size, digest):
                self._leave_out(run, f"{name}: it is not as the run left it")
                continue
            yield lossless(as_bytes(name)), Content(digest, size, path)
        yield layout.client.name, _content(shared_labels.without_labels(run))

    def _noted(self, contents: dict[str, Content], content: Content) -> list[object]:
        contents[content.digest] = content
        return [content.size, content.digest]

    def _code(self, run: Run, contents: dict[str, Content]) -> str:
        """The digest of its snapshot; empty where it has none, or not all of it is here."""
        tree, root = run.request.get("tree"), os.fsencode(self._home.objects)
        if not isinstance(tree, str) or not tree:
            return ""
        try:
            digests = archive_export.needed(root, tree)
        except (objects.Damaged, ValueError) as error:
            self._leave_out(run, f"its code, which is incomplete here ({error})")
            return ""
        for digest in sorted(digests):
            path = os.fsdecode(objects.object_path(root, digest))
            contents[digest] = Content(digest, os.stat(path).st_size, path)
        return tree


def _content(data: bytes) -> Content:
    return Content(hashlib.sha256(data).hexdigest(), len(data), "", data)


def _label_lines(folder: SharedFolder, author: Author) -> Iterator[bytes]:
    names = folder.names(author, shared_folder.LABELS)
    folder.bring(author, shared_folder.LABELS, dict.fromkeys(names, shared_folder.LARGEST_LINES))
    for name in names:
        try:
            yield from shared_folder.read_labels(author, name)
        except (OSError, ValueError):
            continue  # store verify names it


def _outputs(run: Run) -> Iterator[tuple[str, tuple[object, object]]]:
    """Size and hash of every output of every attempt, by path."""
    for number in range(1, run.attempt_number + 1):
        attempt = runs.attempt(run, number)
        for row in output_manifest.rows(attempt):
            yield output_manifest.path_of(attempt, row), (row.get("size"), row.get("sha256"))


def _fingerprint(path: str) -> tuple[int, str]:
    size, state = 0, hashlib.sha256()
    for block in local_folder.blocks(path):
        size += len(block)
        state.update(block)
    return size, state.hexdigest()
