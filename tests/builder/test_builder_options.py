"""What a requirements file says besides names: read from a real file, honoured by the real tools."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from builder.asking import pip_spec, said
from builder.wheels import write_wheel
from holdfast.environments.read import read
from holdfast.environments.sources import Declared
from lab.index import Wheel, write_index
from lab.server import serve, write_certificate
from lab.source import write_sdist

if TYPE_CHECKING:
    from pathlib import Path

    from builder.asking import Builder
    from lab.index import Index
    from lab.server import Server

HERE: dict[str, Any] = {"python": sys.executable}
NOTHING = "0" * 64


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def spec_of(project: Path, *lines: str) -> dict[str, Any]:
    (project / "requirements.txt").write_text("\n".join([*lines, ""]))
    spec, findings = read(str(project), Declared("requirements.txt", "requirements", ""))
    assert spec is not None, findings
    return spec.to_json()


def pinned(lock: dict[str, Any]) -> list[str]:
    return [line.split(" ")[0] for line in lock["pip"]]


def test_constraints_of_a_file(builder: Builder, project: Path, served: Server) -> None:
    (project / "limits.txt").write_text("tinypip<1.1\ntinytale\n")
    spec = spec_of(project, f"--index-url {served.url}/simple/", "-c limits.txt", "tinydep")
    assert pinned(builder.lock(spec, **HERE)) == ["tinydep==0.5", "tinypip==1.0"]


def test_a_trusted_host_needs_no_certificate(builder: Builder, project: Path, index: Index, tmp_path: Path) -> None:
    with serve(index.path, write_certificate(tmp_path / "own.pem")) as server:
        address = f"--index-url {server.url}/simple/"
        refused = builder.solve(spec_of(project, address, "tinypip"), **HERE)
        assert refused.last["kind"] == "unreachable"
        lock = builder.lock(spec_of(project, address, "--trusted-host 127.0.0.1", "tinypip"), **HERE)
        assert said(builder.environment(lock) / "bin/python", "-c", "import tinypip; print(tinypip.WHOLE)") == "1.1"


@pytest.mark.parametrize(("option", "chosen"), [("", "tinyearly==1.0"), ("--pre", "tinyearly==2.0rc1")])
def test_versions_before_their_time(builder: Builder, project: Path, tmp_path: Path, option: str, chosen: str) -> None:
    wheels = [Wheel("tinyearly", "1.0", ""), Wheel("tinyearly", "2.0rc1", "")]
    write_index(tmp_path / "early", wheels)
    with serve(tmp_path / "early") as server:
        spec = spec_of(project, f"--index-url {server.url}/simple/", option, "tinyearly")
        assert pinned(builder.lock(spec, **HERE)) == [chosen]


def test_an_extra_index_as_pytorch_prints_it(builder: Builder, project: Path, tmp_path: Path) -> None:
    """The same version is on both indexes, and a newer one of another package on each of them."""
    main = [Wheel("torch", "1.11.0", "BUILD = 'cpu'\n"), Wheel("tinynew", "1.0", ""), Wheel("tinyold", "2.0", "")]
    more = [
        Wheel("torch", "1.11.0+cu113", "BUILD = 'cu113'\n"),
        Wheel("tinynew", "2.0", ""),
        Wheel("tinyold", "1.0", ""),
    ]
    write_index(tmp_path / "site" / "main", main)
    write_index(tmp_path / "site" / "whl", more)
    with serve(tmp_path / "site") as server:
        addresses = [f"-i {server.url}/main/simple/ --extra-index-url {server.url}/whl/simple"]
        lock = builder.lock(spec_of(project, *addresses, "torch==1.11.0+cu113", "tinynew", "tinyold"), **HERE)
        assert pinned(lock) == ["tinynew==2.0", "tinyold==2.0", "torch==1.11.0+cu113"]
        python = builder.environment(lock) / "bin/python"
    assert said(python, "-c", "import torch; print(torch.BUILD)") == "cu113"


def test_files_of_the_project(builder: Builder, project: Path) -> None:
    """A folder of wheels and a wheel by its path, found wherever the project's copy is when it is installed."""
    write_wheel(project / "wheels", "linked", "1.0", {"linked.py": "FROM = 'a folder'\n"})
    write_wheel(project / "more", "direct", "1.0", {"direct.py": "FROM = 'a path'\n"})
    spec = spec_of(project, "--no-index", "--find-links wheels", "linked", "more/direct-1.0-py3-none-any.whl")
    lock = builder.lock(spec, project=str(project), **HERE)
    assert str(project) not in str(lock)
    copy = project.rename(project.with_name("copy"))
    missing = builder.install(lock, project=str(project))
    assert missing.last["kind"] == "unreachable"
    assert missing.last["what"] == "./more/direct-1.0-py3-none-any.whl is not on this machine"
    assert "holdfast submit" in missing.last["hint"]
    python = builder.environment(lock, project=str(copy)) / "bin/python"
    assert said(python, "-c", "import direct, linked; print(direct.FROM, linked.FROM)") == "a path a folder"


