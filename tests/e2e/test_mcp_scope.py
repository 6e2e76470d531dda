"""The MCP server serves one project: no tool reads, names or cancels a run of another project of the same store."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from mcptalk import call, talk

if TYPE_CHECKING:
    from pathlib import Path

    from mcp import Client

    from conftest import Desk

TRAINS = "import holdfast, sys\nholdfast.log('loss', float(sys.argv[1]))\n"
SECRET = "the other project's result"
WAITS = f"import sys\nprint({SECRET!r}, flush=True)\nopen(sys.argv[1]).read()\n"


class Other:
    """A run of another project that goes on until ``gate`` is opened."""

    def __init__(self, desk: Desk, place: Path) -> None:
        self.root = place / "other"
        (self.root / "aml_config").mkdir(parents=True)
        (self.root / "train.py").write_text(WAITS)
        (self.root / "aml_config" / "local.runconfig").write_text("Framework: Python\nTarget: local\n")
        self.gate = place / "gate"
        os.mkfifo(self.gate)
        done = desk.holdfast(
            "submit", "-c", "local", "--no-wait", "-o", "json", "train.py", str(self.gate), cwd=self.root
        )
        self.run: dict[str, Any] = done.json
        self.names = [
            *("last", "1", "2", "", "%", "_", f"--run={self.run['uid']}", f"last --project={self.root}"),
            *(str(self.run[name])[:length] for name in ("run_id", "uid") for length in (None, 20, 7, 3)),
            str(self.run["uid"]).upper(),
            str(self.root),
        ]


@pytest.fixture
def other(desk: Desk, tmp_path: Path) -> Other:
    return Other(desk, tmp_path)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    try:
        found = await call(client, tool, **arguments)
    except AssertionError as error:
        return str(error)
    raise AssertionError(f"{tool} {arguments} answered {found}")


def test_tools_do_not_find_runs_of_another_project_by_any_name(desk: Desk, other: Other) -> None:
    async def work(client: Client) -> None:
        for name in other.names:
            for tool in ("run_info", "logs", "cancel"):
                message = await refused(client, tool, run=name)
                assert SECRET not in message
                assert str(other.run["uid"])[:12] not in message.replace(name, "")
            await refused(client, "compare_runs", runs=[name, name])
        assert (await call(client, "list_runs"))["runs"] == []

    talk(desk, work)
    assert desk.record(str(other.run["uid"]))["status"] == "Running"
    other.gate.write_bytes(b"")


def test_tools_find_their_own_runs_beside_another_project(desk: Desk, other: Other) -> None:
    other.gate.write_bytes(b"")
    desk.script(TRAINS)
    mine = desk.submit("--no-wait", "-o", "json", "train.py", "0.5").json

    async def work(client: Client) -> None:
        for name in ("last", "1", str(mine["uid"]), str(mine["run_id"]), str(mine["uid"])[:20]):
            assert (await call(client, "run_info", run=name))["uid"] == mine["uid"]
        await refused(client, "compare_runs", runs=["1", str(other.run["uid"])])
        assert [row["uid"] for row in (await call(client, "list_runs", where="run_number > 0"))["runs"]] == [
            mine["uid"]
        ]

    talk(desk, work)


def test_arguments_cannot_select_another_project(desk: Desk, other: Other) -> None:
    other.gate.write_bytes(b"")
    desk.script("print('mine')\n")
    up = os.path.relpath(other.root, desk.project)

    async def work(client: Client) -> None:
        for value in (f"--project={other.root}", "--all-projects", "-p", "--", f"' or 1 --project={other.root}"):
            for found in [await attempt(client, where=value), await attempt(client, sort=value)]:
                assert str(other.run["uid"]) not in found
        for config in (f"--project={other.root}", "--", "-p", "../x", f"{up}/aml_config/local", f"{other.root}/x", ""):
            await refused(client, "submit", script="train.py", config=config)
        for script in (f"{up}/train.py", f"{other.root}/train.py", f"--project={other.root}", "--", ""):
            await refused(client, "submit", script=script)
        await refused(client, "submit", script="train.py", gpus=1, timeout="--project=/")

    async def attempt(client: Client, **arguments: str) -> str:
        try:
            return json.dumps(await call(client, "list_runs", **arguments))
        except AssertionError as error:
            return str(error)

    talk(desk, work)
    assert desk.holdfast("history", "list", "-o", "json", cwd=other.root).json[0]["run_number"] == 1


def test_server_refuses_when_folder_takes_the_identity_of_another_project(desk: Desk, other: Other) -> None:
    other.gate.write_bytes(b"")
    desk.script(TRAINS)
    assert desk.submit("train.py", "0.5").code == 0

    async def work(client: Client) -> None:
        assert len((await call(client, "list_runs"))["runs"]) == 1
        (desk.project / ".holdfast-project").write_bytes((other.root / ".holdfast-project").read_bytes())
        for tool, arguments in (("list_runs", {}), ("run_info", {"run": "1"}), ("submit", {"script": "train.py"})):
            assert "the project in this folder changed" in await refused(client, tool, **arguments)

    talk(desk, work)
