"""A library of NVIDIA's that a test makes up: built from C, told what to say by a file beside it, at any time."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

HAS_COMPILER = shutil.which("cc") is not None
STATE = Path(__file__).parent


class FakeLibrary:
    """``folder`` belongs into LD_LIBRARY_PATH."""

    def __init__(self, folder: Path, name: str, source: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / name).write_bytes(_built(source))

    def say(self, lines: Iterable[str]) -> None:
        """Another state of the machine, all at once."""
        beside = self.folder / "state.tmp"
        beside.write_text("\n".join([*lines, ""]))
        os.replace(beside, self.folder / "state")


@functools.cache
def _built(source: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "library.so"
        words = ["cc", "-O1", "-Wall", "-shared", "-fPIC", f"-I{STATE}", "-o", str(made), str(source), "-ldl"]
        subprocess.run(words, check=True)
        return made.read_bytes()
