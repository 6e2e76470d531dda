"""Collects the files of outputs/: moves them out of the script's folder and lists their sizes and hashes."""

import errno
import hashlib
import os
import stat
import time

from .. import wire
from ..decoding import as_bytes, lossless, readable
from ..machine import limits
from ..store import layout
from ..store.files import SYNCED, UNSYNCED, WholeFile, is_temporary, unlink_quietly
from ..store.permissions import open_file, open_folder
from . import checkpoints

MYPY = False
if MYPY:
    from ..plan import Plan

_RESERVE_KEPT = 32 * 1024  # bytes of the reserve that are left to the last events
_BLOCK = 1024 * 1024
_NAMED = 20  # files that the closing event names; the manifest has them all
_EXECUTE = (("u", stat.S_IXUSR), ("g", stat.S_IXGRP), ("o", stat.S_IXOTH))
_LARGEST_HOLE = (
    1 << 40
)  # bytes of a sparse file that are not stored; reading them would take the better part of an hour


class Collected:
    """What a run left.

    ``trouble`` says line by line what could not be kept, empty when all is well; ``unlisted`` why there is no
    manifest: then ``list_late`` may still write it. ``checkpoints``: their folder in outputs/, if there are any.
    ``kept``: the event about files elsewhere, or empty.
    """

    def __init__(self) -> "None":
        self.files = self.size = 0
        self.trouble = self.unlisted = self.checkpoints = ""
        self.kept = {}  # type: dict[str, object]
        self.over_limit = False  # whether files stay in the script's folder because of a limit

    def details(self) -> "dict[str, object]":
        """What the closing event says of them."""
        fields = {"outputs_trouble": self.trouble, "unlisted": self.unlisted, "checkpoints": self.checkpoints}
        return {name: value for name, value in fields.items() if value}

    def add_trouble(self, lines: "list[str]") -> "None":
        self.trouble = "\n".join([part for part in [self.trouble, *lines] if part])

    def fail(self, what: "str", error: "OSError", folder: "bytes") -> "Collected":
        self.unlisted = "%s: %s; the files are in %s" % (what, limits.reason(error), shown(folder))
        self.add_trouble([self.unlisted])
        return self


def collect(attempt: "bytes", plan: "Plan | None" = None, since: "int" = 0) -> "Collected":
    """Keep work/outputs as outputs/ beside it, then the other files that the script wrote, and write the manifest.

    ``since`` is when the script's folder was complete (see ``project_files.keep``).
    """
    result = Collected()
    made, kept = layout.outputs(layout.work(attempt)), layout.outputs(attempt)
    if not _replaced(attempt):
        result.checkpoints, trouble = checkpoints.keep(attempt)
        result.add_trouble([trouble])
    try:
        result.add_trouble([_keep(made, kept)])
    except OSError as error:
        return result.fail("outputs/ could not be stored", error, made)
    folder = b""
    if plan is not None and not _replaced(attempt):
        from . import project_files

        others = project_files.keep(attempt, plan, since)
        folder, result.kept, result.over_limit = others.folder, others.told, others.over_limit
        result.add_trouble(_few(others.trouble))
    try:
        result.files, result.size, unread = _write_manifest(attempt, folder)
    except OSError as error:
        return result.fail("the list of outputs could not be written", error, kept)
    result.add_trouble(_few(unread))
    return result


def list_late(attempt: "bytes", events: "list[dict[str, object]]") -> "None":
    """Write the manifest of a closed attempt that has none because the disk was full when its script ended.

    A manifest that is there, or that the closing event has a hash of, is never touched.
    """
    if os.path.lexists(layout.manifest(attempt)):
        return
    kinds = {str(event.get("type")): event for event in events}
    files = kinds.get("closed", {}).get("files")
    if "exited" not in kinds or not isinstance(files, dict) or layout.manifest.name in files:
        return
    made, kept = layout.outputs(layout.worked_in(attempt)), layout.outputs(attempt)
    folder = as_bytes(kinds.get("kept", {}).get("folder") or "")
    try:
        if os.path.isdir(made) and not os.path.islink(made) and not _replaced(attempt):
            _open_up(made)
            os.rename(made, kept)
        if os.path.isdir(kept) and not os.path.islink(kept):
            _write_manifest(attempt, folder)
    except OSError:
        return  # the disk may still be full


def _write_manifest(attempt: "bytes", folder: "bytes") -> "tuple[int, int, list[str]]":
    """The whole manifest or none: number of files and of bytes, and what could not be read.

    ``folder`` is the one in outputs/ that has the files from outside it.
    """
    kept = layout.outputs(attempt)
    files = size = 0
    unread = []  # type: list[str]
    with WholeFile(layout.manifest(attempt), sync=SYNCED) as target:
        for name, problem in _names(kept):
            project = name[len(folder) + 1 :] if folder and name.startswith(folder + b"/") else b""
            row = _row(os.path.join(kept, name), name, problem)
            if "unread" in row:
                unread.append("%s could not be read: %s" % (shown(project or b"outputs/" + name), row["skipped"]))
            if project:
                row["project"] = lossless(project)
            _append(target.fileno(), wire.dumps(row) + b"\n", attempt)
            files += 1
            size += row["size"] if isinstance(row["size"], int) else 0
    return files, size, unread


def remove_partial(attempt: "bytes") -> "None":
    """Remove what a supervisor was writing when it was killed: the manifest, the list of packages."""
    for path in (layout.manifest(attempt), layout.package_file(attempt)):
        folder, begun = os.path.split(path)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.startswith(begun) and is_temporary(name):
                unlink_quietly(os.path.join(folder, name))


