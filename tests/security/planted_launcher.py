"""Launchers with bugs that the oracle has to find: one believes what a target answers, one leaves a file open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.launchers.process import ProcessLauncher

if TYPE_CHECKING:
    from holdfast.ports import Channel


class CredulousLauncher(ProcessLauncher):
    def look(self, channel: Channel, tickets: list[str]) -> dict[str, str]:
        states: Any = channel.ask("look", tickets=tickets)["states"]
        return {ticket: states[ticket].lower() for ticket in tickets}


class LeakingLauncher(ProcessLauncher):
    def look(self, channel: Channel, tickets: list[str]) -> dict[str, str]:
        os.dup(0)
        return super().look(channel, tickets)
