"""A compromised target can lie about its runs. It cannot reach files of the client, crash it or make it hang."""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

import seeds
from conftest import eventually
from holdfast.engine.runs import exec_command, outputs
from holdfast.engine.runs.follow import Follower
from holdfast.errors import HoldfastError
from holdfast.runner import wire
from holdfast.store import mirror, runs
from holdfast.store.home import Home
from security.hostile import channel, end, piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.model import Json

UID = "a" * 32
MESSAGES = int(os.environ.get("HOLDFAST_FUZZ_MESSAGES", "20000"))
NAMES = [
    *("../x", "/etc/x", "a/../../x", "metrics/../../x", "metrics/..", "metrics/.", "metrics/", "work/x", "run.json"),
    *("metrics/a\0b", "metrics\\x", "%2e%2e%2fx", "%252e%252e%252fx", "..;/x", "#", "x" * 4096),
    *("log/../../../x", "../a1x/log", "client.jsonl", "alive", "", None, 7, ["log"], {"a": 1}, "gpu/../../../x"),
]
OUTPUTS = [
    *("../x", "/tmp/x", "a/../../x", "a\0b", "..", ".", "", "a//b", "a/./b", "../outputs2/x"),
    *("x" * 5000, "a/" * 3000 + "b"),
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(str(tmp_path / "store"), "1" * 32)
    os.makedirs(found.run(UID))
    return found


@pytest.mark.parametrize("name", NAMES, ids=lambda name: str(name)[:20])
def test_a_name_that_no_run_has_writes_nothing(home: Home, tmp_path: Path, name: object) -> None:
    before = _everything(tmp_path)
    with pytest.raises(HoldfastError) if name is not None else nullcontext():
        _follow(home, lambda request: iter([piece(request, name, b"evil"), end(request, state="closed")]))
    assert _everything(tmp_path) == before


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: str(path)[:20])
def test_an_output_that_could_lead_elsewhere_is_refused(home: Home, tmp_path: Path, path: str) -> None:
    _write_manifest(home, [{"path": path, "size": 4, "sha256": "0" * 64, "seen_ns": 1, "mtime_ns": 1}])
    before = _everything(tmp_path)
    told: list[str] = []
    problems = outputs.bring_by_policy(home, channel(_fetches(told)), runs.read(home, UID))
    assert [name[:200] for name in problems] == [path[:200]]
    assert told == []
    assert [found for found in _everything(tmp_path) if found not in before] == [home.run(UID, "client.jsonl")]


def test_links_devices_and_modes_of_outputs_are_not_taken_over(home: Home) -> None:
    """Only plain files come home; a link, a FIFO or a set-uid bit in the manifest makes nothing of the kind here."""
    rows: list[Json] = [
        {"path": "link", "size": 4, "link": "/etc/passwd"},
        {"path": "pipe", "size": 0, "special": "fifo"},
        {"path": "root", "size": 4, "sha256": _sha(b"evil"), "mode": 0o4755},
    ]
    _write_manifest(home, rows)
    outputs.bring_by_policy(home, channel(_fetches([])), runs.read(home, UID))
    folder = home.run(UID, "a1", "outputs")
    assert os.listdir(folder) == ["root"]
    assert os.stat(os.path.join(folder, "root")).st_mode & 0o7777 == 0o600


def test_output_longer_than_promised_or_without_progress_is_given_up(home: Home) -> None:
    _write_manifest(home, [{"path": name, "size": 4, "sha256": _sha(b"evil")} for name in ("endless", "empty", "good")])

    def answers(request: Json) -> Iterator[bytes]:
        for offset in range(0, 4000, 4) if request["path"] == "endless" else ():
            yield wire.pack({"re": request["id"], "offset": offset}, b"evil")
        for _ in range(1000) if request["path"] == "empty" else ():
            yield wire.pack({"re": request["id"], "offset": 0})
        if request["path"] == "good":
            yield wire.pack({"re": request["id"], "offset": 0}, b"evil")
        yield end(request)

    problems = outputs.bring_by_policy(home, channel(answers), runs.read(home, UID))
    assert sorted(problems) == ["empty", "endless"]
    assert os.listdir(home.run(UID, "a1", "outputs")) == ["good"]
    assert os.listdir(home.run(UID, "a1", "arriving")) == []


def test_log_beyond_its_limit_is_dropped_and_the_rest_is_mirrored(home: Home) -> None:
    """The client set maxLogSize itself; a target that ignores it fills no disk here."""
    with open(home.run(UID, "run.json"), "w") as target:
        json.dump({"uid": UID, "run_id": "x_1", "run_number": 1, "project_id": "x", "max_log": 100_000}, target)

    def answers(request: Json) -> Iterator[bytes]:
        for offset in range(0, 1_000_000, 7_000):
            yield piece(request, "log", b"x" * 7_000, offset=offset)
        yield piece(request, "metrics/1-0.m", b"point")
        yield end(request, state="closed")

    for _ in range(2):  # again after a reconnection
        assert _follow(home, answers) == "closed"
        assert os.path.getsize(home.run(UID, "a1", "log")) == 100_000
    assert os.path.getsize(home.run(UID, "a1", "metrics", "1-0.m")) == 5


