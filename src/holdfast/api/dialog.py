"""A program in the place of a person during a submit: questions are errors, warnings are logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.api.progress import Progress
from holdfast.engine.submit import confirmation
from holdfast.engine.submit.prepare import LARGE
from holdfast.errors import UsageError
from holdfast.present.terminal import human_bytes, human_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.amlconfig.types import Finding
    from holdfast.api.progress import OnProgress
    from holdfast.environments.choice import Choice
    from holdfast.errors import UnreachableError
    from holdfast.model import Json
    from holdfast.snapshot.snapshot import Pending
    from holdfast.target_lookup import Chosen

_log = logging.getLogger("holdfast")


def warn(message: str) -> None:
    """What the command line prints as a warning goes to the logger ``holdfast``."""
    _log.warning("%s", message)


class ProgramDialog:
    """Implements ``engine.submit.prepare.Dialog``. ``large``: more than a gigabyte of new files may be stored."""

    def __init__(self, on_progress: OnProgress | None, *, large: bool = False) -> None:
        self._on_progress = on_progress
        self._large = large
        self._is_shown = False

    def confirm(self, home: str, root: str, chosen: Chosen) -> None:
        missing = confirmation.look(home, root, chosen)
        if missing is not None:
            raise confirmation.refusal(home, missing)

    def secret(self, name: str) -> str:
        raise UsageError(f"the secret {name} is not set in this process", hint=f"set it in os.environ[{name!r}]")

    def agree(self, pending: Pending) -> None:
        if pending.new_bytes > LARGE and not self._large:
            rows = "\n".join(f"{human_bytes(size):>10}  {path}" for path, size in pending.largest())
            what = f"{human_bytes(pending.new_bytes)} of new files would be stored; nothing was done"
            raise UsageError(what, answer=rows, hint="links=[...] links a folder instead; large=True stores it")

    def warn(self, message: str) -> None:
        warn(message)

    def findings(self, findings: Sequence[Finding]) -> None:
        from holdfast.amlconfig import render

        warn(render(findings).rstrip())

    def environment(self, chosen: Choice) -> None:
        _log.info("%s", chosen.line)

    def starting(self, target: str, waited: float) -> None:
        self._tell(Progress("starting", waited, None, f"starting {target}: {human_duration(waited)}"))

    def storing(self, files: int, size: int) -> None:
        self._tell(Progress("storing", size, None, f"storing the project: {files} files, {human_bytes(size)}"))

    def sending(self, target: str, done: int, total: int) -> None:
        text = f"sending to {target}: {human_bytes(done)} of {human_bytes(total)}"
        self._tell(Progress("sending", done, total, text))

    def preparing(self, progress: Json) -> None:
        done, total = (value if isinstance(value := progress.get(key), int) else None for key in ("done", "total"))
        text = f"{progress.get('phase')} {progress.get('name') or ''}".rstrip()
        self._tell(Progress("preparing", done or 0, total, text))

    def quiet(self) -> None:
        """Let a bar disappear."""
        if self._is_shown:
            self._tell(Progress("", 0, None, ""))
            self._is_shown = False

    def lost(self, error: UnreachableError) -> None:
        warn(f"{error.where or 'the target'} is unreachable ({error.answer or error.what}); retrying")

    def back(self) -> None:
        _log.info("the target is reachable again")

    def _tell(self, progress: Progress) -> None:
        self._is_shown = True
        if self._on_progress is not None:
            self._on_progress(progress)
