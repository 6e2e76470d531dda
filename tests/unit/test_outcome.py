"""The outcome of a run from its exit code and the reason for a stop."""

from __future__ import annotations

import signal

import pytest

from holdfast.runner.run.outcome import judge

SEGFAULT = "signal 11 (SIGSEGV: invalid memory access)"


@pytest.mark.parametrize(
    ("code", "stopping", "expected"),
    [
        (0, "", ("completed", 0, "")),
        (1, "", ("failed", 1, "the script exited with code 1")),
        (255, "", ("failed", 255, "the script exited with code 255")),
        (-1, "", ("failed", 129, "killed by signal 1 (SIGHUP)")),
        (-11, "", ("failed", 139, f"killed by {SEGFAULT}")),
        (-63, "", ("failed", 191, "killed by signal 63 (signal 63)")),
        (-15, "canceled", ("canceled", 143, "canceled")),
        (-9, "canceled: by ada", ("canceled", 137, "canceled")),
        (0, "canceled", ("canceled", 143, "canceled (the script then exited with code 0)")),
        (3, "canceled", ("canceled", 3, "canceled (the script then exited with code 3)")),
        (-15, "timeout", ("failed", 124, "timed out after 4h")),
        (-15, "gpu-idle: no work for 5 min", ("failed", 79, "gpu-idle: no work for 5 min")),
        (-9, "guardian-died", ("lost", 125, "the runner's guardian was killed; the script was ended with it")),
        (-9, "disk full", ("failed", 137, "disk full")),
        (0, "disk full", ("failed", 143, "disk full")),
    ],
)
def test_exit_code_and_stop_reason_decide_the_outcome(code: int, stopping: str, expected: tuple[str, int, str]) -> None:
    assert judge(code, stopping, "4h") == expected


def test_reports_of_other_sources_count_where_there_was_no_stop() -> None:
    assert judge(0, "", "", reported="out of memory") == ("failed", 125, "out of memory")
    assert judge(-9, "", "", reported="out of memory") == ("failed", 137, "out of memory")
    assert judge(0, "", "", reported="the engine is gone", lost=True) == ("lost", 125, "the engine is gone")
    assert judge(0, "timeout", "4h", reported="the engine is gone", lost=True)[1] == 124


@pytest.mark.parametrize(
    ("number", "meaning"),
    [
        (signal.SIGABRT, "aborted"),
        (signal.SIGKILL, "kernel when memory ran out"),
        (signal.SIGBUS, "truncated"),
        (signal.SIGFPE, "division by zero"),
        (signal.SIGXFSZ, "ulimit -f"),
        (signal.SIGXCPU, "ulimit -t"),
        (signal.SIGILL, "this CPU does not support"),
    ],
)
def test_usual_signals_are_explained(number: signal.Signals, meaning: str) -> None:
    assert meaning in judge(-number, "", "")[2]