def test_every_mirrored_file_has_a_limit() -> None:
    quota = mirror.Quota(None, {f"metrics/{number}.m": 0 for number in range(100_000)})
    assert quota.limit("metrics/one-more.m") == -1
    assert quota.limit("gpu/one-more.m") == -1
    assert quota.limit("metrics/7.m") > 0
    quota.count("metrics/7.m", 20 * 1000**3)
    assert quota.limit("metrics/8.m") == 0
    for name in ("events.jsonl", "log", "runner.log", "outputs.jsonl", "control.jsonl", "plan.json"):
        assert mirror.is_mirrored(name)
        assert 0 < quota.limit(name) <= 10 * 1000**3


def test_a_header_of_gigabytes_is_not_waited_for(home: Home) -> None:
    with pytest.raises(HoldfastError):
        _follow(home, lambda request: iter([struct.pack(">I", 0xFFFFFFFF)]))
    with pytest.raises(HoldfastError):
        _follow(home, lambda request: iter([wire.pack({"re": 1, "length": 1 << 40})]))


def test_hostile_answers_crash_nothing(home: Home, tmp_path: Path) -> None:
    """Wrong lengths, types and orders, from a printed seed; memory stays small and nothing is written outside."""
    seed = seeds.seed()
    chance = random.Random(seed)
    left = MESSAGES
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while left > 0:
        count = chance.randrange(1, 200)
        left -= count
        try:
            _follow(home, lambda request, count=count: _nonsense(request, chance, count))  # type: ignore[misc]
        except HoldfastError:
            continue
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    assert sorted(os.listdir(tmp_path)) == ["store"]
    allowed = {"events.jsonl", "log", "runner.log", "outputs.jsonl", "control.jsonl", "plan.json", "metrics", "gpu"}
    assert set(os.listdir(home.run(UID, "a1"))) <= allowed
    assert runs.read(home, UID).uid == UID


def _nonsense(request: Json, chance: random.Random, count: int) -> Iterator[bytes]:
    values: list[object] = [None, -1, 1 << 70, "x", "", [], {}, True, 0.5, "log", "\ud800", "metrics/1", request["id"]]
    for _ in range(count):
        kind = chance.randrange(8)
        data = chance.randbytes(chance.randrange(0, 50))
        if kind == 0:
            yield piece(request, chance.choice(["log", "events.jsonl", "metrics/1-0.m", chance.choice(NAMES)]), data)
        elif kind == 1:
            yield piece(request, "log", data, offset=chance.choice(values))
        elif kind == 2:
            yield wire.pack({str(chance.choice(values)): chance.choice(values) for _ in range(4)})
        elif kind == 3:
            yield wire.pack({"re": request["id"], "sizes": chance.choice(values), "state": chance.choice(values)})
        elif kind == 4 and chance.random() < 0.05:
            yield struct.pack(">I", chance.randrange(0, 1 << 32)) + data
        elif kind == 5 and chance.random() < 0.05:
            yield data
        elif kind == 6 and chance.random() < 0.05:
            yield wire.pack({"re": request["id"], "error": chance.choice(values), "errno": chance.choice(values)})
        else:
            yield piece(request, "events.jsonl", b'{"type":"closed","outcome":' + data + b"}\n", offset=0)
    yield end(request, state=chance.choice(values))
    raise OSError("it hangs up: half a frame and then silence would be waited for, as any silence is")


def _fetches(asked: list[str]) -> Callable[[Json], Iterator[bytes]]:
    def answers(request: Json) -> Iterator[bytes]:
        asked.append(str(request.get("path")))
        yield wire.pack({"re": request["id"], "offset": 0}, b"evil")
        yield end(request)

    return answers


def _follow(home: Home, answers: Callable[[Json], Iterator[bytes]]) -> str:
    opened, follower = channel(answers), Follower(home, UID, lambda _block: None)
    try:
        return follower.follow(opened, wait=False)
    finally:
        follower.close()
        opened.close()


def _write_manifest(home: Home, rows: list[Json]) -> None:
    os.makedirs(home.run(UID, "a1"))
    with open(home.run(UID, "a1", "outputs.jsonl"), "w") as manifest:
        manifest.writelines(json.dumps(row) + "\n" for row in rows)


def _sha(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _everything(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if "locks" not in path.parts)


def test_command_that_ends_while_input_is_sent_leaves_no_thread_at_a_closed_connection(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target takes no input and says that the command has ended. Nothing may be written after that."""
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    (tmp_path / "input").write_bytes(b"x" * 3 * exec_command.BLOCK)  # more than a pipe holds
    stdin = os.open(tmp_path / "input", os.O_RDONLY)
    is_over = threading.Event()

    def answers(request: Json) -> Iterator[bytes]:
        yield wire.pack({"re": request["id"], "began": True})
        eventually(lambda: os.lseek(stdin, 0, os.SEEK_CUR) > 0)
        yield end(request, code=3)
        is_over.wait(60)

    before = threading.active_count()
    opened = channel(answers)
    try:
        assert exec_command.execute(opened, runs.read(home, UID), ("cat",), stdin, lambda _stream, _block: None) == 3
    finally:
        opened.close()
        is_over.set()
    eventually(lambda: threading.active_count() <= before)
    os.close(stdin)
    assert failures == []
