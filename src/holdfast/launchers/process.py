"""The runner as a plain detached process: no queue, no scheduler. A ticket is ``<uid>/<attempt>``."""

from __future__ import annotations

from holdfast.ports import Lacking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.ports import Channel


class ProcessLauncher:
    def start(self, channel: Channel, plan: Json, told: Json) -> str:
        answer = channel.ask("start", plan=plan, secrets=told)
        if answer.get("state") == "missing":
            raise Lacking(str(answer.get("refused") or ""))
        return f"{plan['uid']}/{plan['attempt']}"

    def look(self, channel: Channel, tickets: list[str]) -> dict[str, str]:
        states = channel.ask("look", tickets=tickets)["states"]
        return {ticket: str(state) for ticket, state in states.items()} if isinstance(states, dict) else {}

    def stop(self, channel: Channel, ticket: str, by: str) -> str:
        uid, attempt = ticket.split("/")
        return str(channel.ask("stop", uid=uid, attempt=attempt, by=by)["state"])
