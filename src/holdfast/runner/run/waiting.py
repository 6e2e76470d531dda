"""An attempt that waits in a queue: claimed and planned, and started later by a job, perhaps on another node.

``waiting`` is its claim: the one process that removes the file may start the attempt, or close it. ``secrets`` holds
what the script is to be told, sealed; the key travels inside the job and is written nowhere in the store. ``job.json``
names the job. Decision 19 has the reasons.
"""

import hashlib
import os

from .. import json_text, untrusted, wire
from ..store import layout
from ..store.files import fsync_path, unlink_quietly, write_synced, write_whole

KEY_SIZE = 32
_MAGIC = b"holdfast sealed 1\n"
_TAG_SIZE = 32
_MOST_SECRETS = 64 << 20


class Unreadable(Exception):
    """The sealed file is missing, damaged, or of another key."""


def is_waiting(attempt: "bytes") -> "bool":
    return os.path.lexists(layout.waiting(attempt))


def put(attempt: "bytes") -> "None":
    """Let an attempt wait. Called before its folder gets its name."""
    write_synced(layout.waiting(attempt), b"")


def claim(attempt: "bytes") -> "bool":
    """Take the right to start or close an attempt that waits; only one process is ever given it."""
    try:
        os.unlink(layout.waiting(attempt))
    except FileNotFoundError:
        return False
    fsync_path(attempt)
    return True


def note_job(attempt: "bytes", job: "str") -> "None":
    write_whole(layout.job(attempt), wire.dumps({"v": 1, "job": job}))


def job(attempt: "bytes") -> "str":
    """What the queue calls the job of this attempt; empty where it was not noted."""
    try:
        note = json_text.loads(untrusted.read_file(layout.job(attempt), 1 << 16).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    return str(note.get("job") or "") if isinstance(note, dict) else ""


def keep_secrets(attempt: "bytes", key: "bytes", secrets: "dict[str, object]") -> "None":
    write_whole(layout.secrets(attempt), seal(key, wire.dumps(secrets)))


def open_secrets(attempt: "bytes", key: "bytes") -> "dict[str, object]":
    """What was sealed with this key. The caller removes the file as soon as the attempt is its own."""
    try:
        data = untrusted.read_file(layout.secrets(attempt), _MOST_SECRETS)
    except (OSError, ValueError) as error:
        raise Unreadable("the sealed secrets cannot be read: %s" % error) from error
    secrets = json_text.loads(unseal(key, data).decode("utf-8"))
    if not isinstance(secrets, dict):
        raise Unreadable("the sealed secrets are damaged")
    return secrets


def drop_secrets(attempt: "bytes") -> "None":
    unlink_quietly(layout.secrets(attempt))


def seal(key: "bytes", data: "bytes") -> "bytes":
    """Encrypt with a key that is used this one time, then authenticate."""
    hidden = _combine(data, _stream(key, len(data)))
    return _MAGIC + _tag(key, hidden) + hidden


def unseal(key: "bytes", data: "bytes") -> "bytes":
    import hmac

    tag, hidden = data[len(_MAGIC) :][:_TAG_SIZE], data[len(_MAGIC) + _TAG_SIZE :]
    if data[: len(_MAGIC)] != _MAGIC or not hmac.compare_digest(tag, _tag(key, hidden)):
        raise Unreadable("the sealed secrets are damaged, or of another job")
    return _combine(hidden, _stream(key, len(hidden)))


def _stream(key: "bytes", size: "int") -> "bytes":
    return hashlib.shake_256(b"holdfast stream\0" + key).digest(size)


def _tag(key: "bytes", hidden: "bytes") -> "bytes":
    import hmac  # only for an attempt that waits

    return hmac.new(hashlib.sha256(b"holdfast tag\0" + key).digest(), _MAGIC + hidden, hashlib.sha256).digest()


def _combine(data: "bytes", stream: "bytes") -> "bytes":
    mixed = int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")
    return mixed.to_bytes(len(data), "little")
