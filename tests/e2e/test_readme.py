"""The commands of the README, run as they are printed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Desk

README = Path(__file__).resolve().parents[2] / "README.md"


def test_every_local_command_of_the_readme_works(desk: Desk) -> None:
    text = README.read_text(encoding="utf-8")
    first = re.findall(
        r"^    ((?:echo|holdfast) .*)$", text.partition("## Try it")[2].partition("## ")[0], re.MULTILINE
    )
    listed = re.findall(r"^\| `(holdfast .*?)` \|", text, re.MULTILINE)
    later = re.findall(r"^    (holdfast history .*)$", text, re.MULTILINE)
    assert (len(first), len(listed), len(later)) == (5, 10, 2)
    for command in (*first, *listed, *later):
        # The table's run 12 is one of the two runs here.
        line = command.replace("-r 12", "-r 1")
        done = subprocess.run(
            ["sh", "-c", line], cwd=desk.project, env=desk.env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert '"run_number": 2' in done.stdout
