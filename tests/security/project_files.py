"""Every file that commands read in a project, as a link, pipe, device, folder, huge or vanishing file.

``python -m security.project_files COUNT SEED`` (in tests/) runs that many cases, each in a child of its own with little
memory, and prints those that failed: a traceback, exit code 70, more than ten seconds, more than a gigabyte, a change
outside store and project, or content from outside inside them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import random
import resource
import shutil
import signal
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast import engine, environments, present
from holdfast.cli import commands, main
from security.sentinel import SECRET, Sentinel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    Command: TypeAlias = "Callable[[Sequence[str]], int]"

HANGS_S = float(os.environ.get("HOLDFAST_FUZZ_HANGS_S", "10"))
MOST_MEMORY = 1 << 30
GUID = "8f3c2a1e-0000-4000-8000-0123456789ab"
COMMIT = "1234567890" * 4
UID = "ab" * 16
FILES: dict[str, str] = {
    ".holdfast-project": f'{{"id": "{GUID}", "name": "project"}}',
    ".azureml/project.json": f'{{"Id": "{GUID}", "Scope": "a/b"}}',
    "aml_config/local.compute": "type: local\n",
    "aml_config/local.runconfig": "Target: local\nFramework: Python\nPrepareEnvironment: false\n",
    "aml_config/x.compute": "type: local\nuserManagedEnvironment: false\n",
    "aml_config/y.compute": "type: local\nuserManagedEnvironment: false\n",
    "aml_config/x.runconfig": "Target: x\nFramework: Python\nCondaDependenciesFile: conda/own.yml\n"
    "SparkDependenciesFile: aml_config/spark_dependencies.yml\nPrepareEnvironment: true\n",
    "aml_config/x.lock": "{}",
    "aml_config/conda_dependencies.yml": "dependencies:\n- python=3.11\n",
    "aml_config/spark_dependencies.yml": "configuration: {}\nrepositories:\n- https://mmlspark.azureedge.net/maven\n",
    "conda/own.yml": "dependencies:\n- python=3.11\n",
    "environment.yml": "dependencies:\n- python=3.11\n",
    "requirements.txt": "-r more.txt\n--find-links ./wheels\n",
    "wheels/a-1.0-py3-none-any.whl": "",
    "more.txt": "numpy==1.26.0\n",
    "pyproject.toml": '[project]\nname = "p"\nversion = "1"\ndependencies = []\n',
    "uv.lock": "version = 1\n",
    "pylock.toml": 'lock-version = "1.0"\n',
    "setup.py": "from setuptools import setup\nsetup(install_requires=[])\n",
    "setup.cfg": "[metadata]\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\trepositoryformatversion = 0\n",
    ".git/refs/heads/main": f"{COMMIT}\n",
    ".git/packed-refs": f"{COMMIT} refs/heads/main\n",
    ".git/commondir": ".\n",
    ".git/index": "",
    ".git/info/exclude": "*.tmp\n",
    ".gitignore": "*.log\n",
    ".amlignore": "!kept.log\n",
    "sub/.gitignore": "*.bin\n",
    "train.py": "import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/m', 'w').write('x')\n",
    "old.py": "from sklearn.externals import joblib\nimport tensorflow as tf\ntf.Session()\n",
    "flow.dprep": "{}",
    ".keepignore": "*.log\n",
    "data.csv": "1,2\n",
    "key.pem": "-----BEGIN CERTIFICATE-----\n",
    "service.json": "{}",
    ".npmrc": "registry=x\n",
    "Dockerfile": "FROM scratch\n",
    "assets/model.link": f'{{"assetSource":"holdfast","name":"model","version":"1","uid":"{UID}","path":"m",'
    f'"sha256":"{"0" * 64}"}}',
    "values.env": "A=1\n",
}
# Only the first of these that is there is read.
DECLARATIONS = (
    *("aml_config/conda_dependencies.yml", "environment.yml", "uv.lock", "pylock.toml", "pyproject.toml"),
    *(_TOGETHER := ("requirements.txt", "more.txt", "wheels/a-1.0-py3-none-any.whl")),
)
FOLDERS = ("aml_config", ".azureml", ".git", ".git/refs", ".git/info", "sub", "assets", "conda", "outputs")
REPETITIVE = {
    "repeated blanks": ("a==1" + " " * 4000 + "!\n") * 60,
    "repeated header": "[a" + " " * 60_000 + "x\n",
    "repeated dots": ".".join(["a"] * 40_000) + " = 1\n",
    "repeated stars": "**/" * 300_000 + "a\n",
    "repeated slashes": ("://" * 1300 + "\\\n") * 250 + "x\n",
    "repeated lines": "a*b*c*d\n" * 60_000,
    "repeated names": "".join(f"a{number}==1\n" for number in range(60_000)),
}
KINDS = (
    *REPETITIVE,
    *(
        "link to /dev/zero",
        "link to /dev/tty",
        "link out",
        "link to itself",
        "link to nothing",
        "link to a pipe",
        "pipe",
    ),
    *("socket", "folder", "huge", "binary", "empty", "unreadable", "endless line", "vanishing", "becoming a pipe"),
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("submit", "-c", "local", "--dry-run", "train.py"),
    ("submit", "-c", "x", "--dry-run", "train.py"),
    ("submit", "-c", "local", "train.py"),
    ("submit", "-c", "local", "--env-file", "values.env", "train.py"),
    ("submit", "-c", "local", "--preflight", "train.py"),
    ("check",),
    ("check", "--fix"),
    ("revive", "."),
    ("revive", ".", "--write"),
    ("data", "list", "-c", "local"),
    ("runs",),
    ("info", "-r", "last"),
    ("history", "list", "-o", "json"),
    ("computetarget", "list"),
    ("computetarget", "show", "x"),
    ("runconfiguration", "list"),
    ("env", "show", "-c", "x"),
    ("env", "show", "-c", "y"),
    ("asset", "list"),
    ("asset", "download", "--link-file", "assets/model.link", "-d", "got"),
    ("diff", "-r", "last"),
    ("restore", "-r", "last"),
    ("reproduce", "-r", "last"),
    ("diagnostics", "-r", "last", "--to", "report.zip", "--yes"),
    ("du",),
)


class Case(NamedTuple):
    file: str
    kind: str
    command: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file} as {self.kind}: holdfast {' '.join(self.command)}"


def cases(count: int, seed: int) -> list[Case]:
    """Every file in every kind with some command, in any order; then again with others."""
    rng = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        again = [Case(file, kind, _command(file, rng)) for file in (*FILES, *FOLDERS) for kind in KINDS]
        rng.shuffle(again)
        found += again
    return found[:count]


def _command(file: str, rng: random.Random) -> tuple[str, ...]:
    command = ("env", "show", "-c", "y") if file in DECLARATIONS and rng.random() < 0.5 else rng.choice(COMMANDS)
    if file == "aml_config" and command[0] == "submit":
        # Without run configurations the declared packages would be installed, which takes most of a minute.
        return (*command[:3], "--env", "none", *command[3:])
    return command


def run(case: Case, template: Path, holdfast: Command = main.run) -> str:
    """What is wrong, or an empty string. ``template`` is the folder that ``prepared`` made."""
    top = Path(tempfile.mkdtemp(dir=template.parent, prefix="case-"))
    try:
        for name in ("project", "store"):
            shutil.copytree(template / name, top / name, symlinks=True, copy_function=copy)
        sentinel = Sentinel(top)
        for other in DECLARATIONS if case.file in DECLARATIONS else ():
            if other != case.file and not {other, case.file} <= {*_TOGETHER}:
                (top / "project" / other).unlink(missing_ok=True)
        replace(top / "project" / case.file, case.kind, sentinel)
        with _Restless(top / "project" / case.file, case.kind):
            problems = watched(case.command, top, sentinel, holdfast)
        return f"{case}: {'; '.join(problems)}" if problems else ""
    finally:
        shutil.rmtree(top, ignore_errors=True)  # a run may still be ending there


def watched(command: tuple[str, ...], top: Path, sentinel: Sentinel, holdfast: Command) -> list[str]:
    """What is wrong with a command's end, words, time, or with the files around it."""
    code, told, seconds = execute(command, top, holdfast)
    problems = [f"exit code {code}"] if code in (70, None) else []
    problems += ["a traceback"] if told.count("Traceback") > _printed_by_scripts(top).count("Traceback") else []
    problems += [f"{seconds:.0f} s"] if seconds > HANGS_S else []
    problems += ["content from outside is shown"] if SECRET.decode() in told else []
    try:
        sentinel.check()
    except AssertionError as error:
        problems.append(str(error).splitlines()[0])
    return [*problems, told[-1500:]] if problems else []


