"""A conda channel with everything that environments are tested with, made without conda."""

from __future__ import annotations

import asyncio
import os
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from rattler.index import index_fs

from lab.conda_package import File, Package, write_package
from lab.machine_python import IDENTITY, OLDEST, machine_python, oldest_python
from lab.shelf import kept

PLACEHOLDER = "/opt/placeholder_" + "placehold_" * 20


class Channel(NamedTuple):
    """A channel on disk; ``lab.server.serve(channel.path)`` gives it a URL."""

    path: Path

    @property
    def file_url(self) -> str:
        return self.path.as_uri()


def build_channel(folder: Path) -> Channel:
    """The channel, made in ``folder`` or found there from an earlier call."""
    return Channel(_channels(folder) / "channel")


def build_tampered_channel(folder: Path) -> Channel:
    """The same channel, where tinynum 1.1 became a whole and working archive that its index does not know."""
    return Channel(_channels(folder) / "tampered")


def build_old_channel(folder: Path) -> Channel:
    """A channel that has a Python 3.6 and nothing else; for machines that have one."""
    return Channel(kept(folder, "old-channel", f"{OLDEST} py-rattler {version('py-rattler')}", _write_old_channel))


def _channels(folder: Path) -> Path:
    return kept(folder, "channels", f"{IDENTITY} py-rattler {version('py-rattler')}", _write_channels)


def _write_channels(place: Path) -> None:
    channel, tampered = place / "channel", place / "tampered"
    for package in (machine_python(), *_noarch_packages(), *_linux_packages()):
        write_package(package, channel)
    asyncio.run(index_fs(channel))
    shutil.copytree(channel, tampered, copy_function=os.link)
    write_package(_pure("tinynum", "1.1", "WHOLE = 'tampered'\n"), tampered)


def _write_old_channel(place: Path) -> None:
    write_package(oldest_python(), place)
    asyncio.run(index_fs(place))


def _noarch_packages() -> list[Package]:
    say = "import tinylearn\n\n\ndef main():\n    print('says', tinylearn.fit())\n"
    return [
        _pure("tinynum", "1.0", "WHOLE = 1.0\n", suffix=".tar.bz2"),
        _pure("tinynum", "1.1", "WHOLE = 1.1\n"),
        _pure("tinynum", "2.0", "WHOLE = 2.0\n"),
        _pure(
            "tinylearn",
            "0.3",
            "import tinynum\n\n\ndef fit():\n    return tinynum.WHOLE\n",
            depends=("python >=3.8", "tinynum >=1.1,<2"),
            suffix=".tar.bz2",
        ),
        _pure("tinysay", "1.0", say, depends=("python", "tinylearn"), entry_points=("tiny-say = tinysay:main",)),
        _pure("scikit-tiny", "0.19", "", depends=("python <3.7",)),
    ]


def _pure(
    name: str,
    version: str,
    source: str,
    depends: tuple[str, ...] = ("python",),
    suffix: str = ".conda",
    entry_points: tuple[str, ...] = (),
) -> Package:
    """A noarch package of one module, with what lets pip and uv know that it is installed."""
    module = f"{name.replace('-', '_')}.py"
    metadata = f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        module: source,
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{metadata}/INSTALLER": "conda\n",
        f"{metadata}/RECORD": "".join(f"{path},,\n" for path in (module, f"{metadata}/METADATA", f"{metadata}/RECORD")),
    }
    placed = {f"site-packages/{path}": File(text.encode()) for path, text in files.items()}
    return Package(name, version, placed, depends, suffix=suffix, entry_points=entry_points)


def _linux_packages() -> list[Package]:
    library = {
        "lib/libcudart.so.12": File(b"not a library\n", 0o755),
        "lib/libcudart.so": File(link_to="libcudart.so.12"),
    }
    script = f"#!/bin/sh\necho {PLACEHOLDER}\n".encode()
    return [
        Package(
            "tinyroot",
            "1.0",
            {"bin/tinyroot": File(script, 0o755, placeholder=PLACEHOLDER)},
            subdir="linux-64",
            suffix=".tar.bz2",
        ),
        Package("cudatoolkit", "12.4", library, ("__cuda >=12",), subdir="linux-64"),
        Package("tinycuda", "1.0", {}, ("cudatoolkit >=12", "__cuda >=12"), subdir="linux-64"),
        Package("tinyglibc", "1.0", {}, ("__glibc >=2.99",), subdir="linux-64", suffix=".tar.bz2"),
    ]
