"""Conda packages written by hand, in both archive formats."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Members = dict[str, "File"]

BLOCK = 128 * 1024


class File(NamedTuple):
    """A file of a package, or a symbolic link; ``placeholder`` is the text that installing replaces by the prefix."""

    data: bytes = b""
    mode: int = 0o644
    link_to: str = ""
    placeholder: str = ""


class Package(NamedTuple):
    name: str
    version: str
    files: Mapping[str, File]
    depends: tuple[str, ...] = ()
    subdir: str = "noarch"
    suffix: str = ".conda"
    entry_points: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}-{self.build}"

    @property
    def build(self) -> str:
        return "py_0" if self.noarch_python else "h0_0"

    @property
    def noarch_python(self) -> bool:
        return self.subdir == "noarch"


def write_package(package: Package, channel: Path) -> Path:
    """Put the archive where it belongs in the channel, over an older one; the index is not updated."""
    archive = channel / package.subdir / f"{package.stem}{package.suffix}"
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    info = _info(package)
    if package.suffix == ".conda":
        _write_conda(archive, package.stem, info, package.files)
    else:
        archive.write_bytes(bz2.compress(_tar({**info, **package.files})))
    return archive


def _info(package: Package) -> Members:
    index: dict[str, Any] = {
        "name": package.name,
        "version": package.version,
        "build": package.build,
        "build_number": 0,
        "depends": list(package.depends),
        "license": "Apache-2.0",
        "subdir": package.subdir,
        "timestamp": 1_700_000_000_000,
    }
    if package.noarch_python:
        index["noarch"] = "python"
    else:
        index.update(arch="x86_64", platform="linux")
    paths = {"paths": [_path(name, file) for name, file in package.files.items()], "paths_version": 1}
    texts = {"index": index, "paths": paths, "about": {"summary": f"{package.name}, for tests"}}
    if package.noarch_python:
        noarch = {"type": "python", "entry_points": list(package.entry_points)}
        texts["link"] = {"noarch": noarch, "package_metadata_version": 1}
    info = {f"info/{name}.json": File(json.dumps(text).encode()) for name, text in texts.items()}
    return {**info, "info/files": File("".join(f"{name}\n" for name in package.files).encode())}


def _path(name: str, file: File) -> dict[str, Any]:
    if file.link_to:
        return {"_path": name, "path_type": "softlink"}
    digest = hashlib.sha256(file.data).hexdigest()
    path = {"_path": name, "path_type": "hardlink", "sha256": digest, "size_in_bytes": len(file.data)}
    if file.placeholder:
        path.update(prefix_placeholder=file.placeholder, file_mode="text")
    return path


def _write_conda(archive: Path, stem: str, info: Mapping[str, File], files: Mapping[str, File]) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as outer:
        outer.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        outer.writestr(f"pkg-{stem}.tar.zst", _stored_zstd(_tar(files)))
        outer.writestr(f"info-{stem}.tar.zst", _stored_zstd(_tar(info)))


def _tar(files: Mapping[str, File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, file in files.items():
            member = tarfile.TarInfo(name)
            member.mode = file.mode
            if file.link_to:
                member.type, member.linkname = tarfile.SYMTYPE, file.link_to
            else:
                member.size = len(file.data)
            tar.addfile(member, io.BytesIO(file.data))
    return buffer.getvalue()


def _stored_zstd(data: bytes) -> bytes:
    """A zstd frame of raw blocks: Python has no compressor for it before 3.14, and a frame need not be compressed."""
    window_of_one_block = b"\x38"
    return b"".join([b"\x28\xb5\x2f\xfd\x00", window_of_one_block, *_raw_blocks(data)])


def _raw_blocks(data: bytes) -> Iterable[bytes]:
    for start in range(0, max(len(data), 1), BLOCK):
        block = data[start : start + BLOCK]
        is_last = start + BLOCK >= len(data)
        yield (len(block) << 3 | is_last).to_bytes(3, "little")
        yield block
