"""Where the environment's Python runs: on this machine, or in a container with the same folders at the same paths."""

from __future__ import annotations

import os
import shutil
import ssl
from typing import TYPE_CHECKING, Any

from .interpreter import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterable

# What makes uv, pip or a compiler behave as its user wants it to; everything else belongs to this machine.
PASSED_ON = ("UV_", "PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


class Place:
    """``inside`` in a request: the words that run a command in the container."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._inside: list[str] = request.get("inside") or []
        self._own = ["--env=HOME=/tmp", "--env=PYTHONDONTWRITEBYTECODE=1", "--env=GIT_TERMINAL_PROMPT=0"]
        trusted = ssl.get_default_verify_paths().cafile
        if self._inside and trusted:
            copy = os.path.join(os.path.abspath(request["cache"]), "certificates.pem")
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(trusted, f"{copy}.{os.getpid()}")
            os.replace(f"{copy}.{os.getpid()}", copy)
            self._own.append(f"--env=SSL_CERT_FILE={copy}")  # an image may have no CA certificates

    @property
    def is_here(self) -> bool:
        return not self._inside

    def words(self, argv: list[str], folder: str = "/", also: Iterable[str] = ()) -> list[str]:
        """The command as it is started here; ``also`` names variables to pass on.

        Values stay in the environment: a command line is seen by others.
        """
        if not self._inside:
            return argv
        *engine, name = self._inside
        names = dict.fromkeys([*(name for name in clean_environment() if name.startswith(PASSED_ON)), *also])
        passed = [f"--env={name}" for name in names]
        return [*engine, *passed, *self._own, "--workdir", folder, name, *argv]
