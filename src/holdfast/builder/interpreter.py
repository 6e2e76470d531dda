"""Facts about the Python that an environment is built for."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from .failure import Failed

if TYPE_CHECKING:
    from .place import Place

# Without json and platform, which take longer to be read than Python takes to start.
QUESTION = """
import importlib.util, os, sys
magic = "".join("%02x" % byte for byte in bytearray(importlib.util.MAGIC_NUMBER[:2]))
answer = [sys.version.split()[0], sys.implementation.name, "%s-%s" % (sys.implementation.cache_tag, magic)]
os.write(1, os.fsencode("\\0".join(answer + [sys.base_prefix])))
"""


class Interpreter(NamedTuple):
    version: str
    implementation: str
    bytecode: str
    """Names the format of its bytecode: cache tag and magic number."""
    base_prefix: str

    @property
    def identity(self) -> str:
        return f"{self.implementation}-{self.version} {self.base_prefix}"

    @property
    def cache_tag(self) -> str:
        return self.bytecode.rpartition("-")[0]

    @property
    def minor(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


def ask(python: str, location: Place | None = None) -> Interpreter:
    """``location``: where that Python can run."""
    try:
        argv = [python, "-I", "-S", "-B", "-c", QUESTION]
        argv = location.words(argv) if location is not None else argv
        answer = subprocess.run(argv, capture_output=True, env=clean_environment(), check=True)
        return Interpreter(*os.fsdecode(answer.stdout).split("\0"))
    except (OSError, subprocess.CalledProcessError, TypeError) as error:
        message = os.fsdecode(getattr(error, "stderr", b"")) or str(error)
        hint = "is pythonLocation a Python 3.6 or newer?"
        raise Failed("platform", f"this Python does not run: {message.strip()}", where=python, hint=hint) from None


def clean_environment() -> dict[str, str]:
    """Ours, without what makes a Python or uv look somewhere else."""
    names = (name for name in os.environ if not name.startswith("PYTHON") and name not in ("VIRTUAL_ENV", "UV_PYTHON"))
    # A Python that writes bytecode as it starts would leave some that is bound to the building place.
    # There is no terminal for a repository's password prompt.
    ours = {"PYTHONDONTWRITEBYTECODE": "1", "GIT_TERMINAL_PROMPT": "0"}
    return {**{name: os.environ[name] for name in names}, **ours}


def without_logins() -> dict[str, str]:
    """An environment in which git fetches only what every user may have: no ssh, no credentials of this user."""
    refused = {"GIT_ALLOW_PROTOCOL": "file:http:https", "GIT_SSH_COMMAND": "false", "GIT_ASKPASS": "false"}
    no_helper = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "credential.helper", "GIT_CONFIG_VALUE_0": ""}
    return {**clean_environment(), **refused, **no_helper, "SSH_ASKPASS": "false"}
