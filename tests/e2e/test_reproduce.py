"""A run made again from what was kept of it, whatever has become of the project meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import managed
from lab.server import serve
from managed import environments, manage, requirements, shown

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

SCRIPT = """
import os, sys, time, holdfast
from helper import value
holdfast.log("loss", value * float(sys.argv[2]))
holdfast.log("fit_time", time.time())
print("ran with", os.environ.get("MODE"), sys.argv[1:], os.path.exists("later.py"))
"""


@pytest.fixture
def ran(desk: Desk) -> Desk:
    desk.script("value = 3.0\n", "helper.py")
    desk.script(SCRIPT)
    assert desk.submit("train.py", "--rate", "0.5").code == 0
    return desk


def test_the_code_of_then_runs_and_not_that_of_now(ran: Desk) -> None:
    ran.script("value = 99.0\n", "helper.py")
    ran.script("raise SystemExit('the working folder ran')\n")
    ran.script("", "later.py")
    done = ran.holdfast("reproduce", "-r", "1", "-o", "json")
    assert done.code == 0, done.err
    assert "ran with None ['--rate', '0.5'] False" in done.err
    assert "run 2, of run 1: equal within 1 %" in done.err
    first, again = ran.record("1"), ran.record("2")
    assert done.json == {
        "run_id": again["run_id"],
        "reproduces": first["run_id"],
        "same": True,
        "tolerance": 0.01,
        "metrics": [{"metric": "loss", "before": 1.5, "after": 1.5, "difference": 0.0, "same": True}],
    }
    kept = json.loads((ran.home / "runs" / again["uid"] / "run.json").read_text())
    assert (kept["reproduces"], kept["parent_run_id"]) == (first["run_id"], first["run_id"])
    assert kept["tree"] == json.loads((ran.home / "runs" / first["uid"] / "run.json").read_text())["tree"]
    assert (again["script_name"], again["arguments"]) == (first["script_name"], first["arguments"])
    assert (ran.project / "helper.py").read_text() == "value = 99.0\n"
    assert list((ran.home / "cache").glob("reproduce-*")) == []


def test_what_git_said_is_what_it_said_then(desk: Desk) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=desk.project, env=desk.env, check=True, capture_output=True)

    git("init", "-q")
    desk.script("import holdfast\nholdfast.log('x', 1)\n")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    desk.script("import holdfast\nholdfast.log('x', 2)\n")
    assert desk.submit("train.py").code == 0
    git("commit", "-q", "-a", "-m", "two")
    assert desk.holdfast("reproduce").code == 0
    folders = [desk.home / "runs" / desk.record(number)["uid"] for number in "12"]
    told = [json.loads((folder / "run.json").read_text())["git"] for folder in folders]
    assert told[0] == told[1]
    assert told[0]["dirty"] is True
    assert (folders[0] / "git.diff").read_bytes() == (folders[1] / "git.diff").read_bytes()


def test_one_that_comes_out_differently_is_told(desk: Desk) -> None:
    desk.script(
        """
