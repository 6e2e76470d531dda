"""A launcher that believes what a target answers, as ours did: the bug that the oracle has to find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.launchers.process import ProcessLauncher

if TYPE_CHECKING:
    from holdfast.ports import Channel


class CredulousLauncher(ProcessLauncher):
    def look(self, channel: Channel, tickets: list[str]) -> dict[str, str]:
        states: Any = channel.ask("look", tickets=tickets)["states"]
        return {ticket: states[ticket].lower() for ticket in tickets}
