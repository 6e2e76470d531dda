"""pip's configuration decides where packages come from, and its passwords leave no trace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.wheels import write_wheel
from lab.server import serve
from managed import everything, index, lend_tools, shown

if TYPE_CHECKING:
    from conftest import Desk
    from lab.server import Server

CANARY = "c4n4ry5ecret"
SAYS = "import tinypip; print('version', tinypip.WHOLE)\n"


@pytest.fixture(autouse=True)
def _folder(desk: Desk) -> None:
    """A folder that requires a package which the public index does not have."""
    lend_tools(desk)
    desk.env.update(PIP_CONFIG_FILE=os.devnull, UV_HTTP_RETRIES="0")
    desk.script(SAYS)
    (desk.project / "requirements.txt").write_text("tinypip==1.0\n")


class Watched:
    """Looks at all command lines of the machine whenever the index is asked for something."""

    def __init__(self, server: Server) -> None:
        self.lines: list[str] = []
        verify = server.verify_request

        def look(request: object, address: object) -> bool:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.lines.append(path.read_bytes().decode("latin-1"))
                except OSError:
                    continue
            return verify(request, address)  # type: ignore[arg-type]

        server.verify_request = look  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("where", ["variable", "pip.conf"])
def test_password_of_configured_index_is_nowhere(desk: Desk, where: str) -> None:
    with serve(index().path) as server:
        server.password = f"ada:{CANARY}"
        watched = Watched(server)
        address = index().simple(server.with_password())
        if where == "variable":
            desk.env["PIP_INDEX_URL"] = address
        else:
            path = desk.user_home / "pip.conf"
            path.write_text(f"[global]\nindex-url = {address}\n")
            desk.env["PIP_CONFIG_FILE"] = str(path)
        said = [desk.submit("train.py"), desk.holdfast("env", "show"), desk.holdfast("env", "lock")]
        said += [desk.holdfast("history", "info"), desk.holdfast("history", "info", "-a", "control_log")]
    assert "version 1.0" in said[0].text, shown(said[0])
    assert [result.code for result in said] == [0] * len(said), "\n".join(map(shown, said))
    assert any("uv\0pip\0install" in line for line in watched.lines)
    for text in (*map(shown, said), everything(desk), *watched.lines):
        assert CANARY not in text
    project = [path for path in desk.project.rglob("*") if path.is_file()]
    assert [path for path in project if CANARY in path.read_text()] == []


def test_index_without_the_tools_of_the_builder_is_named_as_the_cause(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "empty" / "simple").mkdir(parents=True)
    (desk.home / "builder").unlink()
    with serve(tmp_path / "empty") as empty:
        result = desk.submit("train.py", env={"PIP_INDEX_URL": f"{empty.url}/simple/"})
    assert result.code == 65, shown(result)
    assert "pip's index must have uv==" in result.err
    assert "PIP_EXTRA_INDEX_URL adds another index" in result.err


def test_failure_at_configured_index_shows_no_password(desk: Desk) -> None:
    with serve(index().path) as server:
        server.password = "ada:another"
        desk.env["PIP_INDEX_URL"] = index().simple(server.url).replace("//", f"//ada:{CANARY}@")
        result = desk.submit("train.py")
    assert result.code == 65, shown(result)
    assert f"the index {index().simple(server.url).rstrip('/')}" in result.err
    assert "answered 401" in result.err
    assert CANARY not in shown(result) + everything(desk)


def test_configured_index_is_not_part_of_a_lock(desk: Desk) -> None:
    """A colleague with another mirror uses the committed lock as it is."""
    with serve(index().path) as server:
        desk.env["PIP_INDEX_URL"] = index().simple(server.url)
        assert desk.holdfast("env", "lock").code == 0
        assert server.url not in (desk.project / "aml_config" / "local.lock").read_text()
        result = desk.submit("train.py")
    assert "version 1.0" in result.text, shown(result)


def test_folder_of_wheels_in_a_variable(desk: Desk, tmp_path: Path) -> None:
    write_wheel(tmp_path / "shelf", "tinypip", "1.0", {"tinypip.py": "WHOLE = 'of a folder'\n"})
    result = desk.submit("train.py", env={"PIP_FIND_LINKS": "../shelf", "PIP_NO_INDEX": "1"})
    assert "version of a folder" in result.text, shown(result)


def test_extra_index_adds_to_the_first(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "empty" / "simple").mkdir(parents=True)
    with serve(index().path) as server, serve(tmp_path / "empty") as empty:
        env = {"PIP_INDEX_URL": f"{empty.url}/simple/", "PIP_EXTRA_INDEX_URL": index().simple(server.url)}
        result = desk.submit("train.py", env=env)
    assert "version 1.0" in result.text, shown(result)