import holdfast, os
count = len(os.listdir(os.environ["PLACE"]))
open(os.path.join(os.environ["PLACE"], str(count)), "w").close()
holdfast.log("loss", 1.0 + 0.02 * count)
holdfast.log("steady", 5)
"""
    )
    place = desk.user_home / "place"
    place.mkdir()
    assert desk.submit("-e", f"PLACE={place}", "train.py").code == 0
    refused = desk.holdfast("reproduce", "-r", "1")
    assert refused.code == 2
    assert "-e PLACE=VALUE" in refused.err
    words = ("reproduce", "-r", "1", "-e", f"PLACE={place}", "-o", "table")
    done = desk.holdfast(*words)
    assert done.code == 1
    rows = [line.split() for line in done.text.splitlines()[2:]]
    assert [(row[0], row[-1]) for row in rows] == [("loss", "False"), ("steady", "True")]
    assert "run 2, of run 1: differ by more than 1 % in loss" in done.err
    assert desk.holdfast(*words, "--metric", "steady").code == 0
    assert desk.holdfast(*words, "--tolerance", "0.1").code == 0
    assert desk.holdfast("history", "list", "--where", "parent_run_id is not null").json


def test_one_that_fails_this_time_is_not_the_same(desk: Desk) -> None:
    flag = desk.user_home / "flag"
    desk.script(f"import holdfast, os, sys\nholdfast.log('x', 1)\nsys.exit(os.path.exists({str(flag)!r}))\n")
    assert desk.submit("train.py").code == 0
    flag.touch()
    done = desk.holdfast("reproduce", "-o", "json")
    assert done.code == 1
    assert done.json["metrics"][0]["same"] is True
    assert done.json["same"] is False
    assert "run 2, of run 1: the new run failed: " in done.err
    assert "equal within" not in done.err


def test_run_without_metrics_is_compared_by_exit_code_and_files(desk: Desk) -> None:
    flag = desk.user_home / "flag"
    save = f"open('outputs/model', 'w').write(str(os.path.exists({str(flag)!r})))"
    desk.script(f"import os, sys\n{save}\nsys.exit(int(sys.argv[1]))")
    assert desk.submit("train.py", "0").code == 0
    assert "not a number between 0 and 1" in desk.holdfast("reproduce", "--tolerance", "5").err
    done = desk.holdfast("reproduce", "-r", "1", "-o", "json")
    assert done.code == 0, done
    assert (done.json["same"], done.json["exit_codes"], done.json["different_files"]) == (True, [0, 0], [])
    assert "no metric to compare; both ended with exit code 0, and their files are the same (1)" in done.err
    assert "--scalars" in done.err
    assert desk.submit("train.py", "3").code == 3
    flag.touch()
    done = desk.holdfast("reproduce", "-r", "3")
    assert done.code == 0, done
    assert "both ended with exit code 3, but these files differ: outputs/model" in done.err


def test_run_whose_virtual_environment_is_gone_is_refused_before_it_starts(desk: Desk) -> None:
    place = desk.user_home / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    desk.script("print('hello')")
    assert desk.submit("--python", str(place / "bin/python"), "train.py").code == 0
    place.rename(desk.user_home / "moved")
    done = desk.holdfast("reproduce")
    assert done.code == 2, done
    assert "the Python that this run used no longer exists" in done.err
    assert "reproduce -r 1 --recorded-packages" in done.err
    assert len(desk.holdfast("history", "list").json) == 1


def test_on_another_target_and_on_one_whose_file_is_gone(ran: Desk, tmp_path: Path) -> None:
    config = ran.project / "aml_config"
    config.mkdir()
    (config / "other.compute").write_text(f"type: local\nroot: {tmp_path / 'elsewhere'}\n")
    ran.trust("other")
    assert ran.holdfast("reproduce", "-r", "1", "-c", "other").code == 0
    (config / "other.compute").unlink()
    done = ran.holdfast("reproduce", "-r", "2")
    assert done.code == 0, done.err
    assert [ran.record(number)["target"] for number in "123"] == ["local", "other", "other"]
    assert len(list((tmp_path / "elsewhere" / "runs").iterdir())) == 2


def test_the_environment_is_that_of_the_lock(desk: Desk) -> None:
    """The project's requirements have changed, and no index can be reached."""
    manage(desk)
    desk.script("import holdfast, tinypip\nholdfast.log('version', float(tinypip.WHOLE))\n")
    with serve(managed.index().path) as server:
        requirements(desk, server.url, "tinypip")
        first = desk.submit("train.py")
        assert first.code == 0, shown(first)
        requirements(desk, server.url, "tinypip==1.0")
        assert desk.submit("train.py").code == 0
        assert [desk.record(number)["version"] for number in ("1", "2")] == [1.1, 1.0]
        server.paths.clear()
        done = desk.holdfast("reproduce", "-r", "1", "-o", "json")
        assert done.code == 0, done.err
        assert "WARNING" not in done.err
        assert server.paths == []
    keys = [json.loads((desk.attempt(number) / "plan.json").read_text())["environment"]["key"] for number in "123"]
    assert keys[0] == keys[2] != keys[1]
    assert len(environments(desk)) == 2
    found = desk.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "json").json
    [rows] = [section["rows"] for section in found["sections"] if section["title"] == "environment"]
    assert {
        row["name"]: row["values"]
        for row in rows
        if row["differs"] and row["name"] not in ("environment", "interpreter")
    } == {"tinypip": ["1.1", "1.0"]}
