"""Solving against a real channel and a real index."""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from rattler.index import index_fs

from builder.asking import LINUX, conda_spec, pip_spec
from holdfast.environments.lock import from_json
from lab.conda_package import File, Package, write_package
from lab.server import serve

if TYPE_CHECKING:
    from pathlib import Path

    from builder.asking import Builder
    from lab.channel import Channel
    from lab.index import Index
    from lab.server import Server

HERE = {"python": sys.executable}
WHEELS = ("tinydep-0.5-py3-none-any.whl", "tinypip-1.1-py3-none-any.whl")


def test_a_conda_file_becomes_addresses_and_hashes(builder: Builder, channel: Channel) -> None:
    spec = conda_spec(channel.file_url, "tinysay", "tinyroot=1.0")
    key = "ab" * 32
    answer = builder.solve(spec, spec_key=key)
    lock = answer.last["lock"]
    assert [package["name"] for package in lock["conda"]] == ["python", "tinylearn", "tinynum", "tinyroot", "tinysay"]
    assert all(package["url"].startswith(f"{channel.file_url}/") for package in lock["conda"])
    assert {len(package["sha256"]) for package in lock["conda"]} == {64}
    assert (lock["spec"], lock["platform"], lock["pip"]) == (key, LINUX["platform"], [])
    assert lock["python"]["version"] == platform.python_version()
    assert lock["builder"] == "uv 0.13.7, py-rattler 0.28.0"
    assert answer.progress[-1] == {
        "event": "progress",
        "phase": "solve",
        "name": "conda",
        "done": 1,
        "total": 1,
        "bytes": 0,
    }
    assert builder.lock(spec, spec_key=key) == lock == from_json(lock, "the builder").to_json()


def test_forms_that_old_files_have_are_read(builder: Builder, channel: Channel) -> None:
    version = platform.python_version()
    spec = conda_spec(channel.file_url, f"python={version}=h0_0", f"{channel.file_url}::tinynum=1.*", "tinyroot >=0.5")
    assert ["tinynum", "1.1"] in [[each["name"], each["version"]] for each in builder.lock(spec)["conda"]]


@pytest.mark.parametrize(
    ("wanted", "reason", "hint"),
    [
        ("scikit-tiny", "scikit-tiny 0.19 would require python <3.7, for which no candidates were found.", "loosen"),
        (
            "python=3.5.2",
            "No candidates were found for python 3.5.2.*.",
            f"python={platform.python_version()} is the nearest",
        ),
        ("tinycuda", "__cuda >=12", "the target has no __cuda"),
        ("tinyglibc", "__glibc >=2.99", "the target has __glibc 2.36"),
        ("tinynum === 1", "conda cannot read this", "write it as"),
    ],
)
def test_what_cannot_be_solved(builder: Builder, channel: Channel, wanted: str, reason: str, hint: str) -> None:
    answer = builder.solve(conda_spec(channel.file_url, wanted))
    assert (answer.code, answer.last["event"], answer.last["kind"]) == (1, "failed", "unsatisfiable")
    assert reason in answer.last["what"]
    assert "└" not in answer.last["what"]
    assert hint in answer.last["hint"]


def test_the_targets_virtual_packages_decide(builder: Builder, channel: Channel) -> None:
    facts = {**LINUX, "virtual": {**LINUX["virtual"], "__cuda": "12.4"}}
    names = [
        package["name"] for package in builder.lock(conda_spec(channel.file_url, "tinycuda"), facts=facts)["conda"]
    ]
    assert names == ["cudatoolkit", "python", "tinycuda"]


def test_a_channel_that_does_not_answer(builder: Builder) -> None:
    answer = builder.solve(conda_spec("http://ada:s3cret@127.0.0.1:9/chan", "tinynum"))
    assert answer.last["kind"] == "unreachable"
    assert "127.0.0.1:9" in answer.last["where"]
    assert "s3cret" not in answer.text


