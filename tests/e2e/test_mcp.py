"""What a program that acts for a person can do, by the official client over a real conversation."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from fakenvml import GPU, HAS_COMPILER, FakeGpus
from mcptalk import call, talk

if TYPE_CHECKING:
    from pathlib import Path

    from mcp import Client

    from conftest import Desk

TRAINS = """
import holdfast, os, sys
holdfast.log("loss", float(sys.argv[1]))
print("seen", os.environ.get("CUDA_VISIBLE_DEVICES"))
"""


def test_submit_watch_compare_and_list(desk: Desk) -> None:
    desk.script(TRAINS)

    async def work(client: Client) -> None:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {"list_runs", "run_info", "compare_runs", "logs", "budget", "submit", "cancel"}
        for loss in ("0.5", "0.25"):
            started = await call(client, "submit", script="train.py", arguments=[loss])
            await until(client, str(started["run_id"]), "Completed")
        listed = await call(client, "list_runs", where="loss < 0.4", sort="-loss")
        assert [row["run_number"] for row in listed["runs"]] == [2]
        assert "seen \n" in str(await call(client, "logs", run="2")) + "\n"
        compared = await call(client, "compare_runs", runs=["1", "2"])
        assert "0.25" in json.dumps(compared)

    talk(desk, work)


def test_a_program_cannot_confirm_what_a_project_asks_for(desk: Desk) -> None:
    desk.script(TRAINS)
    desk.script("type: remote\naddress: gpu1.example.org\n", "aml_config/gpu1.compute")

    async def work(client: Client) -> None:
        assert not [tool.name for tool in (await client.list_tools()).tools if "trust" in tool.name]
        with pytest.raises(AssertionError, match="holdfast trust gpu1"):
            await call(client, "submit", script="train.py", config="gpu1")
        with pytest.raises(AssertionError, match="holdfast trust gpu1"):
            await call(client, "submit", script="train.py", config="gpu1", arguments=["y"])

    talk(desk, work)
    assert not (desk.home / "trust.json").exists()


def test_a_refusal_is_told_in_our_words(desk: Desk) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(AssertionError, match=r"no such script: 'trian\.py'"):
            await call(client, "submit", script="trian.py")
        for program in ("sh", "-m", "/bin/sh", "python"):  # only files of the project
            with pytest.raises(AssertionError, match="no such script"):
                await call(client, "submit", script=program, arguments=["-c", "true"])
        with pytest.raises(AssertionError, match="run"):
            await call(client, "run_info", run="77")
        with pytest.raises(AssertionError, match=r"unexpected"):
            await call(client, "list_runs", where="1; DROP TABLE runs")

    talk(desk, work)


@pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
def test_gpu_hours_are_the_user_s_to_give(desk: Desk, tmp_path: Path) -> None:
    desk.script(TRAINS)
    desk.env["LD_LIBRARY_PATH"] = str(FakeGpus(tmp_path, GPU).folder)
    desk.env["HOLDFAST_GPU_LOCKS"] = str(tmp_path / "locks")

    async def none_yet(client: Client) -> None:
        assert (await call(client, "budget"))["left"] == 0
        with pytest.raises(AssertionError, match=r"2 GPU-hours requested, but only 0 of 0 are left"):
            await call(client, "submit", script="train.py", arguments=["1"], gpus=2, timeout="1h")

    async def some(client: Client) -> None:
        assert (await call(client, "budget"))["left"] == 3
        started = await call(client, "submit", script="train.py", arguments=["1"], gpus=1, timeout="2h")
        with pytest.raises(AssertionError, match="GPU-hours requested"):
            await call(client, "submit", script="train.py", arguments=["1"], gpus=1, timeout="2h")
        await until(client, str(started["run_id"]), "Completed")
        assert (await call(client, "budget"))["left"] > 2.9, "a run that is over counts with what it took"

    talk(desk, none_yet)
    assert desk.holdfast("config", "agentGpuHours", "3").code == 0
    talk(desk, some)
    assert desk.holdfast("config", "agentGpuHours", "many").code == 65


async def until(client: Client, run: str, status: str) -> None:
    for _ in range(500):
        found = (await call(client, "run_info", run=run))["status"]
        if found in ("Completed", "Failed", "Lost"):
            assert found == status
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{run} has not ended")


def test_the_skill_file(desk: Desk) -> None:
    said = desk.holdfast("mcp", "--skill")
    assert said.text.startswith("---\nname: holdfast\n")
