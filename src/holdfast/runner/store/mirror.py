"""Sends what a run has written: every file that grew, from the length that the client has.

Where client and target share one store only the sizes are sent. Events go last in every round, so that a client that
has the closing event also has all files that it lists.
"""

import hashlib
import os
import select
import sys
import time

from .. import untrusted, wire
from ..decoding import as_bytes, readable
from ..run import control, outputs
from . import jsonl, layout, run_files

assert sys.platform != "win32"  # a target is never Windows

_EVENTS = layout.events.name
NAMES = tuple(file.name for file in layout.mirrored if file is not layout.events)
FOLDERS = tuple(file.name for file in layout.mirrored_folders)
LOOK_S = 2.0
UNSEEN = ("queued", "elsewhere")  # states in which only a launcher can say whether it goes on
UNSEEN_S = 5.0
QUICKEST_S, SLOWEST_S = 0.001, 0.05
_LONGEST_LINE = 500


def pull(attempt: "bytes", have: "dict[str, int]", carry: "bool", wait: "bool", reply: "Reply") -> "None":
    """Send what is new; with wait, go on until the attempt is closed, is gone, or the client has had enough."""
    have = dict(have)
    if run_files.closed(attempt) is not None:
        outputs.list_late(attempt, jsonl.read_lines(layout.events(attempt)))
    began = changed = looked = time.monotonic()
    shown = b""
    while True:
        alive = run_files.is_held(attempt)
        over = run_files.closed(attempt) is not None
        if alive and wait and time.monotonic() - looked > LOOK_S:
            looked = time.monotonic()
            control.look(attempt)  # ends one whose watchers are stopped
        if _round(attempt, have, carry, reply):
            changed = time.monotonic()
        shown = _show_progress(attempt, shown, reply) if wait else b""
        if over:
            reply.end(state="closed")
            return
        state = "alive" if alive else control.look(attempt)
        is_due = state in UNSEEN and time.monotonic() - began > UNSEEN_S
        if state in ("gone", "absent") or is_due or not (wait or state == "closed"):
            reply.end(state="gone" if state == "absent" else state)
            return
        idle = time.monotonic() - changed
        if reply.interrupted(min(SLOWEST_S, max(QUICKEST_S, idle / 20))):
            reply.end(state="alive")
            return


def _show_progress(attempt: "bytes", shown: "bytes", reply: "Reply") -> "bytes":
    """Tell a client the line that the script's process has for a terminal; it is in no file that is kept."""
    try:
        text = untrusted.read_file(layout.spark_progress(attempt), _LONGEST_LINE, follow=False)
    except (OSError, ValueError):
        text = b""
    if text != shown:
        reply.send(progress=readable(text))
    return text


class Reply:
    """The way back to the client for one request."""

    def __init__(self, out: "int", reader: "wire.FrameReader", request: "object") -> "None":
        self._out = out
        self._reader = reader
        self._request = request
        self._is_sending = False

    def send(self, payload: "bytes" = b"", **fields: "object") -> "None":
        self._is_sending = True
        wire.send(self._out, dict(fields, re=self._request), payload)
        self._is_sending = False

    def beat(self, _signal: "int", _frame: "object") -> "None":
        """Called by a timer while a request takes its time: the client sees that this process is not stuck.

        By a signal and not by a thread, so that a process that hangs in the kernel is heard of no more.
        """
        if not self._is_sending:
            try:
                wire.send(self._out, {"beat": True})
            except (OSError, wire.Closed):
                return  # the next answer finds out

    def end(self, **fields: "object") -> "None":
        self.send(b"", end=True, **fields)

    def interrupted(self, seconds: "float") -> "bool":
        """Wait, but not longer than until the client says something or goes away."""
        return self._reader.pending() or bool(select.select([self._reader.fd], [], [], seconds)[0])


def _round(attempt: "bytes", have: "dict[str, int]", carry: "bool", reply: "Reply") -> "bool":
    sizes = {_EVENTS: _size(attempt, _EVENTS)}
    for name in _names(attempt):
        sizes[name] = _size(attempt, name)
    grown = [name for name in sizes if sizes[name] > have.get(name, -1)]
    grown.sort(key=lambda name: name == _EVENTS)
    if not carry and grown:
        reply.send(sizes={name: sizes[name] for name in grown})
    for name in grown:
        if carry:
            _carry(attempt, name, have.get(name, 0), sizes[name], reply)
        have[name] = sizes[name]
    return bool(grown)


def _carry(attempt: "bytes", name: "str", start: "int", end: "int", reply: "Reply") -> "None":
    try:
        # A script can replace what is in metrics/ at any time, by a named pipe too.
        fd = os.open(os.path.join(attempt, as_bytes(name)), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    try:
        while True:
            block = os.pread(fd, min(wire.MAX_PAYLOAD, end - start), start)
            reply.send(block, file=name, offset=start, sha256=hashlib.sha256(block).hexdigest())
            start += len(block)
            if start >= end or not block:
                return
    finally:
        os.close(fd)


def _names(attempt: "bytes") -> "list[str]":
    names = list(NAMES)
    for folder in FOLDERS:
        names += run_files.plain_files(attempt, folder)
    return names


def _size(attempt: "bytes", name: "str") -> "int":
    """-1 if there is no such file: an empty one is carried too."""
    try:
        return os.lstat(os.path.join(attempt, as_bytes(name))).st_size
    except FileNotFoundError:
        return -1
