"""What ``make smoke`` runs on a fresh machine, together with ``tests/ssh/test_smoke.py``: a local run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Desk

SCRIPT = """
import sys
import holdfast
holdfast.log("loss", 0.5)
open("outputs/model.txt", "w").write("weights")
print("learning rate", sys.argv[2])
"""


def test_local_run_is_in_the_history_with_its_metric_log_and_file(desk: Desk) -> None:
    desk.script(SCRIPT)
    result = desk.submit("train.py", "--lr", "0.1")
    assert result.code == 0, result
    assert "learning rate 0.1\n" in result.text
    [listed] = desk.holdfast("history", "list", "-o", "json").json
    assert (listed["status"], listed["loss"]) == ("Completed", 0.5)
    assert desk.holdfast("logs", "-r", "last").text.endswith("learning rate 0.1\n")
    returned = desk.holdfast("experiment", "return", "-r", "last")
    assert returned.code == 0, returned
    assert (desk.project / "outputs" / "model.txt").read_text() == "weights"
