"""Adds runs of this store to a shared folder (``holdfast history push``). Its layout: ``store/shared_folder``.

The objects of a run come first, its line in ``runs/`` last, so that a push that was killed can be repeated: a run
that has its line is complete.
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
from holdfast.store.shared import shared_folder, shared_labels
from holdfast.store.shared.shared_writer import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_BLOCK = 1024 * 1024
_AT_ONCE, _AT_ONCE_BYTES = 50, 256 << 20  # runs and bytes that are synced together


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


def push(home: Home, uids: list[str], folder: str, tell: Callable[[int, int, int], None]) -> Pushed:
    """``tell`` is called with runs looked at, runs in all, and bytes written."""
    present, unfinished = 0, []
    with home.lock("push"), Writer(folder, home.id) as writer:
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
                sender.send(run)
        sender.publish()
        count = sender.send_labels()
    return Pushed(sender.new, present, unfinished, sender.left_out, count, sender.bytes)


class _Sender:
    def __init__(self, home: Home, folder: str, writer: Writer) -> None:
        self._home, self._writer = home, writer
        self._present = {author.id: set(shared_folder.uids(author)) for author in shared_folder.authors(folder)}
        self._others = set(self._present) - {home.id}
        self._labels: list[tuple[str, bytes]] = []
        self._known_labels = set(_label_lines(shared_folder.Author(home.id, writer.path, -1)))
        self._ready: list[tuple[Run, bytes]] = []
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

    def send(self, run: Run) -> None:
        """A run that is damaged here costs one line."""
        run_id, before = str(run.request.get("run_id") or run.uid), self.bytes
        try:
            offer = admission.offer_without_outputs(run)
            files = dict(self._send_files(run))
            tree = self._send_code(run)
        except (admission.Refused, untrusted.Untrusted) as error:
            self.left_out.append(f"{run_id}: {str(error).removeprefix(f'{run_id}: ')}")
            return
        facts = {"uid": run.uid, "run_id": offer.run_id, "project_id": offer.request["project_id"]}
        facts |= {"project": offer.request["project"], "user": run.request.get("user"), "tree": tree, "files": files}
        self._ready.append((run, sealed({"kind": shared_folder.RUN_KIND, **facts})))
        self._ready_bytes += self.bytes - before
        if len(self._ready) >= _AT_ONCE or self._ready_bytes >= _AT_ONCE_BYTES:
            self.publish()

    def publish(self) -> None:
        """Runs whose objects are on disk get their lines."""
        self._writer.settle()
        for run, line in self._ready:
            self._writer.put(f"{shared_folder.RUNS}/{run.uid}.json", (line,))
            self._present.setdefault(self._home.id, set()).add(run.uid)
            self.new.append(str(run.request.get("run_id")))
        self._writer.settle()
        self._ready, self._ready_bytes = [], 0

    def note_labels(self, run: Run) -> None:
        lines = shared_labels.contributed(run, self._others)
        self._labels += [(run.uid, line) for line in lines if line not in self._known_labels]

    def send_labels(self) -> int:
        """New labels of runs that the folder has, as one file."""
        everything = set[str]().union(*self._present.values())
        lines = [line for uid, line in self._labels if uid in everything]
        if lines:
            data = b"".join(lines)
            self._writer.put(f"{shared_folder.LABELS}/{hashlib.sha256(data).hexdigest()}.jsonl", (data,))
            self._writer.settle()
        return len(lines)

    def _send_files(self, run: Run) -> Iterator[tuple[str, list[object]]]:
        """Plain files of the run, with size and hash; of outputs those that are as the run left them."""
        outputs = dict(_outputs(run))
        for name in archive_export.file_names(run):
            path = os.path.join(run.path, *name.split("/"))
            if name == layout.client.name or not archive_export.is_plain(path):
                continue
            size, digest = _fingerprint(path)
            if name.partition("/")[2].startswith("outputs/") and outputs.get(path) != (size, digest):
                self.left_out.append(f"{run.request.get('run_id')}: {name}: it is not as the run left it")
                continue
            self._put(size, digest, _pieces(path, digest))
            yield lossless(as_bytes(name)), [size, digest]
        client = shared_labels.without_labels(run)
        digest = hashlib.sha256(client).hexdigest()
        self._put(len(client), digest, (client,))
        yield layout.client.name, [len(client), digest]

    def _send_code(self, run: Run) -> str:
        """The digest of its snapshot; empty where it has none, or not all of it is here."""
        tree, root = run.request.get("tree"), os.fsencode(self._home.objects)
        if not isinstance(tree, str) or not tree:
            return ""
        try:
            digests = archive_export.needed(root, tree)
        except (objects.Damaged, ValueError) as error:
            self.left_out.append(f"{run.request.get('run_id')}: its code, which is incomplete here ({error})")
            return ""
        for digest in sorted(digests):
            path = os.fsdecode(objects.object_path(root, digest))
            self._put(os.stat(path).st_size, digest, _pieces(path, digest))
        return tree

    def _put(self, size: int, digest: str, pieces: Iterable[bytes]) -> None:
        name = f"{shared_folder.OBJECTS}/{digest[:2]}/{digest[2:]}"
        if self._writer.size(name) != size:
            self._writer.put(name, pieces)
            self.bytes += size
            self.on_bytes(self.bytes)


def _label_lines(author: shared_folder.Author) -> Iterator[bytes]:
    for path in shared_folder.label_files(author):
        try:
            yield from shared_folder.read_labels(path, author)
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
    for block in _blocks(path):
        size += len(block)
        state.update(block)
    return size, state.hexdigest()


def _pieces(path: str, digest: str) -> Iterator[bytes]:
    """The content of a file that is known to hash to this."""
    state = hashlib.sha256()
    for block in _blocks(path):
        state.update(block)
        yield block
    if state.hexdigest() != digest:
        raise admission.Refused(f"{path}: its content does not match its hash")


def _blocks(path: str) -> Iterator[bytes]:
    try:
        with open(untrusted.open_file(path, follow=False), "rb") as source:
            while block := source.read(_BLOCK):
                yield block
    except OSError as error:
        raise admission.Refused(f"{path}: {error.strerror}") from None
