"""The line with the stages that Spark works on, as the script's process writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.script_api.spark import connect, progress, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run whose process this is."""
    settings().update(scratch=str(tmp_path), work=str(tmp_path))
    yield tmp_path
    settings().clear()


def test_line_names_the_first_active_stages_and_is_empty_without_one(scratch: Path) -> None:
    progress.show([(7, 1, 4), (3, 2, 8), (9, 0, 1), (10, 0, 1)])
    file = scratch / "progress"
    assert file.read_text() == "stage 3: 2 of 8 tasks, stage 7: 1 of 4 tasks, stage 9: 0 of 1 tasks"
    progress.show([])
    assert file.read_text() == ""


def test_stages_of_a_connect_server_are_shown_until_the_query_is_done(scratch: Path) -> None:
    class Stage:
        stage_id, num_tasks, num_completed_tasks, done = 5, 4, 1, False

    connect._progressed(stages=[Stage], inflight_tasks=2, operation_id="x", done=False)
    assert (scratch / "progress").read_text() == "stage 5: 1 of 4 tasks"
    connect._progressed(stages=[Stage], inflight_tasks=0, operation_id="x", done=True)
    assert (scratch / "progress").read_text() == ""


def test_process_that_is_in_no_run_writes_nothing(tmp_path: Path) -> None:
    settings().update(scratch=str(tmp_path))  # one of its own
    try:
        progress.show([(1, 1, 4)])
    finally:
        settings().clear()
    assert list(tmp_path.iterdir()) == []
