"""Records which Python runs the script and its packages: ``metrics/packages.json`` and the event ``packages``.

Listing the packages takes a start of the interpreter, so the list is kept in ``cache/pythons`` for as long as the
folders of the interpreter stay the same. Then a record costs a few stat calls and a small file, while the script runs.
"""

import hashlib
import os
import select
import time

from .. import untrusted, wire
from ..decoding import as_bytes, lossless
from ..store import layout
from ..store.files import SYNCED, UNSYNCED, note, unlink_quietly, write_whole
from .installed_packages import state_of

MYPY = False
if MYPY:
    from ..store.run_files import Events

_LARGEST = 16 << 20
_MOST = 20000  # packages
_LONGEST = 4096  # characters of a text
_RACY_MS = 2000  # a folder that changed so lately may change again without another time
_PATIENCE_S = 20.0
_OFTEN_S = 0.01
_TEXTS = ("path", "version", "implementation", "environment", "kind", "base")
_OF_PACKAGE = ("name", "version", "installer", "url", "commit", "vcs", "subdirectory")
_OF_CONDA = ("name", "version", "build", "channel")
_LOGIN = r"(https?://)[^/@]*@"


class PackageRecord:
    """The record of one attempt: ``prepare``, then ``begin`` once the script runs, ``mind``, at last ``finish``."""

    def __init__(self, home: "bytes", runner: "str", attempt: "bytes") -> "None":
        self._attempt = attempt
        self._apart = [layout.runners(home), attempt]  # what a script finds there is not installed
        self._program = layout.package_list(layout.runner(home, runner.encode("ascii")))
        self._kept = layout.pythons(home)
        self._key = ""
        self._argv = []  # type: list[bytes]
        self._env = {}  # type: dict[bytes, bytes]
        self._inside = b""
        self._pid, self._heard = 0, b""
        self._script, self._began, self._is_shim = 0, 0.0, False
        self.sources = []  # type: list[int]
        self.is_recorded = False
        self.known = {}  # type: dict[str, list[object]]

    def prepare(self, program: "bytes", env: "dict[bytes, bytes]") -> "None":
        """For a script on this machine that ``program`` runs; nothing is recorded where no Python can be found."""
        self._env = env
        python = interpreter_of(program, env)
        self._is_shim = python is not None and _first_line(python).startswith(b"#!")
        if python is not None:
            self._use(python)

    def _use(self, python: "bytes") -> "None":
        env = self._env
        self._argv = [python, b"-B", self._program, *self._apart]
        paths = [path for path in env.get(b"PYTHONPATH", b"").split(b":") if not self._is_apart(path)]
        parts = [python, b":".join(paths)]
        parts += [env.get(name, b"") for name in (b"HOME", b"PYTHONHOME", b"PYTHONNOUSERSITE", b"PYTHONUSERBASE")]
        self._key = _hash(b"\0".join(parts))

    def prepare_inside(self, python: "str", image: "str", inside: "bytes") -> "list[str] | None":
        """For a script in a container: the command that lists the packages there; None where the list is known.

        ``image`` names what cannot change; empty where the container has folders or variables that may.
        """
        self._inside = layout.packages_inside(inside)
        self._key = _hash(as_bytes("%s\0%s" % (image, python))) if image else ""
        if self._known() is not None:
            return None
        target = lossless(self._inside)
        return [python, "-B", lossless(self._program), "--to", target, *[lossless(path) for path in self._apart]]

    def begin(self, events: "Events", script: "int") -> "None":
        """``script``: its pid. Behind a shim stands another Python, which only that process knows."""
        self._script, self._began = script, time.monotonic()
        if not self._is_shim:
            self._record(events)

    def times(self) -> "list[float]":
        """When to look again, by the monotonic clock."""
        if not self._is_shim:
            return []
        now = time.monotonic()
        return [now + (_OFTEN_S if now - self._began < 1.0 else 10 * _OFTEN_S)] if now - self._began < 10.0 else []

    def mind(self, events: "Events", ready: "list[int]") -> "None":
        """Read what the interpreter said so far, or look whether it can be said by now which one it is."""
        if set(self.sources) & set(ready):
            self._hear(events)
        if self._is_shim:
            python = _python_of(self._script)
            if python is not None:
                self._is_shim = False
                self._use(python)
                self._record(events)

    def look(self, events: "Events") -> "None":
        """Take the list from a container, if it is there by now."""
        if self._inside and not self.is_recorded:
            try:
                data = untrusted.read_file(self._inside, _LARGEST, follow=False)
            except (OSError, ValueError):
                return
            self._store(events, data)

    def _record(self, events: "Events") -> "None":
        known = self._known()
        try:
            if known is not None:
                self._publish(events, known)
            elif self._argv:
                self._ask()
        except (OSError, ValueError):
            return  # a full disk, or a note that was removed meanwhile; the run matters more

    def _hear(self, events: "Events") -> "None":
        for source in list(self.sources):
            block = os.read(source, 1 << 16)
            self._heard += block
            if block and len(self._heard) <= _LARGEST:
                continue
            os.close(source)
            self.sources = []
            _collect(self._pid)
            self._store(events, self._heard)

    def finish(self, events: "Events") -> "None":
        """Before what the script left running is ended: the interpreter that lists packages is none of it."""
        if self._is_shim and self._script:
            self._key = ""  # it ended before its program was seen; the shim may start another one tomorrow
            self._record(events)
        until = time.monotonic() + _PATIENCE_S
        while self.sources and select.select(self.sources, [], [], max(0.0, until - time.monotonic()))[0]:
            self._hear(events)
        if self.sources:
            os.close(self.sources.pop())
            os.kill(self._pid, 9)
            _collect(self._pid)
        self.look(events)

    def _is_apart(self, path: "bytes") -> "bool":
        return not path or any(path.startswith(folder + b"/") for folder in self._apart)

    def _note(self) -> "bytes":
        return os.path.join(self._kept, self._key.encode("ascii") + b".json")

    def _known(self) -> "dict[str, object] | None":
        """What was noted of this interpreter, if its folders are as they were."""
        if not self._key:
            return None
        try:
            noted = untrusted.loads(untrusted.read_file(self._note(), _LARGEST))
        except (OSError, ValueError):
            return None
        state = noted.get("state") if isinstance(noted, dict) else None
        if not isinstance(state, dict) or any(state_of(as_bytes(path)) != state[path] for path in state):
            return None
        return noted if self._content(noted) is not None else None  # type: ignore[arg-type, return-value]

    def _content(self, noted: "dict[str, object]") -> "bytes | None":
        """The list itself; None where it is not there, or damaged."""
        try:
            content = untrusted.read_file(self._content_path(noted), _LARGEST)
        except (OSError, ValueError):
            return None
        return content if hashlib.sha256(content).hexdigest() == noted.get("sha256") else None

    def _ask(self) -> "None":
        import subprocess

        quiet, work = subprocess.DEVNULL, layout.work(self._attempt)
        child = subprocess.Popen(self._argv, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env=self._env, cwd=work)
        self._pid = child.pid
        self.sources = [os.dup(child.stdout.fileno())]  # type: ignore[union-attr]
        child.stdout.close()  # type: ignore[union-attr]
        child.returncode = 0  # we collect it ourselves

    def _store(self, events: "Events", data: "bytes") -> "None":
        try:
            listed = untrusted.loads(data)
            content, summary = checked(listed)
        except ValueError:
            return
        digest = hashlib.sha256(content).hexdigest()
        noted = {"v": 1, "sha256": digest, "size": len(content), "python": summary, "state": _state(listed)}
        try:
            if self._key and not _is_racy(noted["state"]):
                self._keep(dict(noted, state={}) if self._inside else noted, content)
            self._publish(events, noted, content)
        except OSError:
            return  # a full disk; the run matters more

    def _keep(self, noted: "dict[str, object]", content: "bytes") -> "None":
        os.makedirs(self._kept, 0o700, exist_ok=True)
        kept = self._content_path(noted)
        before = self._known_digest()
        write_whole(kept, content, sync=SYNCED)
        note(self._note(), wire.dumps(noted))
        if before and before != noted["sha256"]:
            unlink_quietly(os.path.join(self._kept, before.encode("ascii")))

    def _known_digest(self) -> "str":
        try:
            noted = untrusted.loads(untrusted.read_file(self._note(), _LARGEST))
            return untrusted.hexadecimal(noted["sha256"], 64)  # type: ignore[index]
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _content_path(self, noted: "dict[str, object]") -> "bytes":
        return os.path.join(self._kept, untrusted.hexadecimal(noted.get("sha256"), 64).encode("ascii"))

    def _publish(self, events: "Events", noted: "dict[str, object]", content: "bytes | None" = None) -> "None":
        """The file, and the event that says what it has to be."""
        content = content or self._content(noted)
        if content is None:
            raise ValueError("the list was removed meanwhile")
        self.is_recorded = True
        write_whole(layout.package_file(self._attempt), content, sync=UNSYNCED)
        if not self._inside:  # a script in a container can write there
            self.known = {layout.package_file.name: [noted.get("size"), noted.get("sha256")]}
        events.add("packages", python=noted.get("python"), size=noted.get("size"), sha256=noted.get("sha256"))


