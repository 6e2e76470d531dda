"""Starts the runner as a detached process, without a queue or scheduler. A ticket is ``<uid>/<attempt>``."""

from __future__ import annotations

from holdfast import answers
from holdfast.ports import Lacking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.model import Json
    from holdfast.ports import Channel

_STATES = ("queued", "alive", "gone", "closed", "absent", "elsewhere")


class ProcessLauncher:
    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self.settings = settings or {}

    def start(self, channel: Channel, plan: Json, secrets: Json) -> str:
        answer = channel.ask("start", plan=plan, secrets=secrets)
        if answers.text(answer, "state") == "missing":
            raise Lacking(answers.optional_text(answer, "refused"))
        return f"{plan['uid']}/{plan['attempt']}"

    def look(self, channel: Channel, tickets: list[str]) -> dict[str, str]:
        states = answers.table(channel.ask("look", tickets=tickets), "states")
        return {ticket: _known(answers.text(states, ticket)) for ticket in tickets}

    def stop(self, channel: Channel, ticket: str, by: str) -> str:
        return answers.text(channel.ask("stop", by=by, **_named(ticket)), "state")

    def bury(self, channel: Channel, ticket: str) -> str:
        return answers.text(channel.ask("bury", **_named(ticket)), "state")

    def discard(self, channel: Channel, ticket: str, reason: str, outcome: str) -> str:
        return answers.text(channel.ask("discard", reason=reason, outcome=outcome, **_named(ticket)), "state")


def _named(ticket: str) -> dict[str, str]:
    """The attempt of a ticket, for the verbs of the runner."""
    uid, attempt = ticket.split("/")[:2]
    return {"uid": uid, "attempt": attempt}


def _known(state: str) -> str:
    if state not in _STATES:
        raise answers.malformed("states", state, f"one of {', '.join(_STATES)}")
    return state
