"""Where the time of a run on another machine went. Its monotonic clock is not compared with ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timing import SLEEPS, check_ledger, check_sum

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host, Lab

SUBMIT = ("-c", "lab1")


def test_a_run_over_ssh(attached: Laptop) -> None:
    attached.script(SLEEPS + "open('outputs/model', 'w').write('x' * 1000)\n")
    found = check_ledger(attached, *SUBMIT)
    assert 2 <= found["parts"]["run"] < found["wall_s"]
    assert found["parts"]["connect"] > 0
    assert found["parts"]["fetch"] > 0


def test_a_slow_line_is_seen_where_it_costs(attached: Laptop, gpu1: Host, lab: Lab) -> None:
    attached.script("import os\nopen('outputs/model', 'wb').write(os.urandom(3_000_000))\n")
    assert attached.holdfast("submit", *SUBMIT, "train.py").code == 0
    (attached.project / "data").write_bytes(bytes(range(256)) * 40_000)
    lab.slow(gpu1, bytes_per_second=2_000_000)
    result = attached.holdfast("submit", *SUBMIT, "-o", "json", "train.py")
    assert result.code == 0, result.err
    found = result.json["ledger"]
    check_sum(found)
    parts = found["parts"]
    assert parts["ship"] + parts["start"] > 3 > parts["run"]
    assert parts["fetch"] > 1


def test_a_run_that_was_left_and_watched_later(attached: Laptop) -> None:
    attached.script(SLEEPS + "open('outputs/model', 'w').write('x')\n")
    assert attached.holdfast("submit", *SUBMIT, "--detach", "train.py").code == 0
    before = attached.record()["ledger"]
    assert (before["whole"], before["parts"]["fetch"]) == (False, None)
    assert attached.holdfast("logs", "-f").code == 0
    found = attached.record()["ledger"]
    check_sum(found)
    assert found["parts"]["fetch"] > 0
    assert found["parts"]["run"] >= 2
