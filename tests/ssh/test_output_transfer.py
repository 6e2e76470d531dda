"""Outputs of a machine over SSH: every name comes, and one that is gone there costs that one alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from odd_outputs import NAMES, WRITES

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host, User


def test_outputs_of_any_name_come_and_a_missing_one_is_named(attached: Laptop, ada: User) -> None:
    attached.script(WRITES + "open('outputs/large', 'wb').write(bytes(17 << 20))")
    submitted = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert submitted.code == 0, submitted.err
    there = ada.path(".holdfast") / "runs" / attached.record()["uid"] / "a1" / "outputs"
    (there / "large").unlink()
    result = attached.holdfast("return")
    assert result.code == 74, result.err
    assert f"1 output could not be copied; {len(NAMES)} were" in result.err
    assert "outputs/large: the target could not read it" in result.err
    for number, name in enumerate(NAMES):
        path = Path(os.fsdecode(os.fsencode(attached.project) + b"/outputs/" + name))
        assert path.read_bytes() == b"%d" % number
    assert attached.record()["outputs"]["complete"] is False


def test_download_needs_no_connection_for_a_link_that_stays_on_the_target(attached: Laptop, gpu1: Host) -> None:
    attached.script("import os; open('outputs/model', 'w').write('weights'); os.symlink('model', 'outputs/latest')")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    attached.close_connections()
    gpu1.kill_sshd()
    result = attached.holdfast("history", "download", "-d", "copies")
    assert result.code == 0, result.err
    assert (attached.project / "copies/outputs/model").read_text() == "weights"


def test_checkpoint_outside_outputs_comes_home_and_files_over_the_limit_are_named_with_their_place(
    attached: Laptop, ada: User
) -> None:
    attached.script(
        "import os\n"
        "os.mkdir('checkpoints'); open('checkpoints/last.pt', 'w').write('weights')\n"
        "open('huge', 'wb').write(bytes(5000))\n"
    )
    submitted = attached.holdfast("submit", "-c", "lab1", "--keep-limit", "2kB", "train.py")
    assert submitted.code == 0, submitted.err
    work = ada.path(".holdfast") / "runs" / attached.record()["uid"] / "a1" / "workspace/above/work"
    assert (work / "huge").stat().st_size == 5000
    assert "Not kept: huge (5.0 kB)" in submitted.err
    assert f"/runs/{attached.record()['uid']}/a1/workspace/above/work on lab1" in submitted.err
    returned = attached.holdfast("return")
    assert returned.code == 0, returned.err
    assert (attached.project / "checkpoints/last.pt").read_text() == "weights"
