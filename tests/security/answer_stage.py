"""The commands that talk to a target, each recorded once against a real runner and run again with changed answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from axes import spooler
from conftest import eventually
from holdfast import kinds
from holdfast.cli import main
from holdfast.hosts import openssh
from managed import TOOLS, index, tools
from security.replay import Change, Conversation, Recording
from security.sentinel import Sentinel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_S = 10.0
# In these a changed answer may be followed by correct ones: commands that follow a run try again.
WATCHING = ("submit", "data", "follow")
STARTING = ("submit", "data", "queue")
PULLING = ("pull", "team pull")  # from an empty store
TIMES_WATCHED = 4
TRACES = ("Traceback", "Holdfast itself failed", "Holdfast failed on its answer")
_RECORDING = "security.replay:RecordingHost"
REPLAYING = "security.replay:ReplayHost"
REQUIREMENTS = "--no-index\n-f wheels\ntinypip\n"
QUICK = "print('quick')\n"
TRAIN = """
import holdfast, os, sys, time
os.makedirs('outputs/deep', exist_ok=True)
open('outputs/deep/model.bin', 'w').write('weights')
open('outputs/second.txt', 'w').write('second')
holdfast.log('loss', 0.5, step=1)
print('trained', flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFcEOD5k18JSidIDjdIVOmlaZYLzsPJwh/knamc+ogVh"
STUBS = {
    "nvidia-smi": """#!/bin/sh
case "$*" in
--query-gpu=*) echo '0, NVIDIA H200, GPU-1, 00000000:18:00.0, 9.0, 3201, 1980, 143771, 143771, 0, 0, 75, 30, Enabled, \
Disabled, 570.1' ;;
--query-*) ;;
*) echo 'CUDA Version: 12.8' ;;
esac
""",
    "docker": """#!/bin/sh
case "$*" in
info*) echo '{"ServerVersion":"27.0","SecurityOptions":[],"Runtimes":{},"CDISpecDirs":[]}' ;;
version*) echo 27.0 ;;
'image ls'*) echo sha256:11 ;;
'image inspect'*Size*) echo 'sha256:11 1000 ["debian:12"]' ;;
'image inspect'*) echo 'sha256:11 ["debian@sha256:22"]' ;;
run*) printf 'python /usr/bin/python3\\nversion 3.11.2\\nlibc glibc 2.36\\n' ;;
save*) printf archive ;;
load*) cat > /dev/null; echo 'Loaded image: debian:12' ;;
esac
""",
    "podman": "#!/bin/sh\nexit 1\n",
    "python3": f"""#!/bin/sh
[ "$1" = -c ] || exec {sys.executable} "$@"  # whether it is new enough
""",
    "ssh": f"""#!/bin/sh
for word; do case "$word" in UserKnownHostsFile=*) echo '127.0.0.1 {HOST_KEY}' > "${{word#*=}}" ;; esac; done
""",
}
# What our own builder says of a package that has no wheel; asking it takes a second, and it is no target.
REFUSES_TO_BUILD = """#!/bin/sh
cat > /dev/null
echo '{"event": "failed", "kind": "build", "package": "tinyfast", "what": "building is switched off"}'
"""


class Outcome(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


class Flow(NamedTuple):
    """A command, the state of the store that it starts from, and what the target answered to it."""

    argv: tuple[str, ...]
    store: str
    recording: Recording
    fed: str = ""


class Stage:
    """Store, project and target below ``top``; ``flows`` are recorded when it is made, from stores in ``kept``."""

    def __init__(self, top: Path, kept: Path) -> None:
        self.top = top
        self.kept = kept
        self.flows: dict[str, Flow] = {}
        folders = ("store/targets", "project", "elsewhere", "user", "stubs", "data", "team", "spool", "source/packages")
        for name in folders:
            (top / name).mkdir(parents=True)
        for name, text in STUBS.items():
            (top / "stubs" / name).write_text(text)
            (top / "stubs" / name).chmod(0o755)
        spooler.write_commands(top / "stubs", top / "spool")  # no process runs its jobs
        for name, text in (
            ("train.py", TRAIN),
            ("quick.py", QUICK),
            ("requirements.txt", "--no-index\n-f wheels\ntinypip\n"),
        ):
            (top / "project" / name).write_text(text)
        shutil.copytree(index().path / "files", top / "project" / "wheels")
        (top / "source" / "requirements.txt").write_text("--no-index\n-f ./packages\ntinyfast\n")
        shutil.copy(index().path / "files" / "tinyfast-1.0.tar.gz", top / "source" / "packages")
        for name in ("store", "elsewhere"):
            (top / name / "builder").symlink_to(tools())
        (top / "data" / "rows.csv").write_text("1,2\n")
        plain = f"root: {top}/elsewhere\n"
        for name, text in (
            ("far", "type: local\nuserManagedEnvironment: true\n"),
            ("managed", "type: local\nuserManagedEnvironment: false\n"),
            ("distant", "type: remote\naddress: 127.0.0.1\nusername: ada\nuserManagedEnvironment: true\n"),
            ("afar", "type: remote\naddress: 127.0.0.1\nusername: ada\nuserManagedEnvironment: false\n"),
            ("queue", "type: slurm\nuserManagedEnvironment: true\n"),
            ("box", "type: docker\nuserManagedEnvironment: true\nbaseDockerImage: debian:12\n"),
        ):
            (top / "store" / "targets" / f"{name}.compute").write_text(text + plain)
        with self._settings(_RECORDING):
            self._record_all()
        shutil.rmtree(top / "team")
        shutil.rmtree(top / "elsewhere", ignore_errors=True)  # from now on there is no target but its recording
        self.sentinel = Sentinel(top)

    @contextmanager
    def replaying(self, launcher: str = "") -> Iterator[None]:
        """With the target replaced by its recording; ``launcher`` replaces ours too."""
        with self._settings(REPLAYING, launcher):
            yield

    def case(self, name: str, change: Change | None) -> list[str]:
        """What is wrong with the outcome of a command whose target's answer was changed."""
        flow = self.flows[name]
        times = TIMES_WATCHED if name in WATCHING else 1_000_000
        open_before = _open_files()
        for _ in range(2):  # a busy machine is slow once, a command that waits always
            self._restore(flow.store)
            Conversation.begin(flow.recording, change, times)
            outcome = run(flow.argv, flow.fed)
            if outcome.seconds <= LIMIT_S:
                break
        starts = [request for request in Conversation.requests if request["verb"] in ("start", "queue")]
        wrong = _complaints(outcome)
        if len({str(request["plan"]) for request in starts}) > (name in STARTING):
            wrong.append(f"{len(starts)} starts")
        if flow.argv[:2] == ("history", "list") and "quick.py" not in outcome.out:
            wrong.append("the run of another target is not shown")
        Conversation.begin(self.flows["list"].recording)
        after = run(self.flows["list"].argv)
        if after.code or (name not in PULLING and "quick.py" not in after.out):
            wrong.append(f"history list fails afterwards: {after}")
        if left := _left_open(open_before):
            wrong.append(f"{left} files or pipes left open")
        try:
            self.sentinel.check()
        except AssertionError as error:
            wrong.append(str(error))
        return [f"{name} {change}: {problem}" for problem in wrong]

    def _record_all(self) -> None:
        go = self.top / "user" / "go"
        self._keep("empty")
        _expect(run(("submit", "-c", "local", "--env", "none", "quick.py")))
        self._record("submit", "submit", "-c", "far", "train.py")
        self._record("preflight", "submit", "-c", "far", "--preflight", "--gpus", "1", "train.py")
        self._record("container", "submit", "-c", "box", "--preflight", "train.py")
        self._record("environment", "env", "fix", "-c", "managed")
        _expect(run(("experiment", "prepare", "-c", "managed")))  # from now on its packages are known
        shutil.rmtree(self.top / "elsewhere" / "envs")
        self._record("prepare", "experiment", "prepare", "-c", "managed")
        self._record_solve()
        self._record_data()
        self._record_queue()
        _expect(run(("submit", "-c", "far", "--no-wait", "train.py", str(go))))
        eventually(lambda: "Running" in run(("status",)).out)
        self._record("cancel", "cancel")
        eventually(lambda: "Canceled" in run(("status",)).out)
        _expect(run(("submit", "-c", "far", "--no-wait", "train.py", str(go))))
        eventually(lambda: "Running" in run(("status",)).out)
        self._keep("open")
        threading.Timer(0.5, go.touch).start()
        self._record("follow", "logs", "-f")
        eventually(lambda: "Completed" in run(("status",)).out)
        for name, argv in (("info", ("info", "-o", "json")), ("logs", ("logs",))):
            self._restore("open")
            self._record(name, *argv)
        self._keep("closed")
        self._restore("open")
        self._record("list", "history", "list", "--all", "-o", "json")
        self._restore("closed")
        self._record("return", "experiment", "return")
        self._restore("closed")
        self._record("exec", "exec", "-r", "last", "--", "echo", "said")
        self._record("exec fed", "exec", "-r", "last", "--", "cat", fed=f"{self.top}/data/rows.csv")
        self._record("clean", "experiment", "clean", "-c", "far", "--dry-run")
        self._record("images", "image", "list", "-c", "box", "-o", "json")
        self._record("save", "image", "export", "-c", "box", "--force", "debian:12", "image.tar")
        self._record("load", "image", "import", "-c", "box", "image.tar")
        self._record("gpu", "gpu", "-c", "far", "-o", "json")
        self._record("test", "computetarget", "test", "far")
        self._restore("closed")
        _expect(run(("tag", "-r", "last", "kept")))
        self._record("team push", "history", "push", f"far:{self.top}/team")
        self._record("team verify", "store", "verify", "--folder", f"far:{self.top}/team")
        self._restore("empty")
        self._record("team pull", "history", "pull", f"far:{self.top}/team")
        self._restore("empty")
        self._record("pull", "history", "pull", "-c", "far")
        key = ("-k", "--accept-host-key", openssh.fingerprint(HOST_KEY), "--root", f"{self.top}/elsewhere")
        self._record("attach", "attach", "ada@127.0.0.1", "--name", "near", *key)
        go.unlink()
        self._record_interrupted("lost", _kill_all_of)
        self._record_interrupted("absent", _remove_run)
        self._restore("closed")
        self._record("purge", "computetarget", "detach", "far", "--purge", "--yes")

    def _record_interrupted(self, name: str, harm: Callable[[Path], object]) -> None:
        """The command that finds out what happened to a run on the target."""
        self._restore("closed")
        _expect(run(("submit", "-c", "far", "--no-wait", "train.py", "never")))
        eventually(lambda: "Running" in run(("status",)).out)
        plan = max((self.top / "elsewhere").glob("runs/*/a1/plan.json"), key=lambda path: path.stat().st_mtime_ns)
        harm(plan.parent)
        self._record(name, "history", "list", "--all", "-o", "json")

    def _record_solve(self) -> None:
        """With a builder on this machine that answers at once."""
        python = self.top / "store" / "builder" / TOOLS / "bin" / "python"
        (self.top / "store" / "builder").unlink()
        python.parent.mkdir(parents=True)
        python.write_text(REFUSES_TO_BUILD)
        python.chmod(0o755)
        self._record("solve", "experiment", "prepare", "-c", "afar", "-p", f"{self.top}/source")
        self._restore("prepare")

    def _record_queue(self) -> None:
        """A run that waits: looked at, with its start's answer lost, taken out of the queue by others, and canceled."""
        submit = ("submit", "-c", "queue", "--no-wait", "train.py")
        look = ("history", "list", "--all", "-o", "json")
        self._record("queue", *submit)
        self._record("queued", *look)
        client = max((self.top / "store").glob("runs/*/client.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        lines = client.read_text().splitlines(keepends=True)
        client.write_text("".join(line for line in lines if '"ticket"' not in line))
        self._record("queued unknown", *look)
        self._restore("queued")
        for job in (self.top / "spool").iterdir():
            job.unlink()
        self._record("queue lost", *look)
        self._restore("queue")
        _expect(run(submit))
        self._record("queue cancel", "cancel")
        self._restore("queue")

    def _record_data(self) -> None:
        self._record("data", "submit", "-c", "distant", "--data", f"set={self.top}/data", "quick.py")
        kept = json.loads(run(("data", "list", "-c", "distant", "-o", "json")).out)
        self._record("data list", "data", "list", "-c", "distant", "-o", "json")
        self._record("data pin", "data", "pin", kept[0]["hash"], "-c", "distant")
        self._record("data remove", "data", "remove", kept[0]["hash"], "-c", "distant")
        self._restore("data")

    def _record(self, name: str, *argv: str, fed: str = "") -> None:
        """Keeps the store as it is before the command, under the name of the flow."""
        recording = Recording()
        self._keep(name)
        Conversation.begin(recording)
        outcome = run(argv, fed)
        assert outcome.code in (0, 65, 1, 143), (name, outcome)
        assert not _complaints(outcome), (name, outcome)
        self.flows[name] = Flow(argv, name, recording, fed)
        Conversation.begin(Recording())

    def _keep(self, name: str) -> None:
        skip = shutil.ignore_patterns("runner")  # installed again where it is needed
        shutil.copytree(self.top / "store", self.kept / name, symlinks=True, ignore=skip)

    def _restore(self, name: str) -> None:
        shutil.rmtree(self.top / "store")
        shutil.copytree(self.kept / name, self.top / "store", symlinks=True)

    @contextmanager
    def _settings(self, host: str, launcher: str = "") -> Iterator[None]:
        before, folder = dict(os.environ), os.getcwd()
        variables = {"HOME": str(self.top / "user"), "HOLDFAST_HOME": str(self.top / "store"), "USER": "ada"}
        os.environ.update(variables, PATH=f"{self.top}/stubs:{before['PATH']}")
        rows = [kinds.of(name) for name in ("local", "docker", "remote", "slurm")]
        for row in rows[:-1]:
            kinds.register(row._replace(host=host, launcher=launcher or row.launcher))
        kinds.register(kinds.Kind("slurm", host, "axes.toys:SpoolLauncher", kinds.PYTHON))
        os.chdir(self.top / "project")
        try:
            yield
        finally:
            os.chdir(folder)
            for row in rows:
                kinds.register(row)
            os.environ.clear()
            os.environ.update(before)


def _kill_all_of(attempt: Path) -> None:
    """The guardian first: it would close the run of a dead supervisor."""
    accepted, started = map(json.loads, (attempt / "events.jsonl").read_text().splitlines()[:2])
    for pid in (accepted["guardian"], accepted["pid"], started["pid"]):
        os.kill(pid, signal.SIGKILL)


def _remove_run(attempt: Path) -> None:
    _kill_all_of(attempt)
    shutil.rmtree(attempt.parent)


def run(argv: tuple[str, ...], fed: str = "") -> Outcome:
    """A command in this process, as typed; ``fed`` is the file that is its standard input."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        read, write = os.dup(out.fileno()), os.dup(err.fileno())
    streams, kept = (sys.stdout, sys.stderr), (os.dup(0), os.dup(1), os.dup(2))
    began = time.monotonic()
    try:
        with open(fed or os.devnull, "rb") as given:
            os.dup2(given.fileno(), 0)
        os.dup2(read, 1)
        os.dup2(write, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        code = main.run(argv)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        sys.stdout, sys.stderr = streams
        for number, fd in enumerate(kept):
            os.dup2(fd, number)
            os.close(fd)
    seconds = time.monotonic() - began
    return Outcome(code, _content(read), _content(write), seconds)


def _content(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb") as source:
        return source.read().decode("utf-8", "replace")


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _left_open(before: int) -> int:
    """How many more there are; the thread that plays the target closes its side a moment later."""
    try:
        eventually(lambda: _open_files() <= before, 5.0)
    except AssertionError:
        return _open_files() - before
    return 0


def _complaints(outcome: Outcome) -> list[str]:
    wrong = [f"{trace!r} in {outcome.err[-600:]!r}" for trace in TRACES if trace in outcome.err]
    if outcome.code == 70:
        wrong.append(f"exit code 70: {outcome.err[-600:]!r}")
    if outcome.seconds > LIMIT_S:
        wrong.append(f"it took {outcome.seconds:.1f} s")
    return wrong


def _expect(outcome: Outcome) -> None:
    assert outcome.code == 0, outcome
