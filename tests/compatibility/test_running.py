"""A run that goes on, started by one version and watched, entered and ended by the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from compatibility.conftest import roles
from conftest import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from compatibility.conftest import Earlier
    from conftest import Desk
    from ssh.conftest import Laptop
    from sshlab import User

WAIT = """
import os, time
import holdfast
holdfast.log("loss", 0.5)
os.makedirs("outputs", exist_ok=True)
with open("outputs/model.bin", "w") as model:
    model.write("weights")
print("waiting", flush=True)
while not os.path.exists(os.path.expanduser("~/go")):
    time.sleep(0.02)
holdfast.log("loss", 0.25)
print("went on", flush=True)
"""
pytestmark = pytest.mark.parametrize("starter", ["earlier", "present"])


def test_local_run_is_followed_and_canceled(desk: Desk, earlier: Earlier, starter: str) -> None:
    desk.script(WAIT)
    follow_and_cancel(*roles(desk, earlier, starter), "local", (desk.user_home / "go").touch)


def test_run_over_ssh_is_followed_and_canceled(attached: Laptop, earlier: Earlier, ada: User, starter: str) -> None:
    attached.script(WAIT)
    follow_and_cancel(*roles(attached, earlier, starter), "lab1", lambda: ada.write("go", ""))


def test_second_client_takes_over_what_the_other_version_started(
    attached: Laptop, second: Laptop, earlier: Earlier, ada: User, starter: str
) -> None:
    attached.script(WAIT)
    first, _ = roles(attached, earlier, starter)
    _, other = roles(second, earlier, starter)
    started = first.holdfast("submit", "-c", "lab1", "--no-wait", "train.py")
    assert started.code == 0, started
    run = first.record()["run_id"]
    (other.project / ".holdfast-project").write_bytes((first.project / ".holdfast-project").read_bytes())
    pulled = other.holdfast("history", "pull", "-c", "lab1")
    assert pulled.code == 0, pulled
    assert other.record(run)["status"] == "Running"
    ended = other.holdfast("cancel", "-r", run)
    assert ended.code == 0, ended
    assert first.wait_for_end(run)["status"] == other.wait_for_end(run)["status"] == "Canceled"


def follow_and_cancel(starter: Any, user: Any, target: str, go_on: Callable[[], None]) -> None:
    submit = ("submit", "-c", target, "--no-wait", "train.py")
    for number in ("1", "2"):
        started = starter.holdfast(*submit)
        assert started.code == 0, started
        eventually(lambda number=number: user.holdfast("logs", "-r", number).text == "waiting\n")  # type: ignore[misc]
    rows = user.holdfast("history", "list", "-o", "json").json
    assert [(row["run_number"], row["status"]) for row in rows] == [(2, "Running"), (1, "Running")]
    inside = user.holdfast("exec", "-r", "1", "--", "cat", "outputs/model.bin")
    assert (inside.code, inside.text) == (0, "weights"), inside
    cancel(starter, user)
    follow(starter, user, go_on)


def cancel(starter: Any, user: Any) -> None:
    ended = user.holdfast("cancel", "-r", "2")
    assert ended.code == 0, ended
    assert user.wait_for_end("2")["status"] == "Canceled"
    assert starter.record("2")["status"] == "Canceled"


def follow(starter: Any, user: Any, go_on: Callable[[], None]) -> None:
    with user.start("logs", "-f", "-r", "1") as following:
        assert following.stdout.readline() == b"waiting\n"
        go_on()
        output, complaint = following.communicate(timeout=60)
    assert (following.returncode, output) == (0, b"went on\n"), complaint
    for client in (user, starter):
        record = client.record("1")
        assert (record["status"], record["loss"]) == ("Completed", [0.5, 0.25])
        assert record["outputs"]["complete"] is True
        assert client.holdfast("history", "info", "-r", "1", "-a", "outputs/model.bin").text == "weights"
