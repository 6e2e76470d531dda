"""What ``attach`` says of the clients of a target."""

from __future__ import annotations

import pytest

from holdfast.cli.commands.attach import clients_text


@pytest.mark.parametrize(
    ("others", "text"), [(0, "no other client uses"), (1, "1 other client uses"), (2, "2 other clients use")]
)
def test_number_of_other_clients_agrees_with_the_verb(others: int, text: str) -> None:
    assert clients_text(others) == f"{text} the store there"
