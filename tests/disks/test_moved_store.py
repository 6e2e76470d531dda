"""A store that was moved, or made in a folder that was there before."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from conftest import eventually

if TYPE_CHECKING:
    from conftest import Desk

WAITS = "import os, sys, time\nprint('began', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"


def test_run_of_a_moved_store_is_followed_and_canceled(desk: Desk, tmp_path: Path) -> None:
    desk.script(WAITS)
    before = desk.home
    for number in (1, 2):
        assert desk.submit("--no-wait", "train.py", str(tmp_path / f"gate{number}")).code == 0
        eventually(lambda: "began" in desk.holdfast("logs").text)
    desk.home = before.rename(tmp_path / "elsewhere")
    desk.env["HOLDFAST_HOME"] = str(desk.home)
    assert [row["status"] for row in desk.holdfast("history", "list", "-o", "json").json] == ["Running", "Running"]
    (tmp_path / "gate1").touch()
    assert desk.wait_for_end("1")["exit_code"] == 0
    assert desk.holdfast("cancel", "-r", "2").code == 0
    assert desk.wait_for_end("2")["status"] == "Canceled"
    assert desk.holdfast("retry", "-r", "1").code == 2
    assert not before.exists(), "nothing is made where the store was"


def test_store_in_an_open_folder_is_closed_to_other_users(desk: Desk) -> None:
    desk.home.mkdir(mode=0o755)
    desk.home.chmod(0o755)
    desk.script("import holdfast; holdfast.log('loss', 1)")
    assert desk.submit("train.py", "--password=hunter2").code == 0
    assert desk.holdfast("runs").code == 0
    readable = [path for path in desk.home.iterdir() if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert [path.name for path in readable if path.name not in ("store.json", "shims")] == []
