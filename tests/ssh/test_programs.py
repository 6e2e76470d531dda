"""Modules and programs on a machine over SSH, and their names for a second client."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssh.conftest import Laptop


def test_module_and_programs_over_ssh_and_their_labels_for_another_client(attached: Laptop, second: Laptop) -> None:
    attached.script("import sys, socket; print(socket.gethostname(), __package__, sys.argv[1:])\n", "pkg/train.py")
    attached.script("echo plain $1\n", "train.sh")
    submit = ("submit", "-c", "lab1")
    result = attached.holdfast(*submit, "--name", "first", "--tag", "dataset=v3", "-m", "pkg.train", "--lr", "0.1")
    assert (result.code, "gpu1 pkg ['--lr', '0.1']\n" in result.text) == (0, True), result
    result = attached.holdfast(*submit, "train.sh", "x")
    assert (result.code, "plain x\n" in result.text) == (0, True), result
    result = attached.holdfast(*submit, "--", "no-such-program")
    assert (result.code, "no program no-such-program on the PATH of the run" in result.err) == (127, True), result

    shutil.copy(attached.project / ".holdfast-project", second.project)
    assert second.holdfast("history", "pull", "-c", "lab1").code == 0
    record = second.record("first")
    assert (record["script_name"], record["tags"]) == ("-m pkg.train", {"dataset": "v3"})
    assert second.holdfast("tag", "-r", "first", "--remove", "dataset").code == 0
    assert second.record("first")["tags"] == {}
    kept = json.loads((second.attempt("first").parent / "run.json").read_text())
    assert (kept["command"], kept["source"]) == (["{python}", "-m", "pkg.train"], "pkg/train.py")
