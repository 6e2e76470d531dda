"""The builder as its callers start it: a program, one request, JSON lines."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import holdfast.builder

PROGRAM = Path(holdfast.builder.__file__).with_name("__main__.py")
LINUX: dict[str, Any] = {
    "platform": f"linux-{'64' if platform.machine() == 'x86_64' else platform.machine()}",
    "virtual": {"__glibc": "2.36", "__cuda": None, "__unix": "0", "__linux": "6.1", "__archspec": "x86_64"},
}


class Answer(NamedTuple):
    code: int
    progress: list[dict[str, Any]]
    last: dict[str, Any]
    text: str


class Builder:
    """One person's cache, log and environments under ``place``."""

    def __init__(self, place: Path, cache: Path | None = None) -> None:
        self.place = place
        self.cache = cache or place / "cache"
        self.log = place / "log"

    def start(
        self, verb: str, env: dict[str, str] | None = None, within: tuple[str, ...] = (), **request: Any
    ) -> subprocess.Popen[str]:
        """``within`` is a command that runs another, such as ``unshare``."""
        whole = {"verb": verb, "cache": str(self.cache), "log": str(self.log), **request}
        process = subprocess.Popen(
            [*within, sys.executable, "-I", str(PROGRAM)],
            env={**os.environ, "UV_HTTP_RETRIES": "0", **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin
        process.stdin.write(json.dumps(whole))
        process.stdin.close()
        return process

    def ask(self, verb: str, **request: Any) -> Answer:
        with self.start(verb, **request) as process:
            assert process.stdout
            text = process.stdout.read()
        events = [json.loads(line) for line in text.splitlines()]
        return Answer(process.returncode, events[:-1], events[-1], text)

    def solve(self, spec: dict[str, Any], **request: Any) -> Answer:
        return self.ask("solve", **{"spec": spec, "facts": LINUX, "python": None, **request})

    def lock(self, spec: dict[str, Any], **request: Any) -> dict[str, Any]:
        answer = self.solve(spec, **request)
        assert answer.code == 0, answer.last
        lock: dict[str, Any] = answer.last["lock"]
        return lock

    def where(self, name: str) -> dict[str, Any]:
        return {"prefix": str(self.place / name), "beside": str(self.place / f"{name}.building")}

    def install(self, lock: dict[str, Any], name: str = "env", **request: Any) -> Answer:
        given = {"lock": lock, "python": sys.executable, "offline": False, "own_package": None, **self.where(name)}
        return self.ask("install", **{**given, **request})

    def environment(self, lock: dict[str, Any], name: str = "env", **request: Any) -> Path:
        """Built and published by a rename, as the caller does."""
        answer = self.install(lock, name, **request)
        assert answer.code == 0, answer.last
        return (self.place / f"{name}.building").rename(self.place / name)


def conda_spec(channel: str, *conda: str, pip: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {**_spec("conda", "environment.yml"), "channels": [channel], "conda": list(conda), "pip": list(pip), **more}


def pip_spec(*pip: str, index: str = "", **more: Any) -> dict[str, Any]:
    options = {"index_url": index} if index else {}
    return {**_spec("pip", "requirements.txt"), "pip": list(pip), "pip_options": options, **more}


def said(*command: str | Path, env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.strip()


def _spec(kind: str, source: str) -> dict[str, Any]:
    return {
        "source": source,
        "kind": kind,
        "python": None,
        "channels": [],
        "conda": [],
        "pip": [],
        "pip_options": {},
        "locked": "",
        "own_package": False,
    }