def interpreter_of(program: "bytes", env: "dict[bytes, bytes]") -> "bytes | None":
    """The Python that a command starts: itself, the one of its first line, or the one that PATH has for it."""
    path = _which(program, env) or (_which(b"python3", env) if program == b"python" else None)
    for _ in range(3):
        if path is None or _is_python(path):
            break
        path = _of_first_line(path, env)
    return path or _which(b"python", env) or _which(b"python3", env)


def checked(listed: "object") -> "tuple[bytes, dict[str, object]]":
    """What an interpreter said as it is stored, and what the event says of it; ValueError where it makes no sense."""
    import re

    if not isinstance(listed, dict) or not isinstance(listed.get("python"), dict):
        raise ValueError("not a list of packages")
    python = {name: _text(listed["python"].get(name)) for name in _TEXTS}
    packages = []
    for package in _rows(listed.get("packages")):
        row = {name: re.sub(_LOGIN, r"\1", text) for name in _OF_PACKAGE for text in [_text(package.get(name))] if text}
        if package.get("editable") is True:
            row["editable"] = True  # type: ignore[assignment]
        packages.append(row)
    conda = [{name: _text(package.get(name)) or "" for name in _OF_CONDA} for package in _rows(listed.get("conda"))]
    content = {"v": 1, "python": python, "packages": packages, "conda": conda}
    summary = dict(python, packages=len(packages))  # type: dict[str, object]
    if conda:
        summary["conda_packages"] = len(conda)
    return wire.dumps(content) + b"\n", summary


