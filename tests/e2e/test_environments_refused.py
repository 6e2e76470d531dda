"""What cannot be built is refused in words that a person can act on."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

import managed
from lab.channel import build_tampered_channel
from lab.server import Fault, serve
from managed import conda_file, environments, lend_packages, manage, requirements, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk
    from lab.server import Server


@pytest.fixture
def index() -> Iterator[Server]:
    with serve(managed.index().path) as server:
        yield server


def refusal(desk: Desk, *submit: str, **more: dict[str, str]) -> str:
    """What a person reads when the environment cannot be made; nothing is left of it."""
    result = desk.submit("train.py", *submit, **more)
    assert result.code != 0
    assert environments(desk) == []
    return shown(result)


@pytest.fixture(autouse=True)
def _script(desk: Desk) -> None:
    manage(desk)
    desk.script("import tinypip\n")


def test_an_index_that_does_not_answer(desk: Desk) -> None:
    with serve(managed.index().path) as server:
        requirements(desk, server.url, "tinypip")
    said = refusal(desk)
    assert server.url in said
    assert "check the address, your connection" in said
    assert f"the whole log: {desk.home}" in said


def test_an_index_that_stops_answering_after_the_solve(desk: Desk, index: Server) -> None:
    requirements(desk, index.url, "tinypip")
    assert desk.holdfast("env", "lock").code == 0
    index.faults["/files/tinypip-1.1-py3-none-any.whl"] = Fault(status=503)
    said = refusal(desk)
    assert "503" in said
    assert "environment.log" in said
    assert desk.record()["status"] == "Failed"
    closing = said[said.index("Failed in") :]
    assert "Failed in 0.00 s" not in closing
    assert "$ " not in closing  # no command line of a tool
    assert closing.count("503") == 1
    assert max(map(len, closing.splitlines())) < 700
    assert closing.splitlines()[0].index("tinypip") < closing.splitlines()[0].index("503")
    assert any(line.strip().startswith("the whole log: ") for line in closing.splitlines()[1:])


def test_versions_that_exclude_each_other(desk: Desk, index: Server) -> None:
    requirements(desk, index.url, "tinydep", "tinypip>=2")
    said = refusal(desk)
    assert "tinypip" in said
    assert "loosen one of the requirements" in said


def test_package_that_does_not_exist_is_said_once_and_without_command_lines(desk: Desk, index: Server) -> None:
    requirements(desk, index.url, "tinynothing")
    said = refusal(desk)
    assert "check the spelling: the package may have another name than its module" in said
    assert "loosen one" not in said
    assert "--cache-dir" not in said
    assert sum(line.lstrip().startswith(("error: ", "answer: error: ")) for line in said.splitlines()) <= 1


def test_conda_packages_that_exclude_each_other(desk: Desk) -> None:
    conda_file(desk, managed.channel().file_url, "python", "tinylearn", "tinynum=2")
    said = refusal(desk)
    assert "tinylearn" in said
    assert "tinynum" in said


def test_a_python_that_no_channel_has(desk: Desk) -> None:
    conda_file(desk, managed.channel().file_url, "python=3.5.2", "tinynum")
    said = refusal(desk)
    assert "python" in said
    assert "is the nearest" in said
    assert "holdfast env fix" in said


def test_a_wheel_that_is_another_than_the_index_says(desk: Desk, index: Server) -> None:
    requirements(desk, index.url, "tinybad")
    said = refusal(desk)
    assert "tinybad" in said
    assert "ash mismatch" in said


def test_a_tampered_archive_of_a_channel_on_disk(desk: Desk) -> None:
    lend_packages(desk)
    conda_file(desk, build_tampered_channel(managed.SHELF).file_url, "python", "tinynum=1.1")
    said = refusal(desk)
    assert "hash mismatch" in said
    assert "tinynum-1.1" in said


def test_a_compiler_that_is_missing(desk: Desk, index: Server) -> None:
    requirements(desk, index.url, "tinyfast")
    said = refusal(desk, env={"CC": "/bin/false"})
    assert "tinyfast" in said
    assert "install a C compiler" in said


def test_a_wheel_for_windows_is_refused_before_any_download(desk: Desk, index: Server) -> None:
    requirements(desk, index.url, f"{index.url}/files/tinywin-1.0-py3-none-win_amd64.whl")
    said = refusal(desk)
    assert "win_amd64" in said
    assert index.paths == []


def test_an_interpreter_that_is_not_there(desk: Desk, index: Server) -> None:
    (desk.project / "aml_config" / "local.compute").write_text(
        "type: local\nuserManagedEnvironment: false\npythonLocation: /opt/none/bin/python\n"
    )
    requirements(desk, index.url, "tinypip")
    said = refusal(desk)
    assert "/opt/none/bin/python" in said
    assert "pythonLocation" in said


@pytest.mark.parametrize("is_named", [True, False], ids=["name without an address", "closed port"])
def test_a_channel_whose_host_does_not_answer(desk: Desk, is_named: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = "channel.invalid" if is_named else f"127.0.0.1:{listener.getsockname()[1]}"
    conda_file(desk, f"http://{host}/channel", "python", "tinynum=1")
    said = refusal(desk)
    first = next(line for line in said.splitlines() if line.startswith("ERROR: "))
    ours, _, theirs = first.removeprefix("ERROR: ").partition(": ")
    assert ours == "the package list of a channel cannot be read"
    assert f"http://{host}/channel/" in theirs
    assert "Caused by: " in theirs
    assert f"at: http://{host}/channel\n" in said
    assert "check the address, your connection" in said
    assert f"the whole log: {desk.home}" in said
