"""How a reproduced run compares with the original, as ``holdfast reproduce`` says it."""

from __future__ import annotations

from holdfast import lifecycle
from holdfast.engine.submit import reproduce
from holdfast.record import Record
from holdfast.store import history_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.submit.reproduce import Verdict
    from holdfast.model import Json
    from holdfast.store.runs import Run

_ENDINGS = {lifecycle.CANCELED: "was canceled", lifecycle.LOST: "was lost"}
_MOST_NAMES = 5


class Outcome(Record):
    """``code`` is the exit code that the new run gives ``submit``. Without verdicts the exit codes are compared."""

    run: Run
    again: Run
    code: int
    verdicts: list[Verdict]
    tolerance: float

    @property
    def is_same(self) -> bool:
        return not self.failed and all(verdict.same for verdict in self.verdicts)

    @property
    def failed(self) -> bool:
        """Whether the new run did not succeed; one without metrics may fail as the original did."""
        if self.verdicts or reproduce.exit_code(self.run) is None:
            return self.code != 0
        return reproduce.exit_code(self.again) != reproduce.exit_code(self.run)

    def document(self) -> Json:
        document: Json = {
            "run_id": self.again.request.get("run_id"),
            "reproduces": self.run.request.get("run_id"),
            "same": self.is_same,
        }
        if not self.verdicts:
            codes = [reproduce.exit_code(run) for run in (self.run, self.again)]
            files, different = reproduce.different_results(self.run, self.again)
            document.update({"exit_codes": codes, "files": files, "different_files": different})
        return document

    def message(self) -> str:
        if self.failed:
            return self._failure()
        if not self.verdicts:
            code = reproduce.exit_code(self.again)
            return f"no metric to compare; both ended with exit code {code}{self._files()}"
        limit = f"{self.tolerance * 100:g} %"
        apart = [verdict.name for verdict in self.verdicts if not verdict.same]
        return f"differ by more than {limit} in {', '.join(apart)}" if apart else f"equal within {limit}"

    def _failure(self) -> str:
        state = lifecycle.state_of(self.again.events)
        if state == lifecycle.COMPLETED:
            code = reproduce.exit_code(self.run)
            return (
                "results of the new run are missing" if not code else f"only the original failed, with exit code {code}"
            )
        reason = history_record.reason(self.again, outputs=False) or f"exit code {reproduce.exit_code(self.again)}"
        return f"the new run {_ENDINGS.get(state, 'failed')}: {reason}"

    def _files(self) -> str:
        count, different = reproduce.different_results(self.run, self.again)
        if different:
            more = f" and {len(different) - _MOST_NAMES} more" if len(different) > _MOST_NAMES else ""
            return f", but these files differ: {', '.join(different[:_MOST_NAMES])}{more}"
        return f", and their files are the same ({count})" if count else ""
