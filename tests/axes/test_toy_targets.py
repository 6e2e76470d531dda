"""Submits to targets whose kinds were registered from outside the package, by the command as it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from axes.conftest import Spool
from conftest import Desk, eventually
from contract.test_launchers import readable_in
from holdfast import target_lookup
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = """#!{python}
import sys
sys.path.insert(0, {tests!r})
from axes import toys
toys.register()
from holdfast.__main__ import main
main()
"""
SECRET = "hunter2-this-is-secret"
ANOTHER_NODE = """
set -e
hostname othernode
mount --bind "$0" /proc/sys/kernel/random/boot_id
exec "$@"
"""


@pytest.fixture
def toys(desk: Desk, tmp_path: Path) -> Desk:
    command = tmp_path / "holdfast-with-toys"
    command.write_text(COMMAND.format(python=sys.executable, tests=str(Path(__file__).parents[1])))
    command.chmod(0o755)
    desk.command = str(command)
    return desk


@pytest.fixture
def spooled(toys: Desk, tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path)
    toys.env["PATH"] = f"{made.commands}:{toys.env['PATH']}"
    _target(toys, "queue", "type: spool")
    yield made
    made.end()


def test_a_type_that_is_not_registered_is_refused_with_those_that_are(desk: Desk) -> None:
    _target(desk, "queue", "type: spool")
    desk.script("print('never')")
    result = desk.holdfast("submit", "-c", "queue", "train.py")
    assert result.code == 65
    assert "unknown type of target: 'spool'" in result.err


def test_submit_waits_for_a_job_on_another_node(toys: Desk, spooled: Spool, tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text(f"{uuid.uuid4()}\n")
    enter = ("unshare", "--mount", "--uts", "sh", "-c", ANOTHER_NODE, str(tmp_path / "boot_id"))
    done = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: no namespaces here: {done.stderr}")
    toys.script("import os, socket\nprint('on', socket.gethostname(), len(os.environ['TOKEN']))\n")
    argv = ("submit", "-c", "queue", "--secret", "TOKEN", "train.py")
    with toys.start(*argv, env={"TOKEN": SECRET}) as process:
        eventually(lambda: bool(list(spooled.folder.glob("*.job"))))
        assert readable_in(tmp_path, SECRET) == []
        (uid,) = os.listdir(toys.home / "runs")
        eventually(lambda: "ticket" in _client_lines(toys, uid))
        ticket = _client_lines(toys, uid)["ticket"]["ticket"]
        assert ticket.startswith(f"{uid}/a1/")
        spooled.begin(*enter)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"on othernode {len(SECRET)}".encode() in out
    assert toys.events()[0]["host"] == "othernode"
    assert toys.record()["status"] == "Completed"
    assert readable_in(tmp_path, SECRET) == []


def test_setting_of_a_kind_is_known_to_later_commands(toys: Desk, spooled: Spool) -> None:
    (spooled.folder / "long").mkdir()
    _target(toys, "queue", "type: spool\npartition: long")
    toys.script("print('ran')\n")
    refused = toys.holdfast("submit", "-c", "queue", "--no-wait", "train.py")
    assert refused.code != 0
    assert "partition: use long" in refused.err
    assert "no effect" not in refused.err
    assert toys.holdfast("trust", "queue").code == 0
    assert toys.holdfast("submit", "-c", "queue", "--no-wait", "train.py").code == 0
    assert len(list((spooled.folder / "long").glob("*.job"))) == 1
    assert toys.record()["status"] not in ("Lost", "Failed")
    spooled.begin()
    assert toys.wait_for_end()["status"] == "Completed"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo no partition x >&2; exit 3", "spool-submit ended with code 3: no partition x"),
        ("echo Submitted batch job 17", "spool-submit printed 'Submitted batch job 17', and not the name of a job"),
        ("true", "spool-submit printed nothing, and not the name of a job"),
    ],
)
def test_refusal_of_the_queue_is_told_once_and_kept(toys: Desk, spooled: Spool, command: str, told: str) -> None:
    (spooled.commands / "spool-submit").write_text(f"#!/bin/sh\ncat > /dev/null\n{command}\n")
    toys.script("print('never')\n")
    refused = toys.holdfast("submit", "-c", "queue", "train.py")
    assert refused.code == 65
    assert refused.err.count(told) == 1
    assert "unreachable" not in refused.err
    record = toys.record()
    assert record["status"] == "Failed"
    assert told in record["reason"]


def test_a_run_is_cancelled_while_its_job_waits(toys: Desk, spooled: Spool) -> None:
    toys.script("print('never')\n")
    with toys.start("submit", "-c", "queue", "train.py") as process:
        eventually(lambda: bool(list(spooled.folder.glob("*.job"))))
        eventually(lambda: toys.record()["status"] == "Queued")
        assert "waits in the queue of the target" in toys.record()["reason"]
        assert toys.holdfast("cancel", "-r", "last").code == 0
        assert process.wait(60) != 0
    assert toys.record()["status"] == "Canceled"
    assert list(spooled.folder.glob("*.job")) == []


def test_a_run_whose_job_was_removed_from_the_queue_is_lost(toys: Desk, spooled: Spool) -> None:
    toys.script("print('never')\n")
    with toys.start("submit", "-c", "queue", "train.py") as process:
        eventually(lambda: bool(list(spooled.folder.glob("*.job"))))
        (uid,) = os.listdir(toys.home / "runs")
        eventually(lambda: "ticket" in _client_lines(toys, uid))
        process.kill()  # it would start the run again
    next(spooled.folder.glob("*.job")).unlink()
    assert toys.record()["status"] == "Lost"
    assert "left the queue" in toys.events()[-1]["reason"]


def test_a_runtime_puts_words_before_the_interpreter(toys: Desk) -> None:
    _target(toys, "slow", "type: nice")
    toys.script("import os\nprint(os.nice(0), os.environ['TOY_TARGET'])\n")
    result = toys.holdfast("submit", "-c", "slow", "train.py")
    assert result.code == 0, result.err
    assert f"{min(os.nice(0) + 5, 19)} slow" in result.text


def test_a_host_is_reached_at_its_address(toys: Desk) -> None:
    _target(toys, "box", f"type: namespace\naddress: toy\npythonLocation: {sys.executable}")
    toys.trust("box")
    toys.script("import socket\nprint('on', socket.gethostname())\n")
    result = toys.holdfast("submit", "-c", "box", "train.py")
    if "unshare" in result.err:
        pytest.skip(f"NOT TESTED: no namespaces here: {result.err}")
    assert result.code == 0, result.err
    assert "on toy" in result.text
    assert toys.record()["status"] == "Completed"


def _target(desk: Desk, name: str, text: str) -> None:
    folder = desk.project / "aml_config"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.compute").write_text(f"{text}\n")


def _client_lines(desk: Desk, uid: str) -> dict[str, dict[str, str]]:
    path = desk.home / "runs" / uid / "client.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["type"]: line for line in map(json.loads, lines)}


def test_command_of_the_queue_that_leaves_a_process_behind_does_not_hold_the_submit(
    toys: Desk, spooled: Spool, tmp_path: Path
) -> None:
    leaves = f"cat > {tmp_path}/job; echo left; (while [ ! -e {tmp_path}/gate ]; do sleep 0.1; done) &"
    (spooled.commands / "spool-submit").write_text(f"#!/bin/sh\n{leaves}\n")
    toys.script("print('never')\n")
    try:
        assert toys.holdfast("submit", "-c", "queue", "--no-wait", "train.py").code == 0
    finally:
        (tmp_path / "gate").touch()


def test_command_is_not_run_in_a_run_whose_job_waits(toys: Desk, spooled: Spool) -> None:
    toys.script("print('never')\n")
    assert toys.holdfast("submit", "-c", "queue", "--no-wait", "train.py").code == 0
    refused = toys.holdfast("exec", "-r", "last", "--", "pwd")
    assert refused.code != 0
    assert "its job waits in the queue" in refused.err


@pytest.mark.parametrize("place", ["nowhere.at_all:Host", "holdfast.hosts.local:NoSuchHost", ""])
def test_kind_whose_class_cannot_be_loaded_is_named(place: str) -> None:
    with pytest.raises(ConfigError, match="cannot be loaded, which the kind of the target names"):
        target_lookup._import(place)