def _rows(value: "object") -> "list[dict[str, object]]":
    rows = value if isinstance(value, list) else []
    return [row for row in rows[:_MOST] if isinstance(row, dict) and _text(row.get("name"))]


def _text(value: "object") -> "str | None":
    return value[:_LONGEST] if isinstance(value, str) else None


def _state(listed: "object") -> "dict[str, str]":
    state = listed.get("state") if isinstance(listed, dict) else None
    return {path: str(text) for path, text in state.items()} if isinstance(state, dict) else {}


def _is_racy(state: "object") -> "bool":
    now = time.time() * 1000
    states = state.values() if isinstance(state, dict) else ()
    return any(text and now - int(text.split()[0]) < _RACY_MS for text in states)


def _hash(data: "bytes") -> "str":
    return hashlib.sha256(data).hexdigest()[:32]


def _which(name: "bytes", env: "dict[bytes, bytes]") -> "bytes | None":
    if os.path.dirname(name):
        return name if os.access(name, os.X_OK) else None
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _of_first_line(path: "bytes", env: "dict[bytes, bytes]") -> "bytes | None":
    line = _first_line(path)
    tokens = [token for token in line[2:].split() if not token.startswith(b"-")] if line.startswith(b"#!") else []
    if tokens and os.path.basename(tokens[0]) == b"env":
        tokens = tokens[1:]
    return _which(tokens[0], env) if tokens else None


def _first_line(path: "bytes") -> "bytes":
    try:
        with open(path, "rb") as source:
            return source.read(512).split(b"\n")[0]
    except OSError:
        return b""


def _is_python(path: "bytes") -> "bool":
    return os.path.basename(path).rstrip(b"0123456789.") in (b"python", b"pypy")


def _python_of(pid: "int") -> "bytes | None":
    """The Python that a process runs by now, as it was named when it was started; None where it is none."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as source:
            named = source.read(_LONGEST).split(b"\0")[0]
        program = os.readlink(b"/proc/%d/exe" % pid)
    except OSError:
        return None
    if not _is_python(program):
        return None
    return named if os.path.isabs(named) and os.path.realpath(named) == program else program


def _collect(pid: "int") -> "None":
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # the supervisor collects all children that have ended
