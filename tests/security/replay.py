"""Conversations with a real runner, recorded once and replayed with one field changed.

``RecordingHost`` stands between the client and a runner that it starts, and keeps every answer. ``ReplayHost`` gives
the same answers without any runner, with a ``Change`` applied to one of them. What fields there are is read off the
recording: a field that a verb gains is covered from then on. The JSON lines of files that a run wrote are fields too.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.connection import bundle
from holdfast.hosts.local import LocalHost
from holdfast.ports import Stream
from holdfast.runner import wire
from security.hostile import handshake_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json, Login

Frame = tuple["Json", bytes]
Path = tuple[str | int, ...]
HELLO = "hello"  # as if it were the answer to a verb of that name
QUIET_S = 0.15  # without a further request, after the changed answer, the target hangs up
PAYLOAD = "payload"
MISSING, DUPLICATED, REPEATED = "missing", "duplicated", "frame repeated"


class Raw(NamedTuple):
    """JSON text that Python would not write."""

    text: str


def _nested(levels: int) -> Raw:
    return Raw("[" * levels + "]" * levels)


VALUES: dict[str, object] = {
    "null": None,
    "true": True,
    "false": False,
    "minus one": -1,
    "zero": 0,
    "one": 1,
    "huge": 10**30,
    "huge negative": -(10**30),
    "large float": 1e308,
    "fraction": 0.5,
    "NaN": Raw("NaN"),
    "infinity": Raw("1e999"),
    "digits": Raw("9" * 5000),
    "empty text": "",
    "climbing path": "../../x",
    "absolute path": "/etc/passwd",
    "secret": "../../../outside/secret",
    "NUL": "a\0b",
    "surrogate": "\ud800",
    "control characters": "\x1b[31m\r\n\u202eevil",
    "long text": "x" * 70_000,
    "empty list": [],
    "empty object": {},
    "deep list": _nested(1000),
    "deeper list": Raw('{"a":' * 63 + "1" + "}" * 63),
    "list of null": [None],
    "mixed list": [1, "a", {}, [], None, True],
    "odd object": {"": {"a": [{}]}, "../x": None, "name": 7, "state": []},
    "state gone": "gone",
    "state absent": "absent",
}
WAYS = (*VALUES, MISSING, DUPLICATED, REPEATED)


class Change(NamedTuple):
    """``path`` leads from the header of an answer's ``frame`` to a field; ``way`` says what becomes of it.

    A path that begins with ``PAYLOAD`` and the number of a line leads into a file that the frame carries.
    """

    verb: str
    frame: int
    path: Path
    way: str

    def __str__(self) -> str:
        return f"{self.verb}[{self.frame}].{'.'.join(map(str, self.path))}: {self.way}"


class Recording:
    """``answers``: for each verb, what was answered to each request of it, frame by frame."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[Frame]]] = {}

    def changes(self) -> Iterator[Change]:
        """Every field of every frame that differs in its fields from those before it, changed in every way."""
        for verb, replies in self.answers.items():
            seen: set[Path] = set()
            for number, (header, payload) in enumerate(replies[0]):
                for path in (*paths(header), *_paths_in_lines(str(header.get("file")), payload)):
                    kind = (header.get("file"), *_line_type(path, payload))
                    shape = (*map(str, kind), *("*" if isinstance(step, int) else step for step in path))
                    if shape not in seen:
                        seen.add(shape)
                        yield from (Change(verb, number, path, way) for way in WAYS)


class Conversation:
    """What the host of the next connections records into or replays from; ``requests`` is what the client asked."""

    recording = Recording()
    change: Change | None = None
    times = 0  # how often the change is still made
    requests: list[Json] = []  # noqa: RUF012
    given: dict[str, int] = {}  # noqa: RUF012

    @classmethod
    def begin(cls, recording: Recording, change: Change | None = None, times: int = 1_000_000) -> None:
        cls.recording, cls.change, cls.times, cls.requests, cls.given = recording, change, times, [], {}


class RecordingHost(LocalHost):
    def __init__(self, login: Login | None = None, **_options: object) -> None:
        """``attach`` makes its host with the options of ``SshHost``."""
        super().__init__(login)

    def run(self, argv: tuple[str, ...]) -> Stream:
        real = super().run(argv)
        if bundle.boot_words() not in argv:
            return real
        asked = handshake_of(argv)
        heard, stdin = os.pipe()
        stdout, says = os.pipe()
        verbs: dict[int, str] = {}
        recording = Conversation.recording
        for work in (_record_up, _record_down):
            ends = (heard, real.stdin) if work is _record_up else (real.stdout, says)
            threading.Thread(target=work, args=(*ends, asked, verbs, recording), daemon=True).start()
        return Stream(real.pid, stdin, stdout, real.stderr)


def _record_up(source: int, sink: int, asked: Json, verbs: dict[int, str], recording: Recording) -> None:
    try:
        left = int(str(asked["size"]))
        while left:
            block = os.read(source, min(left, 65536))
            wire.write_all(sink, block)
            left -= len(block)
        reader = wire.FrameReader(source)
        while True:
            header, payload = reader.frame()
            number = int(str(header["id"]))
            if number:
                verbs[number] = str(header["verb"])
                recording.answers.setdefault(verbs[number], []).append([])
            wire.send(sink, header, payload)
    except (wire.Closed, OSError):
        os.close(sink)
        os.close(source)