def test_the_pip_part_is_for_the_python_of_the_conda_part(builder: Builder, channel: Channel, served: Server) -> None:
    options = {"index_url": f"{served.url}/simple/"}
    lock = builder.lock(conda_spec(channel.file_url, pip=("tinydep",), pip_options=options))
    assert [line.split(" --hash=sha256:")[0] for line in lock["pip"]] == ["tinydep==0.5", "tinypip==1.1"]
    assert lock["pip_options"] == options


@pytest.mark.parametrize(
    ("in_conda", "by_pip"),
    [
        ("1.0", ["tinydep"]),  # fits, so pip leaves it alone
        ("2.5", ["tinydep", "tinypip"]),  # tinydep needs an older one, so pip replaces it
    ],
)
def test_pip_sees_what_conda_installs(
    builder: Builder, channel: Channel, served: Server, tmp_path: Path, in_conda: str, by_pip: list[str]
) -> None:
    own = tmp_path / "channel"
    write_package(Package("tinypip", in_conda, {"site-packages/tinypip.py": File(b"")}, ("python",)), own)
    asyncio.run(index_fs(own))
    options = {"index_url": f"{served.url}/simple/"}
    spec = conda_spec(own.as_uri(), "tinypip", pip=("tinydep",), pip_options=options)
    lock = builder.lock({**spec, "channels": [own.as_uri(), channel.file_url]})
    assert [line.split("==")[0] for line in lock["pip"]] == by_pip


def test_pip_for_a_python_of_this_machine(builder: Builder, served: Server) -> None:
    lock = builder.lock(pip_spec("tinydep", "tinytale ; python_version < '3'", index=f"{served.url}/simple/"), **HERE)
    assert [line.split("==")[0] for line in lock["pip"]] == ["tinydep", "tinypip"]
    assert lock["python"]["version"] == platform.python_version()
    assert sys.base_prefix in lock["python"]["identity"]


def test_constraints_limit_and_ask_for_nothing(builder: Builder, served: Server) -> None:
    spec = pip_spec("tinydep", index=f"{served.url}/simple/", constraints=["tinypip<1.1", "tinytale"])
    assert [line.split(" ")[0] for line in builder.lock(spec, **HERE)["pip"]] == ["tinydep==0.5", "tinypip==1.0"]


def test_pip_for_a_python_of_another_machine(builder: Builder, served: Server) -> None:
    facts = {**LINUX, "python": {"version": "3.7.4", "identity": "there"}}
    answer = builder.solve(pip_spec("tinypip", index=f"{served.url}/simple/"), facts=facts)
    assert answer.last["kind"] == "unsatisfiable"
    assert "Python>=3.8" in answer.last["what"]
    facts["python"]["version"] = "3.9.1"
    lock = builder.lock(pip_spec("tinypip", index=f"{served.url}/simple/"), facts=facts)
    assert lock["python"] == {"version": "3.9.1", "identity": "there"}


@pytest.mark.parametrize(
    ("wanted", "kind", "what"),
    [
        (["tinydep", "tinypip>=3"], "unsatisfiable", "tinypip>=3"),
        (["tinynothing"], "unsatisfiable", "tinynothing was not found in the package registry"),
        (["tinywin"], "platform", "no wheels with a matching platform tag"),
    ],
)
def test_what_an_index_cannot_give(builder: Builder, served: Server, wanted: list[str], kind: str, what: str) -> None:
    answer = builder.solve(pip_spec(*wanted, index=f"{served.url}/simple/"), **HERE)
    assert answer.last["kind"] == kind
    assert what in answer.last["what"]
    assert answer.last["where"] == "requirements.txt"
    assert any(what in line for line in answer.last["tail"])
    assert ("check the spelling" in answer.last["hint"]) == ("not found in the package registry" in what)