def _append(fd: "int", line: "bytes", attempt: "bytes") -> "None":
    """On a full disk a part of the reserve is given back first; the last events need the rest."""
    at = os.lseek(fd, 0, os.SEEK_CUR)
    try:
        wire.write_all(fd, line)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not _shrink_reserve(attempt):
            raise
        os.ftruncate(fd, at)
        os.lseek(fd, at, os.SEEK_SET)
        wire.write_all(fd, line)


def _shrink_reserve(attempt: "bytes") -> "bool":
    path = layout.reserve(attempt)
    try:
        if os.lstat(path).st_size <= _RESERVE_KEPT:
            return False
        os.truncate(path, _RESERVE_KEPT)
    except OSError:
        return False
    return True


def unlisted(attempt: "bytes") -> "tuple[int, int]":
    """Number and bytes of the outputs of an attempt that no manifest lists."""
    files = size = 0
    if not os.path.lexists(layout.manifest(attempt)):
        made = (layout.outputs(layout.worked_in(attempt)), layout.checkpoints(attempt))
        for top in (layout.outputs(attempt), *(() if _replaced(attempt) else made)):
            for name, _ in _names(top) if os.path.isdir(top) and not os.path.islink(top) else ():
                files += 1
                try:
                    size += os.lstat(os.path.join(top, name)).st_size
                except OSError:
                    continue  # it counts all the same
    return files, size


def _few(problems: "list[str]") -> "list[str]":
    more = len(problems) - _NAMED
    return problems[:_NAMED] + (["and %d more, all listed in outputs.jsonl" % more] if more > 0 else [])


def _replaced(attempt: "bytes") -> "str":
    """A sentence if the script put a link in the place of its folder: what the link leads to is not the run's."""
    folder = layout.worked_in(attempt)
    while folder != attempt:
        if os.path.islink(folder):
            target = shown(os.readlink(folder))
            return "the run's folder was replaced by a symbolic link to %s; nothing was collected" % target
        folder = os.path.dirname(folder)
    return ""


def _keep(made: "bytes", kept: "bytes") -> "str":
    trouble = _replaced(os.path.dirname(kept))
    if not trouble:
        _open_up(made)
    if not trouble and os.path.islink(made):
        trouble = "outputs/ was replaced by a symbolic link to %s; it was not collected" % shown(os.readlink(made))
    elif not trouble and os.path.isdir(made):
        os.rename(made, kept)
        return ""
    trouble = trouble or "outputs/ did not exist when the script ended; nothing was collected"
    os.mkdir(kept, 0o700)
    return trouble


def _open_up(made: "bytes") -> "None":
    """To move a folder elsewhere, the folder itself must be writable too."""
    work = os.path.dirname(made)
    above = os.path.dirname(work)
    for folder in (os.path.dirname(above), above, work):
        open_folder(folder)
    open_folder(made)


def _names(top: "bytes") -> "list[tuple[bytes, str]]":
    """Every file below, links not followed. A folder that cannot be read is named too, with the reason."""
    rows = []
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        open_folder(os.path.join(top, folder))
        try:
            entries = list(os.scandir(os.path.join(top, folder)))
        except OSError as error:
            rows.append((folder, limits.reason(error)))
            continue
        for entry in entries:
            name = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            else:
                rows.append((name, ""))
    return sorted(rows)


def _row(path: "bytes", name: "bytes", problem: "str") -> "dict[str, object]":
    """The line of the manifest; with ``unread`` if the file or folder could not be read."""
    try:
        if problem:
            raise OSError(problem)
        status = os.lstat(path)
        row = {"path": lossless(name), "size": 0, "seen_ns": int(time.time() * 1e9)}
        row["mtime_ns"] = status.st_mtime_ns
        if stat.S_ISLNK(status.st_mode):
            row["link"] = lossless(os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            _refuse_hole(status)
            open_file(path, status)
            _make_own(path, status)
            row["size"], row["sha256"] = digest(path)
            who = "".join(letter for letter, bit in _EXECUTE if status.st_mode & bit)
            if who:
                row["executable"] = who
        else:
            row["skipped"] = "not a plain file"
    except OSError as error:
        return {"path": lossless(name), "size": 0, "skipped": limits.reason(error), "unread": True}
    return row


def _refuse_hole(status: "os.stat_result") -> "None":
    stored = status.st_blocks * 512
    if status.st_size - stored > _LARGEST_HOLE:
        raise OSError(errno.EFBIG, "a sparse file of %d bytes, of which %d are stored" % (status.st_size, stored))


def _make_own(path: "bytes", status: "os.stat_result") -> "None":
    """Replace a file that has other names, perhaps outside, or a set-user-ID or set-group-ID bit, by a plain copy."""
    if status.st_nlink <= 1 and not status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        return
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as source, WholeFile(path, status.st_mode & 0o777, UNSYNCED) as target:
        for block in iter(lambda: source.read(_BLOCK), b""):
            if block.count(0) == len(block):
                target.seek(len(block), os.SEEK_CUR)  # holes stay holes
            else:
                target.write(block)
        target.truncate(target.tell())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def shown(name: "bytes") -> "str":
    text = readable(name)
    return text if text.isprintable() and "\\" not in text else ascii(text)


def digest(path: "bytes", sync: "bool" = True) -> "tuple[int, str]":
    """Length and SHA-256 of a file, synced to disk on the way: the files of the closing event must be durable."""
    state = hashlib.sha256()
    size = 0
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if sync:
            os.fsync(fd)
        while True:
            block = os.read(fd, _BLOCK)
            if not block:
                return size, state.hexdigest()
            state.update(block)
            size += len(block)
    finally:
        os.close(fd)
