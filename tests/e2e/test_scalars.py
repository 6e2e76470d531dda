"""``submit --scalars``: numbers that a script only prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Desk

SCRIPT = "for step in range(3): print(f'step={step} loss={1 / (step + 1)}')"


def test_printed_numbers_are_metrics_on_request(desk: Desk) -> None:
    desk.script(SCRIPT)
    first = desk.submit("train.py")
    assert "No metrics. The log has loss: submit --scalars records them.\n" in first.err
    second = desk.submit("--scalars", "train.py")
    assert "loss 0.3333" in second.err
    assert "No metrics" not in second.err
    (row,) = desk.holdfast("history", "metrics").json
    assert (row["name"], row["points"], row["last_step"]) == ("loss", 3, 2)
    assert desk.holdfast("history", "metrics", "-r", "1").json == []


def test_run_configuration_asks_for_printed_numbers(desk: Desk) -> None:
    desk.script(SCRIPT)
    (desk.project / "aml_config").mkdir()
    config = desk.project / "aml_config" / "local.runconfig"
    config.write_text("Target: local\nFramework: Python\nscalars: true\n")
    assert "loss 0.3333" in desk.submit("train.py").err
    config.write_text("Target: local\nFramework: Python\nscalars: perhaps\n")
    refused = desk.submit("train.py")
    assert refused.code == 65
    assert "local.runconfig:3" in refused.err


def test_run_without_numbers_is_told_how_to_log(desk: Desk) -> None:
    desk.script("print('hello')")
    assert desk.submit("train.py").err.endswith(
        'No metrics. In the script: import holdfast; holdfast.log("loss", value)\n'
    )
    desk.script("import sys; sys.exit(3)")
    assert "No metrics" not in desk.submit("train.py").err


def test_failed_run_is_told_of_numbers_in_its_log_and_not_how_to_log(desk: Desk) -> None:
    desk.script("print('loss: 0.5')\nraise KeyError(0)\n")
    failed = desk.submit("train.py")
    assert failed.code == 1
    assert "No metrics. The log has loss: submit --scalars records them.\n" in failed.err
    desk.script("raise KeyError(0)\n")
    assert "No metrics" not in desk.submit("train.py").err
