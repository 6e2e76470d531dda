"""A machine is switched off only while no run may live on it or on a node that shares its store."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from holdfast.runner.run import idle, waiting
from holdfast.runner.store import jsonl

if TYPE_CHECKING:
    from pathlib import Path

UID = "0" * 32
OTHER_NODE: dict[str, object] = {"host": "othernode", "machine": "f" * 32, "boot_id": "another boot"}


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / UID / "a1"
    folder.mkdir(parents=True)
    return folder


def _is_switched_off(home: Path) -> bool:
    """Wait as the guardian of an ended run does, for 60 ms; the command leaves a file."""
    idle.main([os.fspath(home), UID, "0.001", f"touch {home}/off"])
    return (home / "off").exists()


def test_machine_without_live_runs_is_switched_off(attempt: Path, tmp_path: Path) -> None:
    assert _is_switched_off(tmp_path)


def test_machine_stays_on_until_a_living_run_of_another_node_is_closed(attempt: Path, tmp_path: Path) -> None:
    (attempt / "alive").write_bytes(jsonl.sealed(OTHER_NODE))
    guardian = threading.Thread(target=_is_switched_off, args=(tmp_path,), daemon=True)
    guardian.start()
    guardian.join(0.5)
    assert guardian.is_alive()
    assert not (tmp_path / "off").exists()
    jsonl.append_line(os.fsencode(attempt / "events.jsonl"), {"type": "closed", "outcome": "completed"})
    guardian.join(20)
    assert (tmp_path / "off").exists()


def test_open_run_of_a_node_that_crashed_does_not_keep_the_machine_on(attempt: Path, tmp_path: Path) -> None:
    (attempt / "alive").write_bytes(jsonl.sealed(OTHER_NODE))
    os.utime(attempt / "alive", (0, 0))
    assert _is_switched_off(tmp_path)


def test_run_that_ends_on_another_node_does_not_end_the_wait_here(attempt: Path, tmp_path: Path) -> None:
    """The guardian there writes its own file."""
    assert _is_switched_off(tmp_path)
    (written,) = tmp_path.glob("**/idle-*")
    assert written.read_text() == UID


def test_machine_stays_on_while_a_run_waits_in_a_queue(attempt: Path, tmp_path: Path) -> None:
    waiting.put(os.fsencode(attempt))
    assert not _is_switched_off(tmp_path)


def test_closed_run_of_another_node_does_not_keep_the_machine_on(attempt: Path, tmp_path: Path) -> None:
    (attempt / "alive").write_bytes(jsonl.sealed(OTHER_NODE))
    jsonl.append_line(os.fsencode(attempt / "events.jsonl"), {"type": "closed", "outcome": "completed"})
    assert _is_switched_off(tmp_path)
