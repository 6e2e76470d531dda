"""What the builder must know of the Python that an environment is for."""

from __future__ import annotations

import json
import os
import subprocess
from typing import NamedTuple

from .failure import Failed

QUESTION = """
import importlib.util, json, platform, sys
magic = "".join("%02x" % byte for byte in bytearray(importlib.util.MAGIC_NUMBER[:2]))
print(json.dumps([platform.python_version(), platform.python_implementation().lower(),
                  "%s-%s" % (sys.implementation.cache_tag, magic), sys.base_prefix]))
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


def ask(python: str) -> Interpreter:
    try:
        asked = [python, "-I", "-S", "-B", "-c", QUESTION]
        answer = subprocess.run(asked, capture_output=True, env=clean_environment(), check=True, text=True)
        return Interpreter(*json.loads(answer.stdout))
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        words = getattr(error, "stderr", "") or str(error)
        hint = "is pythonLocation a Python 3.6 or newer?"
        raise Failed("platform", f"this Python does not run: {words.strip()}", where=python, hint=hint) from None


def clean_environment() -> dict[str, str]:
    """Ours, without what makes a Python or uv look somewhere else."""
    names = (name for name in os.environ if not name.startswith("PYTHON") and name not in ("VIRTUAL_ENV", "UV_PYTHON"))
    # A Python that writes bytecode as it starts would leave some that is bound to the building place.
    # And nobody sits here who could type a password for a repository.
    ours = {"PYTHONDONTWRITEBYTECODE": "1", "GIT_TERMINAL_PROMPT": "0"}
    return {**{name: os.environ[name] for name in names}, **ours}
