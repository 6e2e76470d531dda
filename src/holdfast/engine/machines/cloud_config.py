"""A cloud-init file that makes a fresh Ubuntu machine fit for runs: Python, docker, a user with a key, GPUs."""

from __future__ import annotations

import json
import os
import re

from holdfast.errors import ConfigError, UsageError
from holdfast.runner import untrusted
from holdfast.runner.container import gpu_passthrough
from holdfast.runner.decoding import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")
DEFAULT_USER = "holdfast"
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_KEY = re.compile(r"(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]{40,}={0,3}(?: [^\r\n]*)?")
_PACKAGES = ("python3", "python3-venv", "rsync", "git", "docker.io")
_GPU_PACKAGES = ("curl", "gnupg", "ubuntu-drivers-common")
_READY = "/var/lib/holdfast-gpu-ready"
_UBUNTU = {"toolkit": False, "cdi": None, "os": {"id": "ubuntu", "like": ["debian"]}}


def text(user: str, key: str, *, gpu: bool) -> str:
    """The file. cloud-init joins the lines of ``runcmd`` into one script that runs as root at the first boot."""
    lines = [
        "#cloud-config",
        "# For the first boot of an Ubuntu machine. Made by: holdfast computetarget setup-script",
        "package_update: true",
        "packages:",
        *_items([*_PACKAGES, *(_GPU_PACKAGES if gpu else ())]),
        "groups:",
        "- docker",
        "users:",
        "- default",
        f"- name: {json.dumps(user)}",
        "  shell: /bin/bash",
        "  lock_passwd: true",
        "  groups:",
        "  - docker",
        "  ssh_authorized_keys:",
        f"  - {json.dumps(key)}",
        "ssh_pwauth: false",
        "runcmd:",
        *_items(commands(user, gpu=gpu)),
    ]
    if gpu:
        lines += [
            "# The driver is loaded by the next boot.",
            "power_state:",
            "  mode: reboot",
            f"  condition: test -e {_READY}",
        ]
    return "\n".join(lines) + "\n"


def commands(user: str, *, gpu: bool) -> list[str]:
    """What ``runcmd`` does, in order; the first failure ends it."""
    # With lingering, runs go on when the login that started them ends.
    lines = ["set -e", "export DEBIAN_FRONTEND=noninteractive", f"loginctl enable-linger {user}"]
    if not gpu:
        return lines
    steps = [*gpu_passthrough.driver_lines(_UBUNTU), *gpu_passthrough.toolkit_lines({"name": "docker"}, _UBUNTU)]
    return [*lines, *(step.replace("sudo ", "") for step in steps), f"touch {_READY}"]


def user_name(given: str | None) -> str:
    """The name asked for, else that of the user here, where the machine can have it."""
    if given is not None:
        if not _USER.fullmatch(given) or given == "root":
            hint = "use lower-case letters, digits, _ and -; runs need no root"
            raise UsageError(f"--username {given}: not a name for a user of the new machine", hint=hint)
        return given
    own = os.environ.get("USER") or ""
    return own if _USER.fullmatch(own) and own != "root" else DEFAULT_USER


def public_key(file: str | None) -> str:
    """The one line of a public key file: the file given, else the first of the user's usual keys."""
    folder = os.path.expanduser("~/.ssh")
    candidates = [file] if file else [os.path.join(folder, name) for name in KEYS]
    path = next((path for path in candidates if os.path.exists(path)), "")
    if not path:
        hint = "make one: ssh-keygen -t ed25519; or name its public half: --key FILE"
        raise ConfigError("there is no public key for the login", where=file or folder, hint=hint)
    try:
        line = readable(untrusted.read_file(path, 1 << 16)).strip()
    except (OSError, ValueError) as error:
        raise ConfigError("the public key cannot be read", where=path, answer=str(error)) from error
    if not _KEY.fullmatch(line):
        hint = "name the public half, which ends in .pub; never the private key"
        raise ConfigError("this is not one public key of OpenSSH", where=path, hint=hint)
    return line


def _items(values: Iterable[str]) -> list[str]:
    return [f"- {json.dumps(value)}" for value in values]
