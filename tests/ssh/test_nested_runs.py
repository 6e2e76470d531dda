"""A run that a script on another machine starts there: it outlives the script, and the cancel of the outer run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from conftest import eventually

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import User

INNER = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\nprint('inner ended')\n"
OUTER = """
import os, subprocess, sys, time
from pathlib import Path
home = Path.home()
os.environ.update(PYTHONPATH=str(home / "src"), HOLDFAST_HOME=str(home / "nested"))
words = ("-m", "holdfast", "submit", "-c", "local", "--env", "none", "--no-wait", "inner.py", str(home / "gate"))
subprocess.run((sys.executable, *words), check=True)
print("submitted", flush=True)
while sys.argv[1] == "wait":
    time.sleep(0.02)
"""


@pytest.mark.parametrize("end", ["end", "wait"])
def test_run_started_on_a_machine_outlives_the_outer_run(attached: Laptop, ada: User, end: str) -> None:
    shutil.copytree(
        Path(holdfast.__file__).parent, ada.path("src/holdfast"), ignore=shutil.ignore_patterns("__pycache__")
    )
    attached.script(INNER, "inner.py")
    attached.script(OUTER)
    outer = attached.holdfast("submit", "-c", "lab1", *(["--no-wait"] if end == "wait" else []), "train.py", end)
    assert outer.code == 0, outer
    if end == "wait":
        eventually(lambda: b"submitted" in attached.holdfast("logs").out)
        assert attached.holdfast("cancel", "-r", "last").code == 0
    expected = "Canceled" if end == "wait" else "Completed"
    assert attached.wait_for_end()["status"] == expected
    assert _inner(ada) == "Running"
    ada.write("gate", "")
    eventually(lambda: _inner(ada) == "Completed")


def _inner(ada: User) -> str:
    home = ada.run("sh", "-c", "cd && pwd").stdout.strip()
    env = ("env", f"PYTHONPATH={home}/src", f"HOLDFAST_HOME={home}/nested")
    words = ("python3", "-m", "holdfast", "history", "list", "--all", "-o", "json")
    (record,) = json.loads(ada.run(*env, *words).stdout)
    return str(record["status"])
