"""Describes a machine to a person who attaches it: system, disk, Python, engines, GPUs."""

import os
import pwd
import subprocess
import sys
import time

from ..decoding import readable
from ..store.remove_tree import remove_tree
from . import facts, store_health

GPUS_S = 20.0


def survey(home: "bytes") -> "dict[str, object]":
    room = os.statvfs(home)
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
        "engines": {name: _engine(home, name) for name in ("docker", "podman") if facts.which(name)},
        "gpus": _gpus(),
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


def _engine(home: "bytes", name: "str") -> "dict[str, str]":
    """Its version, or why it cannot be used. Podman makes folders of its own whatever it is asked; they do not stay."""
    if name == "podman":
        folder = os.path.join(home, b"podman.%d" % os.getpid())
        os.mkdir(folder, 0o700)
        names = ("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        output, code = _ask([name, "--version"], dict(os.environ, **{each: os.fsdecode(folder) for each in names}))
        remove_tree(folder)
        return {"error": output or "it does not respond"} if code else {"version": output.split()[-1]}
    output, code = _ask([name, "version", "--format", "{{.Server.Version}}"])
    return {"error": output.splitlines()[-1] if output else "it does not respond"} if code else {"version": output}


def _gpus() -> "list[dict[str, str]]":
    """Each GPU; or why none could be read, where the machine seems to have one."""
    from ..container import nvidia_files
    from ..gpu import nvml

    measured = nvml.facts(GPUS_S)
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


def _ask(argv: "list[str]", env: "dict[str, str] | None" = None) -> "tuple[str, int]":
    nothing, pipe, same = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    try:
        done = subprocess.run(argv, check=False, stdin=nothing, stdout=pipe, stderr=same, timeout=20, env=env)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error), 1
    return readable(done.stdout).strip(), done.returncode
