"""The runner's names of signals are those of the standard library, which it does not import."""

from __future__ import annotations

import signal

from holdfast.runner import signals


def test_names_are_those_of_the_standard_library() -> None:
    assert signals.names() == {int(member): member.name for member in signal.Signals}


def test_number_with_two_names_has_the_first() -> None:
    assert signals.names()[signal.SIGABRT] == "SIGABRT"  # and not SIGIOT
