"""Where the time went: lengths of two clocks put together, and never one clock taken from the other."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import ledger

S = 1_000_000_000
SPENT = {"begin": S, "snapshot": 2 * S, "connect": S, "environment": 3 * S, "ship": 4 * S, "start": S, "other": 0}


def events(*moments: tuple[float, str], **more: dict[str, Any]) -> list[dict[str, Any]]:
    """By the clock of a machine that was started long ago and whose wall clock is years off."""
    return [
        {
            "seq": number,
            "mono_ns": int((9_000 + second) * S),
            "wall_ns": int(second * S),
            "boot_id": "there",
            "type": kind,
            **more.get(kind, {}),
        }
        for number, (second, kind) in enumerate(moments)
    ]


RUN = events((0, "accepted"), (0.5, "started"), (10.5, "exited"), (11, "closed"))


def parts(found: dict[str, object] | None) -> dict[str, float | None]:
    assert found is not None
    got: dict[str, float | None] = found["parts"]  # type: ignore[assignment]
    assert list(got) == list(ledger.PARTS)
    return got


def total(found: dict[str, object] | None) -> float:
    return sum(length or 0 for length in parts(found).values())


def ended(watch: float, fetch: float = 0.0, **more: int) -> list[dict[str, Any]]:
    told = {**SPENT, "watch": int(watch * S), "fetch": int(fetch * S), **more}
    return [{"type": "ticket", "spent": SPENT}, {"type": "ledger", "spent": told}]


def test_the_parts_are_the_wall_time() -> None:
    found = ledger.ledger(ended(10.9, 0.25), RUN)
    assert found is not None
    assert (found["whole"], found["wall_s"]) == (True, pytest.approx(23.15))
    assert total(found) == pytest.approx(found["wall_s"])
    got = parts(found)
    assert (got["run"], got["close"], got["ship"], got["snapshot"]) == (10, 0.5, 4, 2)
    # The answer to the start took 1 s and the watching 10.9 s; the target was busy for 11 of these 11.9 s.
    assert got["start"] == pytest.approx(0.5 + 0.9)
    assert got["fetch"] == pytest.approx(0.25)


def test_what_came_after_the_end_is_fetching() -> None:
    """Cut off for an hour, in which the run ended."""
    got = parts(ledger.ledger(ended(3610), RUN))
    assert got["start"] == pytest.approx(1.5)
    assert got["fetch"] == pytest.approx(3610 - 11)


def test_a_run_that_went_on_behind_our_back_is_not_counted_twice() -> None:
    """The link broke when the run had started and before that was answered."""
    found = ledger.ledger(ended(4, connect=7 * S), RUN)
    assert total(found) == pytest.approx(found["wall_s"] if found else 0)


def test_environment_and_queue_are_no_part_of_the_start() -> None:
    told: dict[str, Any] = {"gpu_taken": {"waited_s": 20.0}, "started": {"environment_ns": 30 * S}}
    moments = ((0, "accepted"), (1, "preparing"), (31, "queued"), (51, "gpu_taken"), (52, "started"))
    got = parts(ledger.ledger(ended(62), events(*moments, (60, "exited"), (61, "closed"), **told)))
    assert (got["environment"], got["queue"], got["run"]) == (3 + 30, 20, 8)
    assert got["start"] == pytest.approx(2 + 1)


@pytest.mark.parametrize(
    ("moments", "environment", "queue"),
    [
        (((0, "accepted"), (1, "preparing"), (9, "preparing"), (9.5, "closed")), 8.5, 0),
        (((0, "accepted"), (1, "queued"), (5, "queued"), (8, "closed")), 0, 7),
        (((0, "accepted"), (1, "preparing"), (3, "queued"), (8, "closed")), 2, 5),
    ],
)
def test_a_run_that_ended_before_its_script(moments: Any, environment: float, queue: float) -> None:
    found = ledger.ledger([], events(*moments))
    got = parts(found)
    assert (got["environment"], got["queue"], got["run"]) == (environment, queue, None)
    assert total(found) == pytest.approx(moments[-1][0])


def test_of_a_run_whose_command_left_the_target_tells_the_rest() -> None:
    left: list[dict[str, Any]] = [{"type": "ticket", "spent": SPENT}]
    found = ledger.ledger([*left, {"type": "watched", "spent": {"watch": 9 * S, "fetch": 2 * S}}], RUN)
    assert found is not None
    assert (found["whole"], found["wall_s"]) == (False, pytest.approx(12 + 11 + 2))
    assert parts(found)["fetch"] == 2
    assert total(found) == pytest.approx(found["wall_s"])


def test_of_a_run_whose_command_was_killed_only_the_target_tells() -> None:
    found = ledger.ledger([], RUN)
    assert found is not None
    assert (found["whole"], found["wall_s"]) == (False, 11)
    assert parts(found)["connect"] is None


def test_a_machine_that_was_started_anew_has_another_clock() -> None:
    """Its wall clock is all there is then."""
    lost = {**RUN[3], "boot_id": "other", "mono_ns": 5 * S, "wall_ns": 700 * S}
    assert parts(ledger.ledger([], [*RUN[:2], lost]))["run"] == pytest.approx(699.5)


def test_earlier_attempts_are_nothing_that_was_fetched() -> None:
    got = parts(ledger.ledger(ended(500), RUN, attempt=2))
    assert got["fetch"] == 0
    assert got["other"] == pytest.approx(500 - 11)


@pytest.mark.parametrize("spent", [None, 7, {"begin": "x", "ship": -1}])
def test_what_cannot_be_read_is_not_known(spent: object) -> None:
    assert ledger.ledger([{"type": "ledger", "spent": spent}], []) is None


def test_a_stopwatch_leaves_nothing_out() -> None:
    began = ledger.now_ns()
    watch = ledger.Stopwatch(began)
    waited = [0]
    watch.waited = lambda: waited[0]
    watch.lap("begin")
    while ledger.now_ns() - began < 2_000_000:
        waited[0] = 1_000_000
    watch.lap("ship")
    watch.watched()
    assert watch.spent["connect"] == 1_000_000
    assert 2_000_000 <= sum(watch.spent.values()) <= ledger.now_ns() - began


def test_a_process_knows_when_it_was_started() -> None:
    assert 0 < ledger.now_ns() - ledger.since_start_ns() < 86_400 * S