def _record_down(source: int, sink: int, asked: Json, verbs: dict[int, str], recording: Recording) -> None:
    reader = wire.FrameReader(source)
    try:
        line = b""
        while not line.startswith(str(asked["nonce"]).encode()):
            line = reader.line()
            wire.write_all(sink, line + b"\n")
        while True:
            header, payload = reader.frame()
            if "hello" in header:
                recording.answers.setdefault(HELLO, [[(header, b"")]])
            elif header.get("re") in verbs:
                recording.answers[verbs[int(str(header["re"]))]][-1].append((header, payload))
            wire.send(sink, header, payload)
    except (wire.Closed, OSError):
        os.close(sink)
        os.close(source)


class ReplayHost(LocalHost):
    def __init__(self, login: Login | None = None, **_options: object) -> None:
        super().__init__(login)

    def run(self, argv: tuple[str, ...]) -> Stream:
        if bundle.boot_words() not in argv:
            return super().run(argv)
        asked = handshake_of(argv)
        heard, stdin = os.pipe()
        stdout, says = os.pipe()
        stderr, complains = os.pipe()
        os.close(complains)
        threading.Thread(target=_replay, args=(asked, heard, says), daemon=True).start()
        return Stream(os.posix_spawn("/bin/true", ["true"], {}), stdin, stdout, stderr)


def _replay(asked: Json, heard: int, says: int) -> None:
    recording, given = Conversation.recording, Conversation.given
    try:
        wire.write_all(says, f"{asked['nonce']} ready\n".encode())
        changed = _answer(says, HELLO, recording.answers[HELLO][0], 0)
        _skip(heard, int(str(asked["size"])))
        reader = wire.FrameReader(heard)
        while True:
            if changed and not reader.pending() and not select.select([heard], [], [], QUIET_S)[0]:
                return
            header, _ = reader.frame()
            number, verb = int(str(header["id"])), str(header["verb"])
            Conversation.requests.append(header)
            if not number:
                continue
            replies = [reply for reply in recording.answers.get(verb, []) if reply]
            if not replies:
                wire.send(says, {"re": number, "end": True, "error": "not recorded"})
                continue
            count = given[verb] = given.get(verb, 0) + 1
            changed = _answer(says, verb, replies[min(count, len(replies)) - 1], number) or changed
    except (wire.Closed, wire.BadFrame, OSError):
        return
    finally:
        os.close(says)
        os.close(heard)


def _skip(fd: int, size: int) -> None:
    while size:
        size -= len(os.read(fd, min(size, 65536)))


def _answer(says: int, verb: str, frames: list[Frame], number: int) -> bool:
    """Send these frames; whether one of them was changed."""
    change = Conversation.change if Conversation.change and Conversation.change.verb == verb else None
    changed = False
    for at, (recorded, content) in enumerate(frames):
        payload = content
        header = {**recorded, "re": number} if number else dict(recorded)
        is_due = change is not None and change.frame == at and Conversation.times > 0 and _has(header, content, change)
        if change is not None and is_due and change.path[0] == PAYLOAD:
            payload = _changed_lines(content, change)
            header["sha256"] = hashlib.sha256(payload).hexdigest()
        header.pop("length", None)
        if payload:
            header["length"] = len(payload)
        text = json.dumps(header)
        if change is not None and is_due:
            Conversation.times -= 1
            changed = True
            text = text if change.path[0] == PAYLOAD else changed_text(header, change.path, change.way)
        head = text.encode("utf-8", "surrogatepass")
        data = len(head).to_bytes(4, "big") + head + payload
        wire.write_all(says, data * (2 if is_due and change and change.way == REPEATED else 1))
    return changed


def _has(header: Json, content: bytes, change: Change) -> bool:
    """Whether this frame has the field: a later answer to the same verb may carry other files."""
    within: Any = header
    try:
        if change.path[0] == PAYLOAD:
            within = {PAYLOAD: [json.loads(line) if line else None for line in content.split(b"\n")]}
        for step in change.path:
            within = within[step]
    except (KeyError, IndexError, TypeError, ValueError):
        return False
    return True


def _changed_lines(content: bytes, change: Change) -> bytes:
    lines = content.split(b"\n")
    at = int(change.path[1])
    lines[at] = changed_text(json.loads(lines[at]), change.path[2:], change.way).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def changed_text(header: Json, path: Path, way: str) -> str:
    """The object as JSON with the change made; the object itself stays as it is."""
    copy: Any = json.loads(json.dumps(header))
    within = copy
    for step in path[:-1]:
        within = within[step]
    last: Any = path[-1]
    if way == MISSING:
        del within[last]
        return json.dumps(copy)
    if way == REPEATED:
        return json.dumps(copy)
    if way == DUPLICATED:
        if isinstance(within, list):
            within.append(within[last])
            return json.dumps(copy)
        within[f"{last}@again"] = ["another"]
        return json.dumps(copy).replace("@again", "")
    value = VALUES[way]
    if not isinstance(value, Raw):
        within[last] = value
        return json.dumps(copy)
    within[last] = "@raw"
    return json.dumps(copy).replace('"@raw"', value.text)


def paths(value: object, before: Path = ()) -> Iterator[Path]:
    steps: Any = ()
    if isinstance(value, dict):
        steps = value.items()
    elif isinstance(value, list):
        steps = enumerate(value)
    for step, inner in steps:
        yield (*before, step)
        yield from paths(inner, (*before, step))


def _paths_in_lines(name: str, payload: bytes) -> Iterator[Path]:
    """Of the JSON lines of a file that a run wrote."""
    if not name.endswith((".jsonl", ".json")):
        return
    for number, line in enumerate(payload.split(b"\n")):
        if line:
            yield from paths(json.loads(line), (PAYLOAD, number))


def _line_type(path: Path, payload: bytes) -> tuple[object, ...]:
    """Events of different types have different fields."""
    return (json.loads(payload.split(b"\n")[int(path[1])]).get("type"),) if path[0] == PAYLOAD else ()
