"""The state of data: by it is known, without reading, that no file was written to since its content was hashed."""

import hashlib
import os
import stat


def fingerprint(path: "bytes", changes: "bool") -> "str":
    """The state of all files below a folder, or of a file, without reading them: equal as long as none was written to.

    With ``changes`` the time of the last change counts, which no program can set. Hard links change it too.
    """
    rows = [_row(b"", os.lstat(path), changes)]
    waiting = [b""] if os.path.isdir(path) else []
    while waiting:
        prefix = waiting.pop()
        with os.scandir(os.path.join(path, prefix)) as entries:
            for entry in entries:
                name, status = prefix + entry.name, entry.stat(follow_symlinks=False)
                rows.append(_row(name, status, changes))
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(name + b"/")
    rows.sort()
    return hashlib.sha256(b"\n".join(rows)).hexdigest()


def _row(name: "bytes", status: "os.stat_result", changes: "bool") -> "bytes":
    if stat.S_ISDIR(status.st_mode):
        return b"%s\0d" % name
    changed = status.st_ctime_ns if changes else 0
    return b"%s\0%d %d %d %d" % (name, status.st_size, status.st_mtime_ns, changed, status.st_ino)
