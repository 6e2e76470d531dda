"""A target to run things on: a store of its own, spoken to through the built runner under one chosen Python."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import alive, eventually
from holdfast.engine.connection.channel import RunnerChannel
from holdfast.engine.runs.follow import Follower
from holdfast.hosts.local import LocalHost
from holdfast.model import Link, Plan
from holdfast.runner.machine import processes as hostfacts
from holdfast.runner.store import jsonl, objects
from holdfast.runner.store.objects import Batch, Entry, encode_tree
from holdfast.store.home import Home
from lab.pythons import NEWEST, OLDEST, find_python, python_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# For what costs seconds, or does not depend on the interpreter.
ONCE = pytest.mark.parametrize("post", ["any"], indirect=True)


@pytest.fixture(name="post", params=[OLDEST, NEWEST])
def post_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Post]:
    post = Post(tmp_path, _interpreter(request.param))
    yield post
    post.leave()


def _interpreter(version: str) -> str:
    """This version. A machine without the newest has its own tested instead, so that one is on every machine."""
    if version == OLDEST:
        return python_of(OLDEST)
    wanted = (OLDEST, NEWEST) if version == "any" else (NEWEST,)
    return next(filter(None, map(find_python, wanted)), os.path.realpath(sys.executable))


class Run:
    """One attempt as it lies on the target."""

    def __init__(self, post: Post, plan: Plan) -> None:
        self.plan = plan
        self.uid = plan.uid
        self.folder = post.home / "runs" / plan.uid / plan.attempt
        self._post = post

    @property
    def events(self) -> list[dict[str, Any]]:
        return jsonl.read_lines(os.fsencode(self.folder / "events.jsonl"))

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def event(self, kind: str) -> dict[str, Any]:
        return next(event for event in self.events if event["type"] == kind)

    @property
    def log(self) -> bytes:
        return (self.folder / "log").read_bytes()

    @property
    def supervisor(self) -> int:
        return int(self.event("accepted")["pid"])

    @property
    def guardian(self) -> int:
        return int(self.event("accepted")["guardian"])

    @property
    def outputs(self) -> dict[str, dict[str, Any]]:
        rows = [json.loads(line) for line in (self.folder / "outputs.jsonl").read_bytes().splitlines()]
        return {row["path"]: row for row in rows}

    def wait(self, limit: float = 30) -> dict[str, Any]:
        """The closing event, once both watchers have gone home."""
        self.wait_for_end(limit)
        eventually(lambda: not alive(self.guardian) and not alive(self.supervisor), limit)
        return self.event("closed")

    def wait_for_end(self, limit: float = 30) -> None:
        eventually(lambda: self._post.look(self) == "closed", limit)

    def wait_for_log(self, words: bytes) -> None:
        eventually(lambda: (self.folder / "log").exists() and words in self.log)

    def processes(self) -> list[int]:
        """What is still there of the script's family."""
        return [pid for pid in hostfacts.marked(b"HOLDFAST_RUN_UID", self.uid.encode()) if alive(pid)]


