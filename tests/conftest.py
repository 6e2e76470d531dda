"""A desk for every test: its own home, its own project, and the real ``holdfast`` command on them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import pytest

import seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background of a shell: what we start would be deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same examples every time, as tests/seeds.py has it; HOLDFAST_TEST_SEED=random draws new ones.
# Without a deadline: on a busy machine it judges the machine. What must not take long has a test of its own.
hypothesis.settings.register_profile(
    "fixed",
    derandomize=not os.environ.get(seeds.VARIABLE),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("fixed")
HOLDFAST = Path(sys.executable).with_name("holdfast")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Where everything is to be tested, a lab that does not start is an error and no reason to skip.

    So are packages that cannot be installed. ``sshlab.NotPossibleHere`` and other reasons still skip.
    """
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    cause = call.excinfo.value.__context__ if call.excinfo is not None else None
    is_required = os.environ.get("REQUIRE_PACKAGES") or os.environ.get("CI")
    if report.skipped and is_required and type(cause).__name__ in ("Unavailable", "CalledProcessError"):
        report.outcome, report.longrepr = "failed", f"{item.nodeid}: {cause}"


# Folders whose files take longest. A file is the unit of work of a test process: the long ones must not come last, and
# one of each folder at a time keeps the processes from waiting for what only one of them can build.
LONG_FOLDERS = (
    "fresh",
    "containers",
    "spark",
    "ssh",
    "notebook",
    "faults",
    "disks",
    "builder",
    "security",
    "compatibility",
    "web",
)
SHORT_FOLDERS = ("unit", "golden")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes: files of the long folders in turn, then all others, then unit tests."""
    if not hasattr(config, "workerinput"):
        return
    tests = Path(__file__).parent
    rank: dict[Path, tuple[int, int, int]] = {}
    seen: Counter[str] = Counter()
    for path in dict.fromkeys(item.path for item in items):
        folder = path.relative_to(tests).parts[0] if path.is_relative_to(tests) else ""
        if folder in LONG_FOLDERS:
            rank[path] = (0, seen[folder], LONG_FOLDERS.index(folder))
        else:
            rank[path] = (2 if folder in SHORT_FOLDERS else 1, 0, 0)
        seen[folder] += 1
    items.sort(key=lambda item: rank[item.path])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests were skipped, why, and in which files."""
    reasons: dict[str, Counter[str]] = {}
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ").removeprefix("NOT TESTED: ").strip()
        reasons.setdefault(reason, Counter())[report.nodeid.partition("::")[0]] += 1
    if not reasons:
        return
    terminalreporter.section(f"{sum(map(Counter.total, reasons.values()))} tests were skipped")
    for reason, files in sorted(reasons.items(), key=lambda item: -item[1].total()):
        terminalreporter.line(f"{files.total():5}  {reason}")
        terminalreporter.line(f"       in {', '.join(files)}")


class Result(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Desk:
    """One person at one machine: ``holdfast(...)`` runs the command as installed, in the project's folder."""

    def __init__(self, place: Path) -> None:
        self.user_home = place / "user"
        self.home = place / "store"
        self.project = place / "project"
        self.command = str(HOLDFAST)
        self.user_home.mkdir()
        self.project.mkdir()
        self.env = {
            "HOME": str(self.user_home),
            "HOLDFAST_HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "USER": "ada",
            "LANG": "C.UTF-8",
            "PAGER": "cat",
        }

    def script(self, text: str, name: str = "train.py") -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def start(self, *words: str, cwd: Path | None = None, **more: Any) -> subprocess.Popen[bytes]:
        env = {**self.env, **more.pop("env", {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        return subprocess.Popen([pipes.pop("command", self.command), *words], cwd=cwd or self.project, env=env, **pipes)

    def holdfast(self, *words: str, cwd: Path | None = None, limit: float = 120, **more: Any) -> Result:
        with self.start(*words, cwd=cwd, **more) as process:
            out, err = process.communicate(timeout=limit)
        return Result(process.returncode, out or b"", (err or b"").decode("utf-8", "replace"))

    def python(self, program: str, *words: str, **more: Any) -> Result:
        """Run a program that uses the Python API, from a file in the project's folder."""
        self.script(program, "program.py")
        return self.holdfast("program.py", *words, command=sys.executable, **more)

    def trust(self, name: str) -> None:
        """Confirm what a target asks for that was written by hand."""
        result = self.holdfast("trust", name)
        assert result.code == 0, result

    def submit(self, *words: str, **more: Any) -> Result:
        return self.holdfast("submit", "-c", "local", *words, **more)

    def record(self, run: str = "last") -> dict[str, Any]:
        found: dict[str, Any] = self.holdfast("history", "info", "-r", run, "-o", "json").json
        return found

    def listed(self, run: str = "last") -> dict[str, Any]:
        """The record as ``history list`` has it: without where its time went and long lists."""
        long = ("ledger", "packages", "conda_packages", "attempts")
        return {name: value for name, value in self.record(run).items() if name not in long}

    def attempt(self, run: str = "last") -> Path:
        return self.home / "runs" / str(self.record(run)["uid"]) / "a1"

    def events(self, run: str = "last") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.attempt(run) / "events.jsonl").read_text().splitlines()]

    def wait_for_end(self, run: str = "last", limit: float = 60) -> dict[str, Any]:
        eventually(lambda: self.record(run)["end_time_utc"] is not None, limit)
        return self.record(run)


def eventually(condition: Callable[[], bool], limit: float = 30) -> None:
    """Wait for something that must come true; fail if it does not within the limit."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit} s: {condition}")
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat[stat.rindex(")") + 2] != "Z"


@functools.cache
def as_user(uid: int) -> list[str]:
    """For root: arguments that run a command as another user, who must be able to start holdfast."""
    switch = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    if subprocess.run([*switch, HOLDFAST, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED: other users cannot start holdfast here; this checkout is in a private folder")
    return switch


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    for pid in _processes_of(desk):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _processes_of(desk: Desk) -> list[int]:
    """Whatever a test left running: known by its store in the command's environment."""
    marks = (f"HOLDFAST_HOME={desk.home}".encode(), f"HOLDFAST_METRICS_DIR={desk.home}".encode())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(part.startswith(marks) for part in environ):
                found.append(int(entry.name))
    return found
