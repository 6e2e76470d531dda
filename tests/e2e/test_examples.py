"""The commands in the READMEs of ``examples/``, run as they are printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Desk

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# What the last runs of an example have in their records.
RECORDED: dict[str, dict[str, Any]] = {
    "printed-loss": {"status": "Completed", "script_name": "train.py"},
    "sweep": {"status": "Completed", "script_name": "train.py"},
    "workbench": {"status": "Completed", "Regularization Rate": 0.05},
}
INDEX_SETTINGS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONFIG_FILE", "SSL_CERT_FILE")


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_example_runs_as_its_readme_says(desk: Desk, name: str) -> None:
    shutil.copytree(EXAMPLES / name, desk.project, dirs_exist_ok=True)
    [block] = re.findall(r"^```sh\n(.*?)^```$", (desk.project / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    env = {**{key: os.environ[key] for key in INDEX_SETTINGS if key in os.environ}, **desk.env}
    for line in block.splitlines():
        done = subprocess.run(
            ["sh", "-c", line], cwd=desk.project, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    record = desk.wait_for_end()
    assert {key: record.get(key) for key in RECORDED[name]} == RECORDED[name], record
    if name == "sweep":
        [*losses, sweep] = [run.get("loss") for run in desk.holdfast("history", "list", "-o", "json").json]
        assert sweep is None
        assert len(losses) == 3
        assert all(losses)
    if name == "printed-loss":
        assert record["loss"][-1] < record["loss"][0]


def test_every_example_is_listed_and_run() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    listed = set(re.findall(r"^\| \[(.*?)\]\(\1/README\.md\) \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE))
    assert folders == listed == set(RECORDED)
