"""Bytecode, compiled once per content and Python, and hard-linked into every environment that has the same source."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from .failure import Failed
from .interpreter import clean_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

    from .interpreter import Interpreter
    from .place import Place
    from .report import Report

COMPILER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compile_files.py")


_NO_SPACE = "free some space, or move HOLDFAST_HOME to a larger disk"
_FULL = {
    errno.EFBIG: "the limit for the size of a file was reached: ulimit -f unlimited",
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
}


class Bytecode:
    """``fill`` an environment before it is sealed, ``keep`` what was compiled when it is safely on the disk.

    The cache holds one file per source; an empty one says that the source cannot be compiled.
    """

    def __init__(self, cache: str, interpreter: Interpreter, beside: str, prefix: str, location: Place) -> None:
        self._cache = os.path.join(os.path.abspath(cache), "pyc", interpreter.bytecode)
        self._interpreter = interpreter
        self._beside = beside
        self._prefix = prefix
        self._place = location
        self._compiled: dict[str, str] = {}

    def fill(self, sources: Mapping[str, str], report: Report) -> None:
        """Give every source (path in the environment, sha256) its bytecode."""
        missing: dict[str, list[str]] = {}
        for folder in {os.path.dirname(self._target(path)) for path in sources}:
            os.makedirs(folder, exist_ok=True)
        for path, sha256 in sources.items():
            target, kept = self._target(path), self._kept(path, sha256)
            if not os.path.exists(target) and not _take(kept, target):
                missing.setdefault(kept, []).append(path)
        self._compiled = {kept: self._target(paths[0]) for kept, paths in missing.items()}
        self._compile([paths[0] for paths in missing.values()], report)
        for paths in missing.values():
            for path in paths[1:]:
                _take(self._target(paths[0]), self._target(path))

    def keep(self) -> None:
        for folder in {os.path.dirname(kept) for kept in self._compiled}:
            os.makedirs(folder, exist_ok=True)
        for kept, target in self._compiled.items():
            if os.path.exists(kept):
                continue
            if os.path.exists(target):
                _take(target, kept)
            else:
                with suppress(FileNotFoundError):  # the cache may be emptied at any time
                    open(kept, "wb").close()

    def _target(self, path: str) -> str:
        folder, name = os.path.split(path)
        compiled = f"{name[:-3]}.{self._interpreter.cache_tag}.pyc"
        return os.path.join(self._beside, folder, "__pycache__", compiled)

    def _kept(self, path: str, sha256: str) -> str:
        # Before 3.7 bytecode names its source by the time it was written, so only the very same file has the same.
        before = self._interpreter.minor < (3, 7)
        time = f"-{int(os.stat(os.path.join(self._beside, path)).st_mtime)}" if before else ""
        return os.path.join(self._cache, sha256[:2], f"{sha256[2:]}{time}")

    def _compile(self, paths: list[str], report: Report) -> None:
        """On all cores, the large files first."""
        if not paths:
            return
        paths.sort(key=lambda path: os.path.getsize(os.path.join(self._beside, path)), reverse=True)
        with tempfile.NamedTemporaryFile(dir=self._beside, prefix=".jobs-", buffering=0) as jobs:
            width = self._write_jobs(paths, jobs)
            python, count = os.path.join(self._beside, "bin", "python"), min(os.cpu_count() or 1, len(paths))
            command = [python, "-I", "-S", "-B", "-W", "ignore", COMPILER, jobs.name, str(width), str(count)]
            with subprocess.Popen(
                self._place.words(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=clean_environment()
            ) as compiler:
                assert compiler.stdout
                for number, _ in enumerate(compiler.stdout, 1):
                    report.progress("compile", "", number, len(paths))
        if compiler.returncode in _FULL:
            what = f"compiled modules cannot be written: {os.strerror(compiler.returncode)}"
            raise Failed("disk", what, where=self._beside, hint=_FULL[compiler.returncode])
        if compiler.returncode:
            where = os.path.join(self._prefix, "bin", "python")
            what = f"the environment's Python cannot compile (status {compiler.returncode})"
            raise Failed("internal", what, where=where)

    def _write_jobs(self, paths: list[str], jobs: IO[bytes]) -> int:
        """All processes read from one file at one shared position, so each record is as long as the others."""
        records = [
            os.fsencode(f"{self._beside}/{path}\0{self._target(path)}\0{self._prefix}/{path}\0") for path in paths
        ]
        width = max(map(len, records))
        jobs.write(b"".join(record.ljust(width, b"\0") for record in records))
        return width


def _take(source: str, target: str) -> bool:
    """Link, or copy where that cannot be; False when there is nothing to take."""
    try:
        if os.path.getsize(source):
            os.link(source, target)
    except FileNotFoundError:
        return False
    except OSError:
        # Another disk, or as many links as a file can have: every empty __init__.py is the same file.
        beside = f"{target}.{os.getpid()}"
        shutil.copyfile(source, beside)
        os.replace(beside, target)
    return True
