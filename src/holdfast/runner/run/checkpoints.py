"""The folder of checkpoints: made before the script starts, taken over from an earlier attempt, kept among the outputs.

While the script runs, the folder is beside its own. In ``outputs/`` it would be found by scripts and libraries that ask
whether ``outputs/`` is empty.
"""

import os
import stat

from ..decoding import as_bytes, escaped, lossless
from ..store import jsonl, layout
from ..store.permissions import open_folder


def prepare(attempt: "bytes") -> "tuple[str, str]":
    """Make the folder, with the checkpoints of the newest earlier attempt that has any.

    Returns that one's name, and why checkpoints of a newer one stay where they are; both may be empty.
    """
    mine = layout.checkpoints(attempt)
    run, own = os.path.split(attempt)
    left = ""
    for number in range(int(own[1:]) - 1, 0, -1) if own[1:].isdigit() else ():
        earlier = os.path.join(run, b"a%d" % number)
        collected = _collected(earlier)
        theirs = collected or _folder(earlier)
        link = _link_on(earlier, theirs)
        if link == theirs and _leads_outside(theirs, run):
            os.symlink(os.readlink(theirs), mine)
            return "a%d" % number, left
        if link:
            left = left or _refusal(link, theirs, number)
            continue
        for folder in reversed(_parts(earlier, theirs)):
            open_folder(folder)  # a script may have made them read-only
        if os.path.isdir(theirs) and os.listdir(theirs):
            if collected:
                _copy(theirs, mine)  # they are results of that attempt, listed with their hashes
            else:
                os.rename(theirs, mine)
            return "a%d" % number, left
    os.mkdir(mine, 0o700)
    return "", left


def keep(attempt: "bytes") -> "tuple[str, str]":
    """Move checkpoints into outputs/ of the script's folder.

    Returns the name of their folder in there, empty if the script wrote none, and what is wrong, empty if nothing is.
    """
    folder = layout.checkpoints(attempt)
    if not os.path.lexists(folder):
        return "", ""
    try:
        if not os.path.islink(folder):
            open_folder(folder)
            if not os.listdir(folder):
                os.rmdir(folder)
                return "", ""
        outputs = layout.outputs(layout.work(attempt))
        if os.path.islink(outputs) or not os.path.isdir(outputs):
            what = "the checkpoints were not collected, because outputs/ is no folder; they are in %s"
            return "", what % escaped(folder)
        open_folder(outputs)
        kept = _free_name(layout.kept_checkpoints(layout.work(attempt)))
        os.rename(folder, kept)
    except OSError as error:
        return "", "the checkpoints could not be stored: %s; they are in %s" % (error.strerror, escaped(folder))
    return lossless(os.path.basename(kept)), ""


def _free_name(wanted: "bytes") -> "bytes":
    """The folder outputs/checkpoints may be the script's own."""
    try:
        os.rmdir(wanted)
    except OSError:  # there is none, or it has files
        pass
    names = (wanted + (b"-%d" % number if number else b"") for number in range(1000))
    return next(name for name in names if not os.path.lexists(name))


def _collected(attempt: "bytes") -> "bytes":
    """The folder among the outputs of an attempt whose script has ended; empty where there is none."""
    events = jsonl.read_lines(layout.events(attempt))
    name = as_bytes(next((event.get("checkpoints") for event in events if event.get("type") == "closed"), "") or "")
    if os.path.basename(name) != name or name in (b"", b".", b".."):
        return b""
    folder = os.path.join(layout.outputs(attempt), name)
    return folder if os.path.lexists(folder) else b""


def _copy(source: "bytes", target: "bytes") -> "None":
    """Plain files, folders and links; a FIFO or socket is no checkpoint."""
    import shutil

    def irregular(folder: "str | os.PathLike[str]", names: "list[str]") -> "list[str]":
        modes = ((name, os.lstat(os.path.join(folder, name)).st_mode) for name in names)
        return [name for name, mode in modes if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))]

    shutil.copytree(os.fsdecode(source), os.fsdecode(target), symlinks=True, ignore=irregular)


def _folder(attempt: "bytes") -> "bytes":
    """The folder of an attempt of any version; in earlier ones the script made it itself, in outputs/."""
    folder = layout.checkpoints(attempt)
    return folder if os.path.lexists(folder) else layout.kept_checkpoints(layout.worked_in(attempt))


def _leads_outside(link: "bytes", run: "bytes") -> "bool":
    """Whether it leads to a folder with files that is not the run's: the script keeps its checkpoints there."""
    target, own = os.path.realpath(link), os.path.join(os.path.realpath(run), b"")
    try:
        return os.path.isabs(os.readlink(link)) and not target.startswith(own) and bool(os.listdir(target))
    except OSError:
        return False


def _refusal(link: "bytes", checkpoints: "bytes", number: "int") -> "str":
    what = "the checkpoints folder" if link == checkpoints else "a folder above the checkpoints"
    target = escaped(os.readlink(link))
    return "%s of attempt %d is a symbolic link to %s and was not handed over" % (what, number, target)


def _link_on(attempt: "bytes", checkpoints: "bytes") -> "bytes":
    """The folder, or the one above it, that is a link: a script may have replaced any of them."""
    return next((folder for folder in reversed(_parts(attempt, checkpoints)) if os.path.islink(folder)), b"")


def _parts(attempt: "bytes", checkpoints: "bytes") -> "list[bytes]":
    """The folder of checkpoints and those above it that are the attempt's."""
    parts = [checkpoints]
    while os.path.dirname(parts[-1]) != attempt:
        parts.append(os.path.dirname(parts[-1]))
    return parts
