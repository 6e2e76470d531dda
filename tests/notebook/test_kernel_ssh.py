"""A kernel on a machine over SSH, used by a real client of Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conftest import eventually
from notebook.conftest import THERE, install_kernel, notebook

if TYPE_CHECKING:
    from pathlib import Path

    from ssh.conftest import Laptop
    from sshlab import Host, Lab

PYTHON = ("--python", f"{THERE}/venv/bin/python")
COUNT = """
import time
for number in range(30):
    print(number, flush=True)
    time.sleep(0.1)
"last"
"""


def test_kernel_and_its_messages_survive_a_cut_link(attached: Laptop, jupyter: Path, lab: Lab, gpu1: Host) -> None:
    attached.script("ANSWER = 42", "helper.py")
    name = install_kernel(attached, jupyter, "-c", "lab1", *PYTHON)
    assert name == "project_lab1"
    with notebook(attached, jupyter, name) as study:
        shown = study.run(
            "import socket, os, helper; x = helper.ANSWER; socket.gethostname(), os.path.isdir('outputs')"
        )
        assert (shown["status"], shown["value"]) == ("ok", "('gpu1', True)")
        assert (
            len(_listening(gpu1)) <= 1
        )  # that of ipykernel itself for processes that it forks; the channels are files
        study.begin("run", COUNT)
        eventually(lambda: _is_busy(gpu1))
        lab.cut(gpu1, "reset")
        attached.close_connections()  # at once, where ssh would wait for its keep-alive
        eventually(lambda: not _is_busy(gpu1))  # the cell ended while there was no link
        lab.heal(gpu1)
        shown = study.answer()
        assert (shown["status"], shown["value"]) == ("ok", "'last'")
        assert shown["text"].split() == [str(number) for number in range(30)]
        assert study.run("x")["value"] == "42"
        shown = study.ask("interrupt", "import time; time.sleep(60)")
        assert shown["error"].startswith("KeyboardInterrupt")
        assert shown["seconds"] < 30
        assert study.ask("shutdown") == {"is_alive": False}
        assert attached.wait_for_end()["status"] == "Completed"
        assert attached.record()["script_name"] == "kernel"
    assert list(gpu1.path("/tmp").glob("holdfast-kernel-*")) == []


def _is_busy(host: Host) -> bool:
    return any(host.path("/tmp").glob("holdfast-kernel-*/busy"))


def _listening(host: Host) -> list[str]:
    """TCP ports that a process of the user listens on."""
    lines = host.run("ss", "-H", "-l", "-t", "-n").stdout.splitlines()
    return [line.split()[3] for line in lines if not line.split()[3].endswith(":22")]


def test_kernel_ends_with_jupyter_however_jupyter_ends(attached: Laptop, jupyter: Path, gpu1: Host) -> None:
    name = install_kernel(attached, jupyter, "-c", "lab1", "--name", "far", *PYTHON)
    assert name == "far"
    with notebook(attached, jupyter, name) as study:
        study.begin("run", "print('begun'); import time; time.sleep(600)")
        eventually(lambda: _is_busy(gpu1))
        study.kill_jupyter()
        assert attached.wait_for_end()["status"] == "Canceled"
    with notebook(attached, jupyter, name) as study:
        assert study.run("1 + 1")["value"] == "2"
        assert study.ask("shutdown", "now") == {"is_alive": False}  # SIGKILL for the process on this machine
        assert attached.wait_for_end()["status"] == "Canceled"


def test_kernel_ends_when_its_client_stays_away(attached: Laptop, jupyter: Path, lab: Lab, gpu1: Host) -> None:
    name = install_kernel(attached, jupyter, "-c", "lab1", "--client-time", "5s", *PYTHON)
    with notebook(attached, jupyter, name) as study:
        assert study.run("1 + 1")["value"] == "2"
        lab.cut(gpu1, "reset")
        attached.close_connections()
        eventually(lambda: not list(gpu1.path("/tmp").glob("holdfast-kernel-*")))
        study.kill_jupyter()
    lab.heal(gpu1)
    assert attached.wait_for_end()["status"] == "Completed"
    assert "the client has been away for 5 s" in attached.holdfast("logs").text
