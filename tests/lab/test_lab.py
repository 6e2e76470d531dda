"""The lab's channel and index are real: pip, uv and conda tools install from them, and refuse what is broken."""

from __future__ import annotations

import asyncio
import http.client
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rattler import BuildString, Gateway, GenericVirtualPackage, MatchSpec, PackageName, Subdir, Version, install, solve
from rattler.exceptions import InstallerError, SolverError

from lab.channel import build_channel, build_tampered_channel
from lab.index import build_index
from lab.server import Fault, serve
from lab.shelf import kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rattler import RepoDataRecord

    from lab.channel import Channel
    from lab.index import Index
    from lab.server import Server

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture(scope="module")
def channel(shelf: Path) -> Channel:
    return build_channel(shelf)


@pytest.fixture(scope="module")
def tampered(shelf: Path) -> Channel:
    return build_tampered_channel(shelf)


@pytest.fixture(scope="module")
def index(shelf: Path) -> Index:
    return build_index(shelf)


@pytest.fixture
def served(index: Index) -> Iterator[Server]:
    with serve(index.path) as server:
        yield server


@pytest.fixture
def index_url(index: Index, served: Server) -> str:
    return index.simple(served.url)


@pytest.fixture(params=["file", "http"])
def channel_url(request: pytest.FixtureRequest, channel: Channel) -> Iterator[str]:
    if request.param == "file":
        yield channel.file_url
    else:
        with serve(channel.path) as server:
            yield server.url


def test_an_environment_comes_from_the_channel(channel_url: str, tmp_path: Path) -> None:
    prefix = _installed(channel_url, tmp_path, "tinysay", "tinyroot")
    assert _said(prefix / "bin/tiny-say") == "says 1.1"
    assert _said(prefix / "bin/tinyroot") == str(prefix)
    shown = "import ssl, sqlite3, venv, sys, sysconfig; print(sys.prefix, sysconfig.get_config_var('prefix'))"
    assert _said(prefix / "bin/python", "-c", shown) == f"{prefix} {prefix}"


def test_the_installed_python_brings_its_own_library(channel: Channel, tmp_path: Path) -> None:
    prefix = _installed(channel.file_url, tmp_path, "python")
    mapped = _said(prefix / "bin/python", "-c", "import ssl; print(open('/proc/self/maps').read())")
    pythons = {line.split()[-1] for line in mapped.splitlines() if "/bin/python" in line or "libpython" in line}
    modules = {line.split()[-1] for line in mapped.splitlines() if "lib-dynload" in line}
    assert pythons
    assert modules
    assert [path for path in pythons | modules if not path.startswith(f"{prefix}/")] == []


def test_both_archive_formats_hold_packages_that_are_chosen(channel: Channel, tmp_path: Path) -> None:
    names = {record.file_name for record in _solved(channel.file_url, tmp_path, "tinysay", "tinyroot")}
    assert {Path(name).suffix for name in names} == {".conda", ".bz2"}
    assert {"tinylearn-0.3-py_0.tar.bz2", "tinynum-1.1-py_0.conda"} <= names


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("scikit-tiny", "python <3.7"),
        ("python=3.5.2", "No candidates were found for python 3.5.2.*"),
        ("tinycuda", "__cuda >=12"),
        ("tinyglibc", "__glibc >=2.99"),
    ],
)
def test_what_cannot_be_solved_says_why(channel: Channel, tmp_path: Path, wanted: str, reason: str) -> None:
    with pytest.raises(SolverError) as refused:
        _solved(channel.file_url, tmp_path, wanted)
    assert reason in str(refused.value)


def test_a_virtual_package_opens_the_way(channel: Channel, tmp_path: Path) -> None:
    cuda = GenericVirtualPackage(PackageName("__cuda"), Version("12.4"), BuildString("0"))
    records = _solved(channel.file_url, tmp_path, "tinycuda", virtual_packages=[cuda])
    assert {record.name.normalized for record in records} == {"tinycuda", "cudatoolkit"}


def test_a_known_channel_is_not_fetched_again(channel: Channel, tmp_path: Path) -> None:
    with serve(channel.path) as server:
        first = _solved(server.url, tmp_path, "tinysay")
        fetched = server.bytes_sent
        assert fetched > 0
        assert _solved(server.url, tmp_path, "tinysay") == first
        assert server.bytes_sent == fetched


def test_a_tampered_archive_is_refused_over_http(tampered: Channel, tmp_path: Path) -> None:
    with serve(tampered.path) as server, pytest.raises(InstallerError, match="hash mismatch"):
        _installed(server.url, tmp_path, "tinylearn")


def test_a_tampered_archive_is_installed_from_a_folder(tampered: Channel, tmp_path: Path) -> None:
    """py-rattler checks no hashes of file:// channels; when this fails, it does, and we need not any more."""
    prefix = _installed(tampered.file_url, tmp_path, "tinylearn")
    assert _said(prefix / "bin/python", "-c", "import tinylearn; print(tinylearn.fit())") == "tampered"


def test_uv_installs_from_the_index_alone(index_url: str, served: Server, tmp_path: Path) -> None:
    python = _venv(tmp_path)
    assert _uv(python, index_url, "tinydep", "tinytale").returncode == 0
    assert _said(python, "-c", "import tinydep; print(tinydep.WHOLE)") == "1.1"
    assert "/files/tinypip-1.1-py3-none-any.whl" in served.paths


