"""Describes a machine to a person who attaches it: system, disk, Python, engines, GPUs."""

import os
import pwd
import subprocess
import sys
import time

from ..decoding import readable
from ..store.remove_tree import remove_tree
from . import facts, store_health

_FOLDERS = ("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


def survey(home: "bytes", within: "float") -> "dict[str, object]":
    """``within``: seconds that the engines and the driver of the GPUs may take."""
    room, until = os.statvfs(home), time.monotonic() + within
    engines = {name: _Engine(home, name) for name in ("docker", "podman") if facts.which(name)}
    gpus = _gpus(within)
    return {
        "python": {"path": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3]},
        "system": _system(),
        "cpus": os.cpu_count() or 1,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "disk": {"free": room.f_bavail * room.f_frsize, "inodes": room.f_favail},
        "clock_ns": int(time.time() * 1e9),
        "shell": pwd.getpwuid(os.getuid()).pw_shell,
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "locks": _locks_work(home),
        "engines": {name: engine.answer(until) for name, engine in engines.items()},
        "gpus": gpus,
        "ends_at_logout": ends_at_logout(),
    }


def ends_at_logout() -> "str":
    """Why this machine would end our processes when the last connection closes; empty if it would not."""
    user = pwd.getpwuid(os.getuid()).pw_name
    if os.path.exists("/var/lib/systemd/linger/" + user) or not os.path.isdir("/run/systemd/users"):
        return ""
    value, source = "no", ""
    for path in ["/etc/systemd/logind.conf", *_drop_ins("/etc/systemd/logind.conf.d")]:
        for line in _text(path).splitlines():
            name, _, word = line.partition("=")
            if name.strip() == "KillUserProcesses":
                value, source = word.strip().lower(), path
    if value not in ("yes", "true", "1", "on"):
        return ""
    return "%s sets KillUserProcesses=yes; ask for: loginctl enable-linger %s" % (source, user)


def _system() -> "str":
    for line in _text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "%s %s" % (os.uname().sysname, os.uname().release)


class _Engine:
    """A container engine that is asked for its version while other things are looked at.

    Podman makes folders of its own whatever it is asked; they do not stay.
    """

    def __init__(self, home: "bytes", name: "str") -> "None":
        argv, self._folder, environment = [name, "version", "--format", "{{.Server.Version}}"], b"", dict(os.environ)
        if name == "podman":
            argv, self._folder = [name, "--version"], os.path.join(home, b"podman.%d" % os.getpid())
            os.mkdir(self._folder, 0o700)
            environment.update(dict.fromkeys(_FOLDERS, os.fsdecode(self._folder)))
        self._trouble = ""
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
            )  # type: subprocess.Popen[bytes] | None
        except OSError as error:
            self._process, self._trouble = None, str(error)

    def answer(self, until: "float") -> "dict[str, str]":
        """Its version, or why it cannot be used."""
        answer = {"error": self._trouble} if self._process is None else self._version(self._process, until)
        if self._folder:
            remove_tree(self._folder)
        return answer

    def _version(self, process: "subprocess.Popen[bytes]", until: "float") -> "dict[str, str]":
        try:
            output = readable(process.communicate(timeout=max(0.5, until - time.monotonic()))[0]).strip()
        except subprocess.TimeoutExpired:
            process.kill()  # and its output is left unread: children of it may hold the pipe open
            process.wait()
            output = ""
        if process.returncode or not output:
            return {"error": output.splitlines()[-1] if output else "it does not respond"}
        return {"version": output.split()[-1]}


def _gpus(within: "float") -> "list[dict[str, str]]":
    """Each GPU; or why none could be read, where the machine seems to have one."""
    from ..container import nvidia_files
    from ..gpu import nvml_process

    measured = nvml_process.facts(within)
    if measured["state"] == "measured":
        lasting = {"driver": measured["driver"], "cuda": measured["cuda"]}
        return [dict(_card(card), **lasting) for card in measured["gpus"]] or [{"error": measured["trouble"]}]
    seen = nvidia_files.facts()
    has_signs = seen["driver"] or seen["cards"] or facts.which("nvidia-smi")
    return [{"error": measured["trouble"]}] if measured["state"] == "unmeasured" and has_signs else []


def _card(card: "dict[str, object]") -> "dict[str, str]":
    total, major = card["memory_total"], card["major"]
    memory = "%.0f GB" % (int(str(total)) / 1e9) if total else "unknown memory"
    capability = "" if major is None else "%s.%s" % (major, card["minor"])
    named = {name: str(card[name] or "") for name in ("name", "uuid")}
    return dict(
        named, memory=memory, capability=capability, **{"error": str(card["trouble"])} if card["trouble"] else {}
    )


def _locks_work(home: "bytes") -> "str":
    try:
        return store_health.locks_work(home)
    except OSError as error:
        return str(error)


def _drop_ins(folder: "str") -> "list[str]":
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".conf"))
    except OSError:
        return []


def _text(path: "str") -> "str":
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""
