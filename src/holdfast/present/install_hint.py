"""The command that adds an optional dependency to this installation of Holdfast: by pip, uv or pipx."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from shlex import quote


def install_hint(extra: str) -> str:
    """``extra`` is one of the extras of the package."""
    wanted = f"'holdfast[{extra}]'"
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):
        return f"uv tool install --force {wanted}"
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx install --force {wanted}"
    if find_spec("pip") is None:  # an environment that uv made
        return f"uv pip install {wanted} --python {quote(sys.executable)}"
    return f"{quote(sys.executable)} -m pip install {wanted}"