def _printed_by_scripts(top: Path) -> str:
    """A script that was replaced by other text fails in Python's own words."""
    logs = [path.read_text("utf-8", "replace") for path in top.glob("store/runs/*/a*/log") if path.is_file()]
    return "".join(logs)


def copy(source: str, target: str) -> None:
    """Our own program, which no command changes, is shared by all cases."""
    if source.endswith(".tmp"):
        return  # a process that made the template may still be ending
    if f"{os.sep}runner{os.sep}" in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def replace(path: Path, kind: str, sentinel: Sentinel) -> None:
    """Put something of that kind in the place of a file or folder of the project."""
    if path.is_dir() and kind not in ("unreadable", "vanishing"):
        shutil.rmtree(path)
    elif kind not in ("unreadable", "vanishing", "becoming a pipe"):
        path.unlink(missing_ok=True)
    pipe = sentinel.top / "project" / "a pipe"
    targets: dict[str, str | Path] = {
        "link to /dev/zero": "/dev/zero",
        "link to /dev/tty": "/dev/tty",
        "link out": sentinel.file,
    }
    targets |= {"link to itself": path.name, "link to nothing": "nowhere", "link to a pipe": pipe}
    if kind in targets:
        if kind == "link to a pipe":
            os.mkfifo(pipe)
        path.symlink_to(targets[kind])
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    elif kind == "folder":
        path.mkdir()
        (path / "inner").write_text("x")
    elif kind == "huge":
        with path.open("wb") as sink:
            sink.truncate(1 << 40)
    elif kind in ("binary", "empty", "endless line"):
        path.write_bytes({"binary": bytes(range(256)) * 40, "empty": b""}.get(kind, b"a " * 400_000))
    elif kind in REPETITIVE:
        path.write_text(REPETITIVE[kind])
    elif kind == "unreadable":
        path.chmod(0)


