"""The container engines of this machine: which one to use, what it can do, what an image contains.

An engine is driven by its command line. A query takes tens of milliseconds, so answers are cached: facts about the
engine until the next boot, facts about an image under its id.
"""

import json
import os
import pwd
import subprocess

from ..decoding import readable
from ..machine import facts, processes
from ..store import jsonl, layout

MYPY = False
if MYPY:
    from collections.abc import Callable

ENGINES = ("docker", "podman")
PATIENCE_S = 60
ROOTFS = "rootfs:"
_NOBODY = ("cannot connect to", "failed to connect to the docker api")  # until version 28, and since
# "no such file" is not among them: it may be the socket of a daemon that went away.
_ABSENT = ("no such container", "no such object", "no such image", "no container with", "image not known")
NOT_FOUND = "not-found"  # a container or an image
_NO_SHELL = "no-shell"
_LOOK = """
for name in "$1" python3; do
    path=$(command -v "$name") && "$path" -E -s -S -c 'import sys, platform
sys.stdout.write("python %s\\nversion %s\\n" % (sys.executable, platform.python_version()))' && break
done
echo "libc $(getconf GNU_LIBC_VERSION 2>/dev/null)"
"""


class EngineTrouble(Exception):
    """An engine does not do what is asked; the text says what it said, the hint what to do, the fix what to type."""

    def __init__(
        self, what: "str", answer: "str" = "", hint: "str" = "", fix: "str" = "", code: "str" = "engine-failed"
    ) -> "None":
        super().__init__("\n".join(part for part in (what, answer, hint) if part))
        self.code = code
        self.what = what
        self.answer = answer
        self.hint = hint
        self.fix = fix

    def to_json(self) -> "dict[str, object]":
        return {name: getattr(self, name) for name in ("code", "what", "answer", "hint", "fix")}


def find(home: "bytes", engine_name: "str | None") -> "dict[str, object]":
    """``name`` (docker or podman), ``program``, ``version``, ``rootless`` of the engine to use."""
    note = layout.engines(home)
    complaints, fix = [], ""
    for name in [engine_name] if engine_name else ENGINES:
        program = facts.which(str(name))
        if program is None:
            complaints.append("%s is not installed" % name)
            continue
        state = "%s %s %s" % (processes.boot_id(), program, os.environ.get("DOCKER_HOST", ""))
        known = [line for line in jsonl.read_lines(note) if line.get("state") == state]
        if known:
            return known[-1]
        try:
            engine = dict(_ask_about(program), state=state, program=program)
        except EngineTrouble as error:
            complaints.append("%s: %s" % (name, error))
            fix = fix or error.fix
            continue
        os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
        jsonl.append_line(note, engine)
        return engine
    raise EngineTrouble(
        "no usable container engine", "\n".join(complaints), _how_to_get(engine_name), fix or _install()
    )


def _ask_about(program: "str") -> "dict[str, object]":
    """Both print JSON; an engine that calls itself docker may be podman."""
    info = json.loads(ask(program, "info", "--format", "{{json .}}"))
    if info.get("ServerErrors"):  # before version 23 docker reports success all the same
        raise meaning(program, "\n".join(map(str, info["ServerErrors"])))
    if "ServerVersion" in info:
        rootless = any("rootless" in str(option) for option in info.get("SecurityOptions") or ())
        runtimes = sorted(info.get("Runtimes") or ())
        cdi = info.get("CDISpecDirs") or []
        return {
            "name": "docker",
            "version": info["ServerVersion"],
            "rootless": rootless,
            "runtimes": runtimes,
            "cdi": cdi,
        }
    host = info.get("host") or {}
    rootless = bool((host.get("security") or {}).get("rootless"))
    version = str((info.get("version") or {}).get("Version", ""))
    return {"name": "podman", "version": version, "rootless": rootless, "runtimes": [], "cdi": []}


def ask(program: "str", *arguments: "str", stdin: "bytes" = b"", patience: "float" = PATIENCE_S) -> "str":
    """What the engine prints; EngineTrouble where it refuses or does not answer."""
    argv = [program, *arguments]
    try:
        done = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = done.communicate(stdin, timeout=patience)
    except subprocess.TimeoutExpired:
        done.kill()
        done.communicate()
        raise EngineTrouble("%s did not respond within %d s" % (arguments[0], patience)) from None
    except OSError as error:
        raise EngineTrouble("%s cannot be started: %s" % (program, error)) from error
    if done.returncode:
        raise meaning(program, readable(err).strip())
    return readable(out)


def meaning(program: "str", complaint: "str") -> "EngineTrouble":
    """An engine's complaint with what to do about it, and a code for what callers have to know."""
    name, text = os.path.basename(program), complaint.lower()
    hint = fix = ""
    if "permission denied" in text and "sock" in text:
        fix = "sudo usermod -aG docker %s" % pwd.getpwuid(os.getuid()).pw_name
        hint = "run `sudo usermod -aG docker $USER` (this is equivalent to root access there), or use podman"
    elif any(phrase in text for phrase in _NOBODY):
        fix = "sudo systemctl start docker"
        hint = "start it: sudo systemctl start docker; or use podman, which needs no daemon (engine: podman)"
    elif "/dev/net/tun" in text:
        hint = "a separate network is not available there: write network: host, or network: none"
    elif any(phrase in text for phrase in ("access denied", "is denied", "unauthorized", "authentication required")):
        hint = "log in on that machine: %s login REGISTRY" % name
    elif "no such host" in text or "i/o timeout" in text or "connection refused" in text or "dial tcp" in text:
        hint = "the target cannot reach the registry; holdfast image import copies an image over your connection"
    elif "no space left" in text:
        hint = "its disk is full: holdfast experiment clean, or %s system prune" % name
    elif "manifest unknown" in text or ("not found" in text and "manifest" in text):
        hint = "no image with this name and tag exists"
    last = "\n".join(line for line in complaint.splitlines()[-8:] if line.strip())
    return EngineTrouble("%s refuses" % name, last or "no message", hint, fix, _code(text))