def test_a_dead_index_is_named_without_its_password(builder: Builder) -> None:
    answer = builder.solve(pip_spec("tinypip", index="http://ada:s3cret@127.0.0.1:9/simple/?key=s3cret"), **HERE)
    assert answer.last["kind"] == "unreachable"
    assert "http://127.0.0.1:9/simple/" in answer.last["what"]
    assert "s3cret" not in answer.text + builder.log.read_text()


@pytest.mark.parametrize("kind", ["index_url", "extra_index_urls"])
def test_index_that_refuses_the_password_is_named_with_its_answer(builder: Builder, index: Index, kind: str) -> None:
    """uv tells it with its own strategy only; extra indexes need another one."""
    with serve(index.path) as served, serve(index.path) as other:
        served.password = "ada:right"
        address = f"{served.url.replace('//', '//ada:s3cret@')}/simple/"
        options: dict[str, object] = {"index_url": address}
        if kind == "extra_index_urls":
            options = {"index_url": f"{other.url}/nothing/", "extra_index_urls": [address]}
        answer = builder.solve(pip_spec("tinypip", pip_options=options), **HERE)
    assert answer.last["kind"] == "unreachable", answer.last
    assert answer.last["what"].startswith(f"the index {served.url}/simple")
    assert " answered 401 Unauthorized: " in answer.last["what"]
    assert answer.last["hint"] == "check the user name and password of this index"
    assert "s3cret" not in answer.text + builder.log.read_text()


def test_a_lock_has_no_password(builder: Builder, channel: Channel, index: Index) -> None:
    """The password of neither a channel nor an index, which both require it."""
    with serve(channel.path) as shop, serve(index.path) as served:
        shop.password = served.password = "ada:s3cret"
        options = {"index_url": f"{served.with_password()}/simple/", "extra_index_urls": [f"{served.with_password()}/"]}
        answer = builder.solve(conda_spec(shop.with_password(), "tinynum", pip=("tinypip",), pip_options=options))
    lock = answer.last["lock"]
    assert {package["url"].rsplit("/", 2)[0] for package in lock["conda"]} == {shop.url}
    assert lock["pip_options"] == {"index_url": f"{served.url}/simple/", "extra_index_urls": [f"{served.url}/"]}
    assert "s3cret" not in answer.text + builder.log.read_text()
    held = [path for path in builder.cache.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert held == []


def test_a_python_that_does_not_run(builder: Builder) -> None:
    answer = builder.solve(pip_spec("tinypip"), python="/nowhere/python")
    assert (answer.last["kind"], answer.last["where"]) == ("platform", "/nowhere/python")


@pytest.mark.parametrize("name", ["uv.lock", "pylock.toml"])
def test_locks_of_others_need_no_index(builder: Builder, index: Index, tmp_path: Path, name: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    text = '[project]\nname = "own"\nversion = "1"\nrequires-python = ">=3.10"\ndependencies = ["tinydep"]\n'
    with serve(index.path) as server:
        where = f'[[tool.uv.index]]\nurl = "{server.url}/simple/"\ndefault = true\n'
        (project / "pyproject.toml").write_text(text + where)
        _uv(project, "lock")
        _uv(project, "export", "--frozen", "--no-emit-project", "--output-file", "pylock.toml")
    spec = pip_spec(source=name, locked=(project / name).read_text(), own_package=True)
    lock = builder.lock(spec, project=str(project), **HERE)
    assert [line.split(" ")[0] for line in lock["pip"]] == ["tinydep==0.5", "tinypip==1.1"]
    assert all("--hash=sha256:" in line for line in lock["pip"])
    assert lock["pip_bytes"] == sum((index.path / "files" / name).stat().st_size for name in WHEELS)
    assert lock["pip_options"]["index_url"].rstrip("/") == f"{server.url}/simple"
    assert lock["own_package"] is True


def _uv(project: Path, *words: str) -> None:
    always: list[Any] = ["--python", sys.executable, "--cache-dir", project.parent / "uv", "--quiet"]
    subprocess.run([f"{sys.exec_prefix}/bin/uv", *words, *always], cwd=project, check=True)