class _Restless:
    """A process that takes the file away and puts it back, or puts a pipe in its place, over and over."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind
        self._pid = 0

    def __enter__(self) -> None:
        if self._kind not in ("vanishing", "becoming a pipe"):
            return
        aside, pipe = self._path.with_name("taken away"), self._path.with_name("another")
        if self._kind == "becoming a pipe":
            os.mkfifo(pipe)
        self._pid = os.fork()
        while not self._pid:
            with contextlib.suppress(OSError):
                os.rename(self._path, aside)
                if self._kind == "becoming a pipe":
                    os.rename(pipe, self._path)
                    time.sleep(0.0005)
                    os.rename(self._path, pipe)
                time.sleep(0.0005)
                os.rename(aside, self._path)
                time.sleep(0.0005)

    def __exit__(self, *_: object) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def execute(command: tuple[str, ...], top: Path, holdfast: Command) -> tuple[int | None, str, float]:
    """Exit code (None: killed for its time or memory), all that was said, and how long it took."""
    began = time.monotonic()
    pid = os.fork()
    if not pid:
        _become(command, top, holdfast)
    code: int | None = None
    while time.monotonic() - began < HANGS_S + 1:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.002)
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    said = (top / "store" / "said").read_text("utf-8", "replace")
    return (code if code is None or code >= 0 else None), said, time.monotonic() - began


def _become(command: tuple[str, ...], top: Path, holdfast: Command) -> None:
    try:
        os.setsid()
        sink = os.open(top / "store" / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for fd, number in ((nothing, 0), (sink, 1), (sink, 2)):
            os.dup2(fd, number)
        os.environ.update(HOME=str(top / "user"), HOLDFAST_HOME=str(top / "store"), USER="ada")
        # Not a shim: bash takes minutes with tens of thousands of variables.
        os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        os.chdir(top / "project")
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        code = holdfast(command)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)


def prepared(folder: Path) -> Path:
    """A project with all these files and a store with one run, from which every case is copied."""
    template = folder / "template"
    (template / "store").mkdir(parents=True)
    (template / "user").mkdir()
    for name, text in FILES.items():
        path = template / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (template / "project" / "outputs").mkdir()
    (template / "project" / ".git" / "objects").mkdir()
    promote = ("history", "promote", "-r", "last", "--artifact-path", "outputs/m", "--name", "model")
    for command in (("submit", "-c", "local", "train.py"), promote):
        code, said, _ = execute(command, template, main.run)
        if code:
            raise RuntimeError(said)
    return template


def preload() -> None:
    """Import once what every child would import again."""
    for package in (commands, engine, environments, present):
        for module in pkgutil.walk_packages([*package.__path__], f"{package.__name__}."):
            importlib.import_module(module.name)


def memory() -> str | None:
    """A folder in memory, where there is one: a case makes and removes hundreds of files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def campaign(count: int, seed: int) -> list[str]:
    preload()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=memory()) as folder:
        template = prepared(Path(folder))
        return [problem for case in cases(count, seed) if (problem := run(case, template))]


def unseen() -> list[str]:
    """Planted bugs that the oracle does not find."""
    project = Path(".holdfast-project")

    def reads_anything(_: Sequence[str]) -> int:
        return len(project.read_bytes()) and 0

    def copies(_: Sequence[str]) -> int:
        Path(os.environ["HOLDFAST_HOME"], "copy").write_bytes(project.read_bytes())
        return 0

    def writes_outside(_: Sequence[str]) -> int:
        Path("..", "outside", "new").write_text("x")
        return 0

    def fails(_: Sequence[str]) -> int:
        raise KeyError("planted")

    planted = [(reads_anything, "link to /dev/zero"), (reads_anything, "pipe"), (copies, "link out")]
    planted += [(writes_outside, "empty"), (fails, "empty"), (lambda _: 70, "empty")]
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder, "template")
        (template / "store").mkdir(parents=True)
        (template / "project").mkdir()
        return [kind for bug, kind in planted if not run(Case(".holdfast-project", kind, ()), template, bug)]


if __name__ == "__main__":
    if sys.argv[1] == "planted":
        sys.exit(f"not found: {left}" if (left := unseen()) else 0)
    failed = campaign(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(failed))
    sys.exit(1 if failed else 0)