def _code(complaint: "str") -> "str":
    if any(phrase in complaint for phrase in _ABSENT):
        return NOT_FOUND
    if "/bin/sh" in complaint and ("no such file" in complaint or "not found" in complaint):
        return _NO_SHELL
    return "engine-failed"


def image(
    home: "bytes", engine: "dict[str, object]", name: "str", python: "str", tell: "Callable[[dict[str, object]], None]"
) -> "dict[str, object]":
    """What an image is and brings, after fetching it if it is not here: ``id``, ``digest``, ``python``, ``glibc``."""
    details = inspect(str(engine["program"]), name)
    if details is None:
        pull(str(engine["program"]), name, tell)
        details = inspect(str(engine["program"]), name)
        if details is None:
            raise EngineTrouble("%s was pulled but is missing" % name)
        remember(home, engine, str(details["id"]), "fetched")
    note = images_note(home)
    for line in jsonl.read_lines(note):
        if line.get("id") == details["id"] and line.get("asked") == python:
            return dict(line, digest=details["digest"])
    tell({"phase": "image", "name": "inspecting %s" % name})
    details.update(_look_into(str(engine["program"]), str(details["id"]), python), asked=python)
    os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
    jsonl.append_line(note, details)
    return details


def remember(home: "bytes", engine: "dict[str, object]", image_id: "str", brought: "str") -> "None":
    """Note how Holdfast got an image: fetched or built; empty when it was removed."""
    note = images_note(home)
    os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
    jsonl.append_line(note, {"id": image_id, "engine": engine["name"], "brought": brought})


def images_note(home: "bytes") -> "bytes":
    return layout.images(home)


def inspect(program: "str", name: "str") -> "dict[str, object] | None":
    """An image: its id and digest; None where it is not here."""
    if name.startswith(ROOTFS):
        path = name[len(ROOTFS) :]
        if not os.path.isdir(os.path.join(path, "usr")):
            raise EngineTrouble("%s is not a root file system" % path, "", "it needs at least usr/ and etc/")
        about = os.stat(path)
        return {"id": name, "digest": "%d-%d" % (about.st_ino, about.st_mtime_ns)}
    try:
        output = ask(program, "image", "inspect", "--format", "{{.Id}} {{json .RepoDigests}}", name)
    except EngineTrouble as error:
        if error.code == NOT_FOUND:
            return None
        raise
    name, _, digests = output.strip().partition(" ")
    known = json.loads(digests or "null") or [""]
    return {"id": name, "digest": known[0]}


def pull(program: "str", name: "str", tell: "Callable[[dict[str, object]], None]") -> "None":
    """Fetch an image; the layers that are done are counted as the engine tells of them."""
    tell({"phase": "image", "name": "pulling %s" % name})
    argv = [program, "pull", name]
    try:
        puller = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise EngineTrouble("%s cannot be started: %s" % (program, error)) from error
    layers = {}  # type: dict[str, bool]
    last = []  # type: list[str]
    for raw in puller.stdout:  # type: ignore[union-attr]
        line = readable(raw).strip()
        last = [*last[-20:], line]
        layer, _, what = line.partition(": ")
        if what in (
            "Pulling fs layer",
            "Waiting",
            "Downloading",
            "Download complete",
            "Pull complete",
            "Already exists",
        ):
            layers[layer] = what in ("Pull complete", "Already exists")
            tell({"phase": "image", "name": name, "done": sum(layers.values()), "total": len(layers)})
    if puller.wait():
        trouble = meaning(program, "\n".join(last))
        raise EngineTrouble("the image %s could not be pulled" % name, trouble.answer, trouble.hint)


def _look_into(program: "str", image_id: "str", python: "str") -> "dict[str, object]":
    """Its Python and C library, asked in a container without a network; nothing where it has no shell to ask."""
    arguments = ["run", "--rm", "--network", "none", "--entrypoint", "/bin/sh"]
    arguments += ["--rootfs", image_id[len(ROOTFS) :] + ":O"] if image_id.startswith(ROOTFS) else [image_id]
    details = {"python": None, "version": None, "glibc": None}  # type: dict[str, object]
    try:
        output = ask(program, *arguments, "-c", _LOOK, "sh", python)
    except EngineTrouble as error:
        if error.code == _NO_SHELL:
            return details
        raise EngineTrouble("no container can be started from %s" % image_id, error.answer, error.hint) from error
    for line in output.splitlines():
        name, _, value = line.partition(" ")
        if name in ("python", "version") and value:
            details[name] = value
        if name == "libc" and value.startswith("glibc "):
            details["glibc"] = value.split()[1]
    return details


def _how_to_get(engine_name: "str | None") -> "str":
    command = _install()
    return (
        "%s; or use the other engine: engine: %s" % (command, "podman" if engine_name == "docker" else "docker")
        if engine_name
        else command
    )


def _install() -> "str":
    system = "debian"
    try:
        with open("/etc/os-release") as source:
            text = source.read().lower()
        system = "fedora" if "fedora" in text or "rhel" in text else "debian"
    except OSError:
        pass
    return "sudo dnf install podman" if system == "fedora" else "sudo apt-get install podman uidmap"
