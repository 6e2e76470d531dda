"""A machine is switched off only while no run may live on it or on a node that shares its store."""

from __future__ import annotations

import os
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


def test_machine_stays_on_while_a_run_of_another_node_is_open(attempt: Path, tmp_path: Path) -> None:
    (attempt / "alive").write_bytes(jsonl.sealed(OTHER_NODE))
    assert not _is_switched_off(tmp_path)


def test_machine_stays_on_while_a_run_waits_in_a_queue(attempt: Path, tmp_path: Path) -> None:
    waiting.put(os.fsencode(attempt))
    assert not _is_switched_off(tmp_path)


def test_closed_run_of_another_node_does_not_keep_the_machine_on(attempt: Path, tmp_path: Path) -> None:
    (attempt / "alive").write_bytes(jsonl.sealed(OTHER_NODE))
    jsonl.append_line(os.fsencode(attempt / "events.jsonl"), {"type": "closed", "outcome": "completed"})
    assert _is_switched_off(tmp_path)
