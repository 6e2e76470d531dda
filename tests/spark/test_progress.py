"""The stages that Spark works on: one live line at a terminal, and nothing of it in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from at_terminal import at_terminal

if TYPE_CHECKING:
    from spark.conftest import SparkDesk

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
SCRIPT = """
import time
print("before")
sc.parallelize(range(6), 6).map(lambda x: time.sleep(0.6)).count()
print("after")
"""


def test_stages_are_a_live_line_at_a_terminal_and_absent_from_the_log(spark: SparkDesk) -> None:
    spark.desk.script(SCRIPT, "etl.py")
    words = ("submit", "-c", "local", "--python", str(spark.python), "etl.py")
    shown = "\n".join(at_terminal(spark.desk, 80, *words))
    live = shown.partition("before")[2].partition("after")[0]
    assert "\x1b[KSpark: stage 0: " in live
    assert " of 6 tasks" in live
    log = (spark.desk.attempt() / "log").read_text()
    assert "before\n" in log
    assert "stage" not in log
    assert "\r" not in log