@pytest.mark.parametrize(
    ("options", "origin"),
    [
        ([], "wheel wheel"),
        (["--no-binary both"], "source wheel"),
        (["--only-binary :all:"], "wheel wheel"),
        (["--only-binary :all:", "--no-binary both"], "source wheel"),
        (["--no-binary :all:", "--only-binary other"], "source wheel"),
    ],
)
def test_wheels_or_sources(builder: Builder, project: Path, options: list[str], origin: str) -> None:
    for name in ("both", "other"):
        write_wheel(project / "files", name, "1.0", {f"{name}.py": "ORIGIN = 'wheel'\n"})
        write_sdist(project / "files", name, "1.0", "ORIGIN = 'source'\n")
    spec = spec_of(project, "--no-index", "-f ./files", *options, "both", "other")
    lock = builder.lock(spec, project=str(project), **HERE)
    python = builder.environment(lock, project=str(project)) / "bin/python"
    assert said(python, "-c", "import both, other; print(both.ORIGIN, other.ORIGIN)") == origin


@pytest.mark.parametrize("where", ["./files", "file://{place}", "http"])
def test_every_source_archive_gets_a_hash(builder: Builder, project: Path, where: str) -> None:
    archive = write_sdist(project / "files", "bare", "1.0", "")
    (project / "files" / "index.html").write_text('<a href="bare-1.0.tar.gz">bare-1.0.tar.gz</a>')
    with serve(project / "files") as server:
        place = f"{server.url}/index.html" if where == "http" else where.format(place=project / "files")
        lock = builder.lock(spec_of(project, "--no-index", f"-f {place}", "bare"), project=str(project), **HERE)
    assert lock["pip"] == [f"bare==1.0 --hash=sha256:{said('sha256sum', archive).split()[0]}"]


def test_no_wheel_where_only_wheels_will_do(builder: Builder, project: Path, served: Server) -> None:
    address = f"--index-url {served.url}/simple/"
    answer = builder.solve(spec_of(project, address, "--only-binary tinyfast", "tinyfast"), **HERE)
    assert answer.last["kind"] in ("platform", "unsatisfiable")
    assert "tinyfast" in answer.last["what"]


def test_stated_hashes_are_those_that_count(builder: Builder, project: Path, served: Server, index: Index) -> None:
    address = f"--index-url {served.url}/simple/"
    right = said("sha256sum", index.path / "files/tinypip-1.0-py3-none-any.whl").split()[0]
    lines = [f"tinypip==1.0 --hash=sha256:{NOTHING} \\", f"    --hash=sha256:{right}"]
    lock = builder.lock(spec_of(project, address, *lines), **HERE)
    assert lock["pip"] == [f"tinypip==1.0 --hash=sha256:{NOTHING} --hash=sha256:{right}"]
    assert (builder.environment(lock) / "bin/python").exists()


def test_a_stated_hash_of_another_kind_is_checked_when_installing(
    builder: Builder, project: Path, served: Server
) -> None:
    address = f"--index-url {served.url}/simple/"
    lock = builder.lock(spec_of(project, address, f"tinypip==1.0 --hash=sha512:{'0' * 128}"), **HERE)
    answer = builder.install(lock)
    assert answer.last["kind"] == "hash"


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([f"tinypip==1.0 --hash=sha256:{NOTHING}"], "no file of tinypip==1.0 matches a stated hash"),
        (["tinypip==1.0", "-c hashes.txt"], "no file of tinypip==1.0 matches a stated hash"),
        (["--require-hashes", "tinypip==1.0"], "for tinypip==1.0 none is stated"),
        (["tinydep==0.5 --hash=sha256:{tinydep}"], "for tinypip==1.1 none is stated"),
        (["tinydep==0.5 --hash=sha256:{tinydep}", "tinypip==1.1"], "for tinypip==1.1 none is stated"),
    ],
)
def test_hashes_that_are_wrong_or_missing(
    builder: Builder, project: Path, served: Server, index: Index, lines: list[str], what: str
) -> None:
    (project / "hashes.txt").write_text(f"tinypip==1.0 --hash=sha256:{NOTHING}\n")
    tinydep = said("sha256sum", index.path / "files/tinydep-0.5-py3-none-any.whl").split()[0]
    lines = [line.format(tinydep=tinydep) for line in lines]
    answer = builder.solve(spec_of(project, f"--index-url {served.url}/simple/", *lines), **HERE)
    assert answer.last["kind"] == "hash"
    assert what in answer.last["what"]
    assert answer.last["where"] == "requirements.txt"


def test_unknown_option_is_refused(builder: Builder) -> None:
    answer = builder.solve(pip_spec("tinypip", pip_options={"prefer_binary": True}), **HERE)
    assert "does not support the option prefer_binary" in answer.last["what"]
