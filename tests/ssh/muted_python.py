#!/usr/bin/python3.real
"""Stands for python3 on a target: the runner answers, until a file says after how many frames of a verb it is muted.

``/var/tmp/mute`` has lines of a verb and a number; ``*`` stands for all others. Nothing but the hello passes for a verb
with 0. Nothing of a muted runner arrives, heartbeats included. Verbs in ``/var/tmp/unknown`` reach the runner under a
name that it does not know, so that it answers as an older one does.
"""

import base64
import json
import os
import struct
import subprocess
import sys
import threading
from typing import Any, BinaryIO

REAL = "/usr/bin/python3.real"  # replaced when it is installed
MUTE = "/var/tmp/mute"
UNKNOWN = "/var/tmp/unknown"


def main() -> None:
    try:
        _home, _runner, nonce, size = base64.b64decode(sys.argv[-1]).split(b"\0")
        with open(MUTE) as source:
            limits = {verb: int(count) for verb, count in map(str.split, source)}
    except (ValueError, FileNotFoundError):
        os.execv(REAL, [REAL, *sys.argv[1:]])
    runner = subprocess.Popen([REAL, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    verbs: dict[int, str] = {}
    threading.Thread(target=pass_up, args=(runner, int(size), verbs), daemon=True).start()
    pass_down(runner, nonce, limits, verbs)
    runner.wait()


def pass_up(runner: "subprocess.Popen[bytes]", parcel: int, verbs: "dict[int, str]") -> None:
    stdin, sink = sys.stdin.buffer, runner.stdin
    assert sink is not None
    sink.write(stdin.read(parcel))
    unknown: list[str] = []
    if os.path.exists(UNKNOWN):
        with open(UNKNOWN) as source:
            unknown = source.read().split()
    while frame := read_frame(stdin):
        header, data = frame
        verbs[header["id"]] = header["verb"]
        if header["verb"] in unknown:
            text = json.dumps({**header, "verb": "older-" + header["verb"]}).encode()
            data = struct.pack(">I", len(text)) + text + data[len(data) - header.get("length", 0) :]
        sink.write(data)
    sink.close()


def pass_down(
    runner: "subprocess.Popen[bytes]", nonce: bytes, limits: "dict[str, int]", verbs: "dict[int, str]"
) -> None:
    assert runner.stdout is not None
    source, is_muted = os.fdopen(runner.stdout.fileno(), "rb", closefd=False), False
    line = b""
    while not line.startswith(nonce):
        line = source.readline()
        write(line)
    if b" ready" not in line:
        return
    given: dict[str, int] = {}
    while frame := read_frame(source):
        header, data = frame
        verb = verbs.get(int(header.get("re", 0)), "")
        if verb:
            given[verb] = given.get(verb, 0) + 1
            is_muted = is_muted or given[verb] > limits.get(verb, limits["*"])
        if not is_muted:
            write(data)


def read_frame(source: BinaryIO) -> "tuple[dict[str, Any], bytes] | None":
    head = source.read(4)
    if len(head) < 4:
        return None
    text = source.read(struct.unpack(">I", head)[0])
    header = json.loads(text)
    return header, head + text + source.read(header.get("length", 0))


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


main()
