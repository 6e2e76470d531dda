"""What ``make smoke`` runs on a fresh machine, together with ``tests/e2e/test_smoke.py``: a run over SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssh.conftest import Laptop

SCRIPT = """
import socket
open("outputs/host.txt", "w").write(socket.gethostname())
print("this is", socket.gethostname())
"""


def test_run_over_ssh_brings_its_log_and_file_home(attached: Laptop) -> None:
    attached.script(SCRIPT)
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 0, result
    assert "this is gpu1\n" in result.text
    [listed] = attached.holdfast("history", "list", "-o", "json").json
    assert (listed["status"], listed["target"]) == ("Completed", "lab1")
    returned = attached.holdfast("experiment", "return", "-r", "last")
    assert returned.code == 0, returned
    assert (attached.project / "outputs" / "host.txt").read_text() == "gpu1"
