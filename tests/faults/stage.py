"""A desk whose scripts write down, outside the store and before they do it, what they are about to do."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import shutil
from pathlib import Path
from typing import Any

from conftest import Desk, Result, eventually
from holdfast import lifecycle

# One line of truth before each line of log and each point of a metric, so that what we keep is what it wrote or, where
# it was killed in between, the same without its last line. WAIT names a file that it waits for first.
SCRIPT = r"""
import os, sys, time
import holdfast
uid, truth = os.environ["HOLDFAST_RUN_UID"], os.environ["TRUTH"]
def tell(name, data):
    fd = os.open(os.path.join(truth, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, data)
    os.close(fd)
tell("starts", ("%s %d\n" % (uid, os.getpid())).encode())
assert len(os.environ["CANARY"]) == 32
while os.environ.get("WAIT") and not os.path.exists(os.environ["WAIT"]):
    time.sleep(0.005)
for number in range(int(sys.argv[1])):
    line = b"%d \xff\x1b[31m\r\0%s" % (number, os.urandom(8)) + b"\n" * (number % 3)
    tell(uid + ".log", line)
    os.write(1 + number % 2, line)
    tell(uid + ".metrics", b"%d\n" % number)
    holdfast.log("point", float(number), step=number)
    time.sleep(float(sys.argv[2]))
with open("outputs/result", "wb") as stream:
    stream.write(uid.encode())
tell(uid + ".end", b"0\n")
"""


# A script with a family: children, and daemons that have left its session, its parent and their own environment.
# It notes when it is told to end, and ends; some of the others do not care.
FAMILY = r"""
import os, signal, sys, time
uid, truth = os.environ["HOLDFAST_RUN_UID"], os.environ["TRUTH"]
def tell(name, text):
    fd = os.open(os.path.join(truth, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, text.encode())
    os.close(fd)
def member(number):
    if number % 2:
        os.setsid()
        if os.fork():
            os._exit(0)
    if number % 3 == 2:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(uid + ".family", "%d\n" % os.getpid())
    os.execve("/bin/sleep", ["sleep", "1000"], {})
def told(*_):
    tell(uid + ".term", "%d\n" % time.monotonic_ns())
    sys.exit(0)
tell("starts", "%s %d\n" % (uid, os.getpid()))
signal.signal(signal.SIGTERM, told)
for number in range(int(sys.argv[1])):
    if os.fork() == 0:
        member(number)
while True:
    signal.pause()
"""


class Stage(Desk):
    """What a campaign of kills plays on. It remembers every id and every word that a command printed."""

    def __init__(self, place: Path, *, far: bool = False) -> None:
        place.mkdir(parents=True)
        super().__init__(place)
        self.place = place
        self.truth = place / "truth"
        self.truth.mkdir()
        self.canary = secrets.token_hex(16)
        self.env |= {"CANARY": self.canary}
        self.ids: set[str] = set()
        self.deleted: set[str] = set()  # asked to be deleted by a command that was killed: there or gone, both are true
        self.meddled: set[str] = set()  # uids whose runner or script was killed or told to stop
        self.said: list[Result] = []
        self.patience = 15.0  # seconds for processes to end by themselves
        self.far = place / "far" if far else None
        self.script(SCRIPT)
        self.script(FAMILY, "family.py")
        for number in range(3):
            self.script(f"VALUE = {number}\n", f"package/part{number}.py")
        if far:
            (self.project / "aml_config").mkdir()
            (self.project / "aml_config" / "local.compute").write_text(f"type: local\nroot: {self.far}\n")
            self.trust("local")
        self.ready = self.start_run(1, 0)  # the runner is unpacked, the store is there
        self.wait_until_all_ended()

    def words(self, *options: str, script: str = "train.py", lines: int = 20, pause: float = 0.005) -> tuple[str, ...]:
        """The words of a submit."""
        asked = ("-c", "local", "-e", f"TRUTH={self.truth}", "--secret", "CANARY", "--grace", "1s")
        return ("submit", *asked, *options, script, str(lines), str(pause))

    def start_run(self, lines: int = 20, pause: float = 0.005, *options: str, script: str = "train.py") -> str:
        """A run that goes on by itself; returns its id."""
        result = self.say(*self.words("--no-wait", *options, script=script, lines=lines, pause=pause))
        assert result.code == 0, result
        return ids_in(result.out)[0]

    def say(self, *words: str, **more: Any) -> Result:
        """An ordinary command, run to its end; what it says is remembered."""
        return self.heard(self.holdfast(*words, **more))

    def heard(self, result: Result) -> Result:
        self.said.append(result)
        self.ids |= set(ids_in(result.out))
        return result

    def records(self) -> list[dict[str, Any]]:
        """All runs, as the next ordinary command finds them."""
        result = self.say("history", "list", "-o", "json")
        assert result.code == 0, result
        found: list[dict[str, Any]] = json.loads(result.out)
        return found

    def wait_until_all_ended(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        def ended() -> bool:
            found[:] = self.records()
            return all(record["status"] in lifecycle.FINAL for record in found)

        eventually(ended, 60)
        return found

    def uid_of(self, run_id: str) -> str:
        return next(uid for uid, request in self.requests().items() if request["run_id"] == run_id)

    def requests(self) -> dict[str, dict[str, Any]]:
        """run.json of every run folder that stands under its final name."""
        folders = (self.home / "runs").glob("[0-9a-f]" * 32)
        return {folder.name: json.loads((folder / "run.json").read_bytes()) for folder in folders}

    def attempt_of(self, uid: str) -> Path:
        """Where the runner writes."""
        return (self.far or self.home) / "runs" / uid / "a1"

    def events_of(self, uid: str) -> list[dict[str, Any]]:
        path = self.attempt_of(uid) / "events.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    def await_event(self, uid: str, kind: str) -> dict[str, Any]:
        eventually(lambda: any(event["type"] == kind for event in self.events_of(uid)))
        return next(event for event in self.events_of(uid) if event["type"] == kind)

    def forget(self) -> None:
        """Begin again with no store at all."""
        eventually(lambda: not processes_of(self.place), self.patience)
        shutil.rmtree(self.home)
        self.ids, self.said = set(), []

    def change_project(self, rng: random.Random) -> None:
        """Something new to store for the next submit."""
        for number in range(2):
            (self.project / "package" / f"data{number}.bin").write_bytes(rng.randbytes(2000))


class Freezer:
    """A stage as it stood once, to be put back before every kill."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._copy = stage.place / "frozen"
        for name in ("store", "project", "truth"):
            shutil.copytree(stage.place / name, self._copy / name, symlinks=True)
        self._ids = set(stage.ids)

    def put_back(self) -> None:
        for name in ("store", "project", "truth"):
            shutil.rmtree(self._stage.place / name)
            shutil.copytree(self._copy / name, self._stage.place / name, symlinks=True)
        self._stage.ids = set(self._ids)
        self._stage.deleted = set()
        self._stage.said = []


def processes_of(place: Path) -> dict[int, str]:
    """Whatever still runs and belongs to a stage, by the store in its environment."""
    marks = (f"HOLDFAST_HOME={place}/".encode(), f"HOLDFAST_METRICS_DIR={place}/".encode())
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and any(
                part.startswith(marks) for part in (entry / "environ").read_bytes().split(b"\0")
            ):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found


def ids_in(out: bytes) -> list[str]:
    return [found.decode() for found in re.findall(rb"^RunId: (\S+)$", out, re.MULTILINE)]


def age(path: Path, hours: float) -> None:
    """Make a file or folder, and all below it, older than it is."""
    for each in (path, *path.rglob("*")):
        if not each.is_symlink():
            then = each.stat().st_mtime - hours * 3600
            os.utime(each, (then, then))
