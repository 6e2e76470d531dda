"""Small packages as source: a folder that needs nothing but itself to be built, packed or under version control."""

from __future__ import annotations

import subprocess
import tarfile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

BACKEND = """
import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    stem = "{name}-{version}"
    files = {{
        "{name}.py": open("{name}.py").read(),
        stem + ".dist-info/METADATA": "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n",
        stem + ".dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }}
    files[stem + ".dist-info/RECORD"] = "".join("%s,,\\n" % path for path in files)
    with zipfile.ZipFile(os.path.join(folder, stem + "-py3-none-any.whl"), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return stem + "-py3-none-any.whl"
"""


class Repository(NamedTuple):
    """A git repository with one package on its branch ``main``."""

    path: Path
    name: str

    def commit(self, source: str) -> str:
        """Change the package's module; the commit's hash. Afterwards it can also be served as plain files."""
        (self.path / f"{self.name}.py").write_text(source)
        _git(self.path, "add", "--all")
        _git(self.path, "commit", "--quiet", "--message", "change")
        _git(self.path, "update-server-info")
        return _git(self.path, "rev-parse", "HEAD")


def write_source(folder: Path, name: str, version: str, source: str) -> Path:
    folder.mkdir(parents=True)
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(f'{build}[project]\nname = "{name}"\nversion = "{version}"\n')
    (folder / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "backend.py").write_text(BACKEND.format(name=name, version=version))
    (folder / f"{name}.py").write_text(source)
    return folder


def write_sdist(folder: Path, name: str, version: str, source: str) -> Path:
    """The source distribution in ``folder``; beside it is what it was made from."""
    tree = write_source(folder / "from" / f"{name}-{version}", name, version, source)
    archive = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tree, tree.name)
    return archive


def write_repository(folder: Path, name: str, source: str) -> Repository:
    write_source(folder, name, "1.0", "")
    _git(folder, "init", "--quiet", "--initial-branch", "main")
    repository = Repository(folder, name)
    repository.commit(source)
    return repository


def _git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


# Says what it is only when it is run: no tool can read its name, version or requirements from its files.
PROGRAM = """
import os, platform, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.path.expanduser("~/{name}-was-built"), "a") as mark:
        mark.write(platform.node() + "\\n")
    stem = "{name}-1.0"
    files = {{
        "{name}.py": "BUILT_ON = %r" % platform.node(),
        stem + ".dist-info/METADATA": "Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n",
        stem + ".dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }}
    files[stem + ".dist-info/RECORD"] = "".join("%s,,\\n" % path for path in files)
    with zipfile.ZipFile(os.path.join(folder, stem + "-py3-none-any.whl"), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return stem + "-py3-none-any.whl"
"""


def write_program(folder: Path, name: str, *, archive: bool = True) -> Path:
    """A source package whose build program leaves a mark where it ran: ``NAME-was-built`` in its home."""
    tree = folder / f"{name}-1.0" if archive else folder
    tree.mkdir(parents=True)
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (tree / "pyproject.toml").write_text(f'{build}[project]\nname = "{name}"\ndynamic = ["version", "dependencies"]\n')
    (tree / "backend.py").write_text(PROGRAM.format(name=name))
    if not archive:
        return tree
    packed = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(tree, tree.name)
    return packed
