"""The person at the browser during a submit: questions are errors that say what to do, warnings are collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.submit import confirmation
from holdfast.engine.submit.prepare import LARGE
from holdfast.errors import UsageError
from holdfast.present.terminal import human_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.amlconfig.types import Finding
    from holdfast.environments.choice import Choice
    from holdfast.model import Json
    from holdfast.snapshot.snapshot import Pending
    from holdfast.target_lookup import Chosen


class PageDialog:
    """Implements ``engine.submit.prepare.Dialog``."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def confirm(self, home: str, root: str, chosen: Chosen) -> None:
        missing = confirmation.look(home, root, chosen)
        if missing is not None:
            raise confirmation.refusal(home, missing)

    def secret(self, name: str) -> str:
        raise UsageError(f"the secret {name} is not set", hint=f"start holdfast ui with {name} in its environment")

    def agree(self, pending: Pending) -> None:
        if pending.new_bytes > LARGE:
            rows = "\n".join(f"{human_bytes(size):>10}  {path}" for path, size in pending.largest())
            what = f"{human_bytes(pending.new_bytes)} of new files would be stored; nothing was done"
            raise UsageError(what, answer=rows, hint="holdfast submit asks before it stores so much")

    def warn(self, message: str) -> None:
        self.notes.append(message)

    def findings(self, findings: Sequence[Finding]) -> None:
        from holdfast.amlconfig.findings import render

        self.notes.append(render(findings).rstrip())

    def environment(self, chosen: Choice) -> None:
        self.notes.append(chosen.line)

    def starting(self, target: str, waited: float) -> None:
        """The page waits for its answer."""

    def storing(self, files: int, size: int) -> None:
        """The page waits for its answer."""

    def sending(self, target: str, done: int, total: int) -> None:
        """The page waits for its answer."""

    def preparing(self, progress: Json) -> None:
        """The page waits for its answer."""

    def quiet(self) -> None:
        """The page waits for its answer."""

    def lost(self, _error: object) -> None:
        """The connection is opened again by itself."""

    def back(self) -> None:
        """The connection is there again."""
