"""Series of attempts that resumed: nothing is lost, nothing is doubled, steps go on."""

from __future__ import annotations

from holdfast.metrics.resumed import continued
from holdfast.metrics.values import Series


def series(name: str, steps: list[int], values: list[float], *, own: bool) -> dict[str, Series]:
    return {name: Series(name, steps, [1] * len(steps), values, own)}


def test_steps_that_a_later_attempt_logged_again_replace_the_earlier_ones() -> None:
    first = series("loss", [0, 1, 2, 3], [4.0, 3.0, 2.0, 1.5], own=True)
    found = continued([first, series("loss", [2, 3, 4], [2.1, 1.6, 1.0], own=True)])["loss"]
    assert list(found.steps) == [0, 1, 2, 3, 4]
    assert list(found.values) == [4.0, 3.0, 2.1, 1.6, 1.0]


def test_counted_steps_go_on_after_the_last_one() -> None:
    first = series("loss", [0, 1], [4.0, 3.0], own=False)
    found = continued([first, series("loss", [0, 1], [2.0, 1.0], own=False)])["loss"]
    assert list(found.steps) == [0, 1, 2, 3]
    assert list(found.values) == [4.0, 3.0, 2.0, 1.0]


def test_names_of_one_attempt_alone_are_kept() -> None:
    found = continued([series("a", [0], [1.0], own=False), series("b", [7], [2.0], own=True)])
    assert (list(found["a"].values), list(found["b"].steps)) == ([1.0], [7])
