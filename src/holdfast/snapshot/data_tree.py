"""A folder or file of data as content: every file of it is hashed once, and only the trees that name them are stored.

No ignore rules apply. Links, pipes and devices are refused. The files stay where they are: they are read again when
they are sent, and the target compares what arrives with the hash.
"""

from __future__ import annotations

import os
import stat

from holdfast.errors import ConfigError
from holdfast.record import Record
from holdfast.runner.store.objects import Batch, HashOnly, read_tree
from holdfast.snapshot.scan import Findings, Folder, Walk, shown
from holdfast.snapshot.snapshot import Pending
from holdfast.snapshot.stat_cache import StatCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runner.store.objects import OnBytes
    from holdfast.snapshot.ignore import Rule, Rules


class DataTree(Record):
    """``file``: the name of the only file, where a file was named and not a folder."""

    tree: str
    files: int
    bytes: int
    folder: str
    file: str = ""


def take(
    source: str, *, objects: str | None, cache: str, on_progress: Callable[[int, int], None] | None = None
) -> DataTree:
    """Hash what changed since the last time. With ``objects=None`` nothing is written."""
    file = "" if os.path.isdir(source) else os.path.basename(source)
    folder = os.path.dirname(source) if file else source
    findings = _DataFindings(folder, source)
    known = StatCache.load(cache)
    top = _DataWalk(findings, known, ()).from_top(os.fsencode(file))
    findings.refuse_unreadable()
    pending = Pending(findings, known, cache, top, _TreesOnly)
    taken = pending.store(objects, on_progress)
    return DataTree(taken.tree, taken.files, taken.bytes, folder, file)


def paths(objects: str, tree: str) -> dict[str, bytes]:
    """Where a file with this content is, below the folder that was hashed."""
    by_digest: dict[str, bytes] = {}
    waiting = [(tree, b"")]
    while waiting:
        digest, prefix = waiting.pop()
        for entry in read_tree(os.fsencode(objects), digest):
            if entry.kind == "dir":
                waiting.append((entry.digest, prefix + entry.name + b"/"))
            else:
                by_digest.setdefault(entry.digest, prefix + entry.name)
    return by_digest


class _TreesOnly(HashOnly):
    """Keeps trees; files are hashed and kept nowhere."""

    def __init__(self, root: bytes) -> None:
        super().__init__()
        self._trees = Batch(root)

    def __enter__(self) -> _TreesOnly:
        return self

    def __exit__(self, *failure: object) -> None:
        self._trees.__exit__(*failure)

    def add_file(self, source: int | bytes, on_bytes: OnBytes = None) -> tuple[str, os.stat_result]:
        return HashOnly().add_file(source, on_bytes)

    def add_bytes(self, data: bytes) -> str:
        return self._trees.add_bytes(data)

    def commit(self) -> None:
        self._trees.commit()


class _DataFindings(Findings):
    def __init__(self, folder: str, source: str) -> None:
        super().__init__(folder, skip_unreadable=False)
        self._source = source

    def leave_out(self, path: bytes, why: Rule | str, advice: str = "") -> None:
        raise self._refusal(path, f"{why}{advice}")

    def cannot_read(self, path: bytes, answer: str | None) -> None:
        raise self._refusal(path, f"it cannot be read ({answer or 'unreadable'})")

    def _refusal(self, path: bytes, why: str) -> ConfigError:
        hint = "data may hold regular files and folders only"
        return ConfigError(
            "this file cannot be part of data", where=f"{self._source}: {shown(path)}", answer=why, hint=hint
        )


class _DataWalk(Walk):
    """All files of a folder, or one file of it."""

    def from_top(self, only: bytes) -> Folder:
        root = self._findings.root
        try:
            with os.scandir(root) as listing:
                entries = [entry for entry in listing if not only or entry.name == only]
        except OSError as error:
            raise ConfigError("the data cannot be read", where=shown(root), answer=str(error)) from error
        return self._fill(Folder(b""), entries, _NoRules(), 0)  # type: ignore[arg-type]

    def _marked(self, names: set[bytes]) -> None:
        """A folder of data is never left out."""

    def _secret_folder(self, name: bytes, path: bytes, rules: Rules) -> str:  # noqa: ARG002
        return ""

    def _link(self, folder: Folder, name: bytes, path: bytes, status: os.stat_result) -> None:  # noqa: ARG002
        self._findings.leave_out(path, "it is a symbolic link")

    def _admits(self, name: bytes, path: bytes, status: os.stat_result, rules: Rules) -> bool:  # noqa: ARG002
        if not stat.S_ISREG(status.st_mode):
            self._findings.leave_out(path, "it is not a regular file", " but a pipe, socket or device")
        self._findings.new.append((status.st_size, path))
        return True


class _NoRules:
    """Data is sent as it is."""

    def leaves_out(self, name: bytes, path: bytes, is_folder: bool) -> None:  # noqa: ARG002
        return None

    def inside(self, folder: bytes, path: bytes, names: set[bytes]) -> _NoRules:  # noqa: ARG002
        return self
