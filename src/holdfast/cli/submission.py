"""The output of ``holdfast submit``: run id, log, result."""

from __future__ import annotations

import sys

from holdfast.cli.show import LogWriter, watch
from holdfast.engine.submit import submit as engine
from holdfast.engine.submit.session import Session
from holdfast.errors import UsageError
from holdfast.present import ending
from holdfast.present.terminal import human_bytes, show
from holdfast.store import runs
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.dialog import TerminalDialog
    from holdfast.cli.parse import Parsed
    from holdfast.engine.connection.reconnect import Line
    from holdfast.engine.submit.prepare import Prepared
    from holdfast.ledger import Stopwatch
    from holdfast.model import Identity, Plan
    from holdfast.snapshot.snapshot import Snapshot
    from holdfast.store.home import Home


class Submission:
    """With -o or --query stdout holds the run's record and nothing else; the log then goes to stderr."""

    def __init__(
        self, parsed: Parsed, home: Home, prepared: Prepared, line: Line, stopwatch: Stopwatch, dialog: TerminalDialog
    ) -> None:
        self._parsed = parsed
        self._home = home
        self._found = prepared
        self._line = line
        self._stopwatch = stopwatch
        self._dialog = dialog
        self._for_machines = parsed.text("output") is not None or parsed.text("query") is not None
        self._log = LogWriter(sys.stderr if self._for_machines else sys.stdout)

    def run(self) -> int:
        session = Session(self._home, self._found, self._line, self._stopwatch, self._dialog, self._show_id)
        if self._parsed.flag("preflight"):
            from holdfast.cli.check_output import tell

            return tell(session.preflight(), self._parsed)
        plan, taken = session.run(skip_unreadable=self._parsed.flag("skip_unreadable"))
        for warning in taken.warnings:
            self._dialog.warn(warning)
        if self._parsed.flag("verbose"):
            self._tell_more(plan, taken)
        if self._parsed.flag("no_wait"):
            return self._leave(plan)
        self._say("Executing user inputs .....")
        gpu = plan.gpu is not None
        watch(self._home, self._line, plan.uid, plan.run_id, self._log, self._stopwatch, gpu=gpu, restart=True)
        self._say("Execution Details")
        if not self._for_machines:
            self._log.line(f"RunId: {plan.run_id}")
        code = ending.tell(self._home, plan.uid, self._emit if self._for_machines else None, self._stopwatch)
        if code == UsageError.exit_code:
            self._tell_misplaced(plan)
        return code

    def _tell_misplaced(self, plan: Plan) -> None:
        """Options of submit that were given after the script, which did not know them."""
        from holdfast.present import failure_cause

        options = {flag: option for option in self._parsed.command.options for flag in option.flags}
        unknown = failure_cause.unrecognized(runs.read(self._home, plan.uid))
        misplaced: list[str] = []
        following = [*unknown[1:], ""][: len(unknown)]  # there are none where the script ended for another reason
        for word, value in zip(unknown, following, strict=True):
            option = options.get(word.partition("=")[0])
            if option is not None:
                misplaced += [word] if option.kind == "flag" or "=" in word or not value else [word, value]
        if misplaced:
            from shlex import join, quote

            typed, script = join(misplaced), self._parsed.rest[0]
            hint = f"options of submit go before the script: holdfast submit {typed} {quote(script)}"
            sys.stderr.write(show(f"{typed} was passed to {script}; {hint}") + "\n")

    def _tell_more(self, plan: Plan, taken: Snapshot) -> None:
        stored = (
            f"{taken.files} files ({human_bytes(taken.bytes)}), {taken.new_files} new ({human_bytes(taken.new_bytes)})"
        )
        facts = {
            "project": self._found.project.root,
            "snapshot": f"{stored}, {len(taken.left_out)} excluded",
            "target": f"{plan.target} ({self._found.target.kind.name})",
            "command": " ".join(plan.argv),
            "folder": self._home.run(plan.uid),
        }
        for name, value in facts.items():
            sys.stderr.write(f"{name:<9} {show(value)}\n")

    def _leave(self, plan: Plan) -> int:
        self._line.close()
        if self._for_machines:
            self._emit({"run_id": plan.run_id, "run_number": plan.run_number, "uid": plan.uid})
        else:
            sys.stderr.write(f"submitted; holdfast logs -f -r {plan.run_number} follows its log\n")
        return 0

    def _emit(self, value: object) -> None:
        from holdfast.present.output import emit

        emit(value, **self._parsed.form())

    def _show_id(self, identity: Identity) -> None:
        if not self._for_machines:
            self._log.line(f"RunId: {identity.run_id}")

    def _say(self, heading: str) -> None:
        if not self._for_machines:
            self._log.heading(heading)


def print_plan(parsed: Parsed, fields: Prepared, dialog: TerminalDialog) -> int:
    from holdfast.present.output import emit

    home = open_home(create=False)
    plan, taken = engine.plan_only(home, fields.project, fields.job, fields.target, dialog.agree)
    for warning in taken.warnings:
        dialog.warn(warning)
    shown = {**plan.to_json(), "files": taken.files, "bytes": taken.bytes}
    emit(shown, fmt=parsed.text("output") or "json", query=parsed.text("query"))
    if dialog.refused is not None:
        raise dialog.refused
    return 0
