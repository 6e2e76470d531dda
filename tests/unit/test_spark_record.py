"""What the runner takes from the lines that the script's process wrote about Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.present import spark_card
from holdfast.runner.machine import spark_record
from holdfast.runner.store import layout
from holdfast.runner.store.run_files import Events


def finished(place: Path, content: bytes, code: int) -> tuple[str, list[dict[str, object]]]:
    attempt = os.fsencode(place)
    os.makedirs(layout.metrics(attempt))
    os.makedirs(os.path.join(layout.spark_scratch(attempt), b"blockmgr-1"))
    Path(os.fsdecode(layout.spark_file(attempt))).write_bytes(content)
    reason = spark_record.finish(attempt, Events(attempt), code)
    assert not os.path.exists(layout.spark_scratch(attempt))
    path = Path(os.fsdecode(layout.events(attempt)))
    return reason, [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_later_lines_replace_fields_of_earlier_ones_and_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    lines = (
        b'{"application": "app-1", "reason": "old"}\n[1]\n{"reason": "new", "receipt": {"tasks": 3}}\n{"reason": "to'
    )
    reason, events = finished(tmp_path, lines, 1)
    assert reason == "new"
    assert [(row["type"], row["application"], row["receipt"]) for row in events] == [("spark", "app-1", {"tasks": 3})]


def test_script_that_ended_well_has_no_reason(tmp_path: Path) -> None:
    assert finished(tmp_path, b'{"reason": "a job that the script repeated"}\n', 0) == ("", [])


@pytest.mark.parametrize(("status", "has_page"), [("Running", True), ("Completed", False)])
def test_page_of_an_application_is_shown_while_it_is_there(tmp_path: Path, status: str, has_page: bool) -> None:
    attempt = os.fsencode(tmp_path)
    os.makedirs(layout.metrics(attempt))
    line = b'{"application": "app-1", "master": "local[*]", "ui": "http://127.0.0.1:4040", "other": 1}\n'
    Path(os.fsdecode(layout.spark_file(attempt))).write_bytes(line)
    record: dict[str, object] = {"status": status, "spark": spark_record.so_far(attempt)}
    page = "its UI, while it runs: http://127.0.0.1:4040, on the machine of the driver"
    assert spark_card.lines(record) == ["app-1 on local[*]", *[page] * has_page]
