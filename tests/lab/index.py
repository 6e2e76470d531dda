"""A package index as pip and uv know them, with small real wheels and one source distribution."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.shelf import HERE, kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

REQUIRES_PYTHON = ">=3.8"
LONG = "Once upon a time there was a package – kept short by nobody.\n" * 5000


class Index(NamedTuple):
    """An index on disk; served by ``lab.server.serve(index.path)``, its URL is ``index.simple(server.url)``."""

    path: Path

    def simple(self, server_url: str) -> str:
        return f"{server_url}/simple/"


class Wheel(NamedTuple):
    name: str
    version: str
    source: str
    requires: tuple[str, ...] = ()
    tag: str = "py3-none-any"
    description: str = ""
    requires_python: str = REQUIRES_PYTHON

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def filename(self) -> str:
        return f"{self.stem}-{self.tag}.whl"


class Listed(NamedTuple):
    """A file as its index tells of it; ``metadata`` is offered beside a wheel, as the big indexes do."""

    name: str
    version: str
    filename: str
    sha256: str
    size: int
    metadata_sha256: str = ""
    requires_python: str = REQUIRES_PYTHON

    @property
    def project(self) -> str:
        return self.name.replace("_", "-")


def build_index(folder: Path) -> Index:
    """The index, made in ``folder`` or found there from an earlier call."""
    return Index(kept(folder, "index", "", _write_index))


def build_index_of(folder: Path, name: str, wheels: Sequence[Wheel]) -> Index:
    """An index that has these wheels and nothing else."""
    return Index(kept(folder, name, repr(wheels), lambda place: write_index(place, wheels)))


def write_index(place: Path, wheels: Sequence[Wheel]) -> None:
    """The same, now, in a folder of the caller's."""
    files = place / "files"
    files.mkdir(parents=True)
    _write_pages(place / "simple", [_listed_wheel(wheel, files) for wheel in wheels])


def _write_index(place: Path) -> None:
    files = place / "files"
    files.mkdir()
    listed = [_listed_wheel(wheel, files) for wheel in _wheels()]
    listed.append(_listed_sdist(files))
    (files / "tinybad-1.0-py3-none-any.whl").write_bytes(_wheel_bytes(Wheel("tinybad", "1.0", "WHOLE = 'tampered'\n")))
    _write_pages(place / "simple", listed)


def _wheels() -> list[Wheel]:
    return [
        Wheel("tinypip", "1.0", "WHOLE = 1.0\n"),
        Wheel("tinypip", "1.1", "WHOLE = 1.1\n"),
        Wheel("tinydep", "0.5", "from tinypip import WHOLE\n", requires=("tinypip>=1.0,<2",)),
        Wheel("tinywin", "1.0", "", tag="py3-none-win_amd64"),
        Wheel("tinybad", "1.0", "WHOLE = 1.0\n"),
        Wheel("tinytale", "1.0", "", description=LONG),
    ]


def _listed_wheel(wheel: Wheel, files: Path) -> Listed:
    content, metadata = _wheel_bytes(wheel), _metadata(wheel)
    (files / wheel.filename).write_bytes(content)
    (files / f"{wheel.filename}.metadata").write_bytes(metadata)
    about = (_sha256(content), len(content), _sha256(metadata), wheel.requires_python)
    return Listed(wheel.name, wheel.version, wheel.filename, *about)


def _wheel_bytes(wheel: Wheel) -> bytes:
    info = f"{wheel.stem}.dist-info"
    pure = "true" if wheel.tag.endswith("any") else "false"
    files = {
        f"{wheel.name}.py": wheel.source.encode(),
        f"{info}/METADATA": _metadata(wheel),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {pure}\nTag: {wheel.tag}\n".encode(),
    }
    record = [f"{path},sha256={_record_hash(data)},{len(data)}\n" for path, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data)
    return buffer.getvalue()


def _metadata(wheel: Wheel) -> bytes:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {wheel.name}",
        f"Version: {wheel.version}",
        f"Requires-Python: {wheel.requires_python}",
        *(f"Requires-Dist: {requirement}" for requirement in wheel.requires),
    ]
    return ("\n".join(lines) + f"\n\n{wheel.description}").encode()


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _listed_sdist(files: Path) -> Listed:
    archive = files / "tinyfast-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted((HERE / "tinyfast").iterdir()):
            if path.is_file():
                tar.add(path, f"tinyfast-1.0/{path.name}")
    content = archive.read_bytes()
    return Listed("tinyfast", "1.0", archive.name, _sha256(content), len(content))


def _write_pages(simple: Path, listed: Iterable[Listed]) -> None:
    projects: dict[str, list[Listed]] = {}
    for file in listed:
        projects.setdefault(file.project, []).append(file)
    links = "".join(f'<a href="{name}/">{name}</a><br>\n' for name in projects)
    meta = {"api-version": "1.1"}
    _write_page(simple, links, {"meta": meta, "projects": [{"name": name} for name in projects]})
    for name, files in projects.items():
        versions = [file.version for file in files]
        page = {"meta": meta, "name": name, "versions": versions, "files": [_json_file(file) for file in files]}
        _write_page(simple / name, "".join(map(_html_file, files)), page)


def _write_page(folder: Path, links: str, page: dict[str, Any]) -> None:
    folder.mkdir()
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>\n{links}</body></html>\n")
    (folder / "index.json").write_text(json.dumps(page))


def _json_file(file: Listed) -> dict[str, Any]:
    return {
        "filename": file.filename,
        "url": f"../../files/{file.filename}",
        "hashes": {"sha256": file.sha256},
        "requires-python": file.requires_python,
        "size": file.size,
        "core-metadata": {"sha256": file.metadata_sha256} if file.metadata_sha256 else False,
    }


def _html_file(file: Listed) -> str:
    metadata = f' data-core-metadata="sha256={file.metadata_sha256}"' if file.metadata_sha256 else ""
    return (
        f'<a href="../../files/{file.filename}#sha256={file.sha256}"'
        f' data-requires-python="{html.escape(file.requires_python)}"{metadata}>{file.filename}</a><br>\n'
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