class Post:
    def __init__(self, place: Path, python: str) -> None:
        self.place = place
        self.python = python
        self.home = place / "target"
        self.runs: list[Run] = []
        self._channels: list[RunnerChannel] = []
        self._channel: RunnerChannel | None = None

    @property
    def channel(self) -> RunnerChannel:
        """The conversation that most questions of a test go through."""
        self._channel = self._channel or self.connect()
        return self._channel

    def connect(self) -> RunnerChannel:
        self._channels.append(RunnerChannel(LocalHost(), self.python, os.fspath(self.home), "target"))
        return self._channels[-1]

    def script(self, text: str, *arguments: str, **more: Any) -> Plan:
        """A plan that runs this text with the interpreter under test."""
        files = {b"train.py": text.encode(), **more.pop("files", {})}
        return self.plan((self.python, "train.py", *arguments), files=files, **more)

    def plan(self, argv: tuple[str, ...], *, files: dict[bytes, bytes] | None = None, **more: Any) -> Plan:
        links = tuple(Link(name, target) for name, target in more.pop("links", {}).items())
        settled: dict[str, Any] = {
            "uid": os.urandom(16).hex(),
            "run_id": "project_1",
            "run_number": 1,
            "attempt": "a1",
            "project": "project",
            "project_id": "0" * 32,
            "target": "target",
            "script": "train.py",
            "argv": argv,
            "tree": store_tree(os.fsencode(self.home / "objects"), files or {}),
            "env": (),
            "links": links,
            "share": None,
            "timeout": None,
            "timeout_text": "",
            "grace": 20.0,
            "max_log": 10 * 1000**3,
            "keep_work": False,
            "shims": None,
        }
        return Plan(**{**settled, **more})

    def start(self, plan: Plan, env: dict[str, str] | None = None, channel: RunnerChannel | None = None) -> Run:
        run = Run(self, plan)
        self.runs.append(run)
        (channel or self.channel).ask("start", plan=plan.to_json(), secrets={"env": env or {}, "on_end": ""})
        return run

    def run(self, text: str, *arguments: str, env: dict[str, str] | None = None, **more: Any) -> Run:
        """Start a script and wait for its end."""
        run = self.start(self.script(text, *arguments, **more), env)
        run.wait()
        return run

    def look(self, run: Run) -> str:
        ticket = f"{run.uid}/{run.plan.attempt}"
        states = self.channel.ask("look", tickets=[ticket])["states"]
        assert isinstance(states, dict)
        return str(states[ticket])

    def stop(self, run: Run) -> str:
        return str(self.channel.ask("stop", uid=run.uid, by="ada")["state"])

    def bury(self, run: Run) -> str:
        return str(self.channel.ask("bury", uid=run.uid)["state"])

    def mirror(self, name: str = "client") -> Home:
        """A client's store on another machine, as far as the target can tell."""
        path = self.place / name
        path.mkdir(exist_ok=True)
        return Home(str(path), "another store")

    def follow(self, home: Home, run: Run, *, wait: bool = True) -> str:
        return Follower(home, run.uid, lambda block: None).follow(self.channel, wait=wait)

    def forget(self, channel: RunnerChannel) -> None:
        """The test has closed this one itself."""
        self._channels.remove(channel)

    def leave(self) -> None:
        for run in self.runs:
            if self.look(run) != "closed":
                for pid in (run.guardian, run.supervisor, *run.processes()):
                    _kill(pid)
        for channel in self._channels:
            channel.close()


def stop_both(run: Run) -> None:
    """Guardian and supervisor, at a moment at which neither can continue the other."""
    eventually(lambda: _are_both_stopped(run))


def _are_both_stopped(run: Run) -> bool:
    for pid in (run.guardian, run.supervisor):
        os.kill(pid, signal.SIGSTOP)
    return all(hostfacts.is_stopped(pid) for pid in (run.guardian, run.supervisor))


def store_tree(root: bytes, files: dict[bytes, bytes]) -> str:
    """Store these files, named by their path, as a run's content."""
    with Batch(root) as batch:
        digest = _add_tree(batch, files)
        batch.commit()
    assert not objects.missing(root, digest)
    return digest


def mirror_differences(home: Home, run: Run) -> list[str]:
    """Names of the files whose bytes are not the same on both sides."""
    names = ["log", "events.jsonl", "outputs.jsonl", "plan.json"]
    names += [f"metrics/{path.name}" for path in (run.folder / "metrics").iterdir()]
    there = Path(home.run(run.uid, "a1"))
    return [name for name in names if _content(there / name) != _content(run.folder / name)]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _add_tree(batch: Batch, files: dict[bytes, bytes]) -> str:
    entries = []
    below: dict[bytes, dict[bytes, bytes]] = {}
    for path, data in files.items():
        folder, _, rest = path.partition(b"/")
        if rest:
            below.setdefault(folder, {})[rest] = data
        else:
            entries.append(Entry(path, "file", False, len(data), batch.add_bytes(data), b""))
    entries += [Entry(name, "dir", False, 0, _add_tree(batch, content), b"") for name, content in below.items()]
    return batch.add_bytes(encode_tree(entries))


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