def test_pip_installs_from_the_same_index(index_url: str, tmp_path: Path) -> None:
    words = ["-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--quiet", "--no-cache-dir"]
    place = ["--target", str(tmp_path / "here"), "--index-url", index_url]
    subprocess.run([sys.executable, *words, *place, "tinydep"], check=True)
    assert (tmp_path / "here" / "tinypip.py").read_text() == "WHOLE = 1.1\n"
    refused = subprocess.run([sys.executable, *words, *place, "tinybad"], check=False, capture_output=True, text=True)
    assert "DO NOT MATCH THE HASHES" in refused.stderr


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("tinybad", "Hash mismatch for `tinybad==1.0`"),
        ("tinywin", "no wheels with a matching platform tag"),
        ("tinyfast", "error: command '/nowhere/cc' failed: No such file or directory"),
    ],
)
def test_uv_refuses(index_url: str, tmp_path: Path, wanted: str, reason: str) -> None:
    refused = _uv(_venv(tmp_path), index_url, wanted, env={"CC": "/nowhere/cc"})
    assert refused.returncode == 1
    assert reason in refused.stderr


def test_the_source_distribution_needs_only_a_compiler(index_url: str, tmp_path: Path) -> None:
    python = _venv(tmp_path)
    built = _uv(python, index_url, "tinyfast")
    assert built.returncode == 0, built.stderr
    assert _said(python, "-c", "import tinyfast; print(tinyfast.twice(21))") == "42"


@pytest.mark.parametrize("accepted", ["text/html", "application/vnd.pypi.simple.v1+json"])
def test_index_pages_come_as_asked_for(served: Server, accepted: str) -> None:
    asked = urllib.request.Request(f"{served.url}/simple/tinypip/", headers={"Accept": accepted})
    with urllib.request.urlopen(asked) as answer:
        assert answer.headers.get_content_type() == accepted
        assert b"tinypip-1.1-py3-none-any.whl" in answer.read()


def test_the_server_counts(served: Server) -> None:
    tale = _get(f"{served.url}/files/tinytale-1.0-py3-none-any.whl?a=1")
    assert served.paths == ["/files/tinytale-1.0-py3-none-any.whl"]
    assert served.bytes_sent == len(tale) > 300_000


def test_the_server_fails_when_told(served: Server) -> None:
    path = "/files/tinypip-1.0-py3-none-any.whl"
    whole = _get(served.url + path)
    for status in (404, 500):
        served.faults[path] = Fault(status=status)
        with pytest.raises(urllib.error.HTTPError) as refused:
            _get(served.url + path)
        refused.value.close()
        assert refused.value.code == status
    served.faults[path] = Fault(cut=True)
    with pytest.raises(http.client.IncompleteRead) as cut:
        _get(served.url + path)
    assert cut.value.partial == whole[: len(whole) // 2]
    served.faults[path] = Fault(delay=0.2)
    before = time.monotonic()
    assert _get(served.url + path) == whole
    assert time.monotonic() - before >= 0.2


def test_what_was_made_once_is_kept(tmp_path: Path) -> None:
    made: list[Path] = []
    second_maker = threading.Barrier(2)

    def make(place: Path) -> None:
        made.append(place)
        with suppress(threading.BrokenBarrierError):
            second_maker.wait(0.3)
        (place / "thing").write_text("whole")

    with ThreadPoolExecutor(8) as askers:
        found = set(askers.map(lambda _: kept(tmp_path, "things", "same", make), range(8)))
    assert len(made) == 1
    assert [path.joinpath("thing").read_text() for path in found] == ["whole"]
    assert kept(tmp_path, "things", "other", make) not in found


def test_what_was_half_made_is_made_again(tmp_path: Path) -> None:
    def fail(place: Path) -> None:
        (place / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        kept(tmp_path, "things", "", fail)
    made = kept(tmp_path, "things", "", lambda place: (place / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]


def _installed(url: str, place: Path, *specs: str) -> Path:
    prefix = place / "env"
    records = _solved(url, place, *specs)
    asyncio.run(install(records, prefix, cache_dir=place / "packages", show_progress=False))
    return prefix


def _solved(
    url: str, place: Path, *specs: str, virtual_packages: list[GenericVirtualPackage] | None = None
) -> list[RepoDataRecord]:
    wanted = [MatchSpec(spec, strict=False) for spec in specs]
    gateway = Gateway(cache_dir=place / "repodata")
    platforms = [Subdir("linux-64"), Subdir("noarch")]
    return asyncio.run(solve([url], wanted, gateway, platforms, virtual_packages=virtual_packages))


def _said(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _venv(place: Path) -> Path:
    subprocess.run([UV, "venv", "--quiet", "--no-config", "--python", sys.executable, place / "venv"], check=True)
    return place / "venv" / "bin" / "python"


def _uv(
    python: Path, index_url: str, *wanted: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    cache = str(python.parents[2] / "uv")
    place = ["--python", str(python), "--cache-dir", cache, "--index-url", index_url]
    command = [str(UV), "pip", "install", "--no-config", *place, *wanted]
    return subprocess.run(command, env={**os.environ, **(env or {})}, check=False, capture_output=True, text=True)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        body: bytes = answer.read()
        return body
