"""A launcher over a batch queue or spooler: what every such launcher does, given the names of the queue's commands.

To add one, write a module with a subclass that names three commands, and a row in the kinds table. A ticket is
``<uid>/<attempt>/<job>``. A ticket without a job, of a start whose answer was lost, is completed on the target.
"""

from __future__ import annotations

from holdfast import answers
from holdfast.errors import ConfigError, RunnerError
from holdfast.launchers.process import ProcessLauncher
from holdfast.ports import Lacking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.ports import Channel


class QueueLauncher(ProcessLauncher):
    """``self.settings`` has the values of the ``.compute`` file, such as a partition.

    A key that the row of the kinds table names in ``settings`` is there under its own name.
    """

    def submit_argv(self, plan: Json) -> list[str]:
        """The command that reads a job (a shell script) on standard input and prints the job's name, one word."""
        raise NotImplementedError

    def list_argv(self) -> list[str]:
        """The command that prints the names of all jobs that wait or run, with white space between them."""
        raise NotImplementedError

    def cancel_argv(self, job: str) -> list[str]:
        """The command that takes a job out of the queue."""
        raise NotImplementedError

    def start(self, channel: Channel, plan: Json, secrets: Json) -> str:
        answer = channel.ask("queue", plan=plan, secrets=secrets, argv=self.submit_argv(plan))
        state = answers.text(answer, "state")
        if state == "missing":
            raise Lacking(answers.optional_text(answer, "refused"))
        if state == "refused":
            what, hint = "the target's queue did not accept the job", "check the settings of its .compute file"
            why = answers.optional_text(answer, "refused")
            raise ConfigError(what, where=str(plan["target"]), answer=why, hint=hint)
        job = answers.optional_text(answer, "job")
        return f"{plan['uid']}/{plan['attempt']}/{job}" if job else f"{plan['uid']}/{plan['attempt']}"

    def look(self, channel: Channel, tickets: list[str]) -> dict[str, str]:
        jobs = self._jobs(channel, tickets)
        listed = self._listed(channel) if any(jobs.values()) else set()
        # Only now: a job that has left the queue has written its end by then.
        states = super().look(channel, tickets)
        return {ticket: _judged(states[ticket], jobs[ticket], jobs[ticket] in listed) for ticket in tickets}

    def stop(self, channel: Channel, ticket: str, by: str) -> str:
        state = super().stop(channel, ticket, by)
        job = self._jobs(channel, [ticket])[ticket]
        if state == "ended" and job:
            channel.ask("command", argv=self.cancel_argv(job))
        return "asked" if state == "elsewhere" else state

    def bury(self, channel: Channel, ticket: str) -> str:
        uid, attempt, _ = _parts(ticket)
        return answers.text(channel.ask("bury", uid=uid, attempt=attempt, gone=True), "state")

    def _jobs(self, channel: Channel, tickets: list[str]) -> dict[str, str]:
        jobs = {ticket: _parts(ticket)[2] for ticket in tickets}
        unknown = [ticket for ticket in tickets if not jobs[ticket]]
        if unknown:
            noted = answers.table(channel.ask("look", tickets=unknown), "jobs")
            jobs.update({ticket: answers.optional_text(noted, ticket) for ticket in unknown})
        return jobs

    def _listed(self, channel: Channel) -> set[str]:
        """The jobs in the queue; an error where its list command fails, as no state follows from that."""
        argv = self.list_argv()
        answer = channel.ask("command", argv=argv)
        code = answers.number(answer, "code")
        if code:
            what = f"{argv[0]} on the target failed, so that it is not known which jobs there are"
            raise RunnerError(what, answer=f"exit code {code}: {answers.optional_text(answer, 'err')}")
        return set(answers.text(answer, "out").split())


def _judged(state: str, job: str, is_listed: bool) -> str:
    """What the files say, corrected by what the queue says."""
    if state == "queued" and not job:
        return "absent"  # the command that was to hand it over was cut off
    if state in ("queued", "elsewhere", "gone") and not is_listed:
        return "gone"
    return "alive" if state in ("elsewhere", "gone") else state


def _parts(ticket: str) -> tuple[str, str, str]:
    uid, attempt, job = [*ticket.split("/", 2), ""][:3]
    return uid, attempt, job
