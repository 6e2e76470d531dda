"""Writes numbers over time in the format of metrics (docs/formats.md), for GPU readings."""

import json
import os
import struct
import time

from .. import wire
from ..machine import processes

_HEADER = struct.Struct("<8sIIQQQ24x")
_RECORD = struct.Struct("<QqQd")
_GIVEN_STEP = 0x80 << 56


class Series:
    """One pair of files. Each point has a name, and the time in milliseconds since the beginning as its step."""

    def __init__(self, folder: "bytes") -> "None":
        os.makedirs(folder, 0o700, exist_ok=True)
        stem = os.path.join(folder, b"%d-1" % os.getpid())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._names = os.open(stem + b".jsonl", flags, 0o600)
        self._points = os.open(stem + b".m", flags, 0o600)
        start = processes.start_time(os.getpid())
        header = (b"hfmetric", 1, _RECORD.size, os.getpid(), int(start) if start.isdigit() else 0, _now())
        wire.write_all(self._points, _HEADER.pack(*header))
        self._offsets = {}  # type: dict[str, int]
        self._length = 0

    def add(self, after_s: "float", values: "dict[str, float]") -> "None":
        records = [
            _RECORD.pack(self._offset(name) | _GIVEN_STEP, int(after_s * 1000), _now(), value)
            for name, value in values.items()
        ]
        if records:
            wire.write_all(self._points, b"".join(records))

    def _offset(self, name: "str") -> "int":
        """Names are written before the records that refer to them."""
        if name not in self._offsets:
            line = json.dumps({"name": name}).encode("ascii") + b"\n"
            wire.write_all(self._names, line)
            self._offsets[name] = self._length
            self._length += len(line)
        return self._offsets[name]


def _now() -> "int":
    return int(time.time() * 1e9)
