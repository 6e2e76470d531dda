"""The person at the terminal during a submit: questions, warnings and progress on stderr."""

from __future__ import annotations

import sys

from holdfast.errors import UsageError
from holdfast.present.terminal import Progress, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.amlconfig.types import Finding
    from holdfast.environments.choice import Choice
    from holdfast.errors import HoldfastError
    from holdfast.model import Json
    from holdfast.snapshot.snapshot import Pending
    from holdfast.target_lookup import Chosen

_LINK = "use --data for a folder of data, --link to link a folder instead of copying it, or --yes"


class TerminalDialog:
    """Implements ``engine.submit.prepare.Dialog``. ``sure``: --yes was given.

    ``dry_run``: nothing will be used, so that nothing is asked; ``refused`` is why a submit would be refused.
    """

    def __init__(self, *, sure: bool = False, dry_run: bool = False) -> None:
        self._sure = sure
        self._dry_run = dry_run
        self._progress = Progress(sys.stderr)
        self.refused: HoldfastError | None = None

    def confirm(self, home: str, root: str, chosen: Chosen) -> None:
        if not self._dry_run:
            from holdfast.cli.confirm import confirm

            confirm(home, root, chosen)
            return
        from holdfast.engine.submit import confirmation

        pending = confirmation.look(home, root, chosen)
        self.refused = None if pending is None else confirmation.refusal(home, pending)

    def secret(self, name: str) -> str:
        if not sys.stdin.isatty():
            raise UsageError(
                f"--secret {name}: {name} is not set in this shell",
                hint=f"export {name}, or run at a terminal to be prompted",
            )
        from getpass import getpass

        return getpass(f"{name}: ")

    def agree(self, pending: Pending) -> None:
        from holdfast.cli.confirm import agree_to_store

        agree_to_store(pending, _LINK, sure=self._sure)

    def warn(self, message: str) -> None:
        sys.stderr.write(f"WARNING: {show(message)}\n")

    def findings(self, findings: Sequence[Finding]) -> None:
        from holdfast.amlconfig import render

        sys.stderr.write(render(findings))

    def environment(self, chosen: Choice) -> None:
        sys.stderr.write(f"{show(chosen.line)}\n")

    def project(self, root: str) -> None:
        """Of a command that was given in a folder below."""
        sys.stderr.write(f"project: {show(root)}, found above this folder; the run starts there\n")

    def starting(self, target: str, waited: float) -> None:
        from holdfast.present.terminal import human_duration

        so_far = f": no response yet, {human_duration(waited)}" if waited else ""
        self._progress.update(f"starting {target}{so_far}")

    def storing(self, files: int, size: int) -> None:
        from holdfast.present.terminal import human_bytes

        self._progress.update(f"storing the project: {files} files, {human_bytes(size)}")

    def sending(self, target: str, done: int, total: int) -> None:
        from holdfast.present.terminal import human_bytes

        self._progress.update(f"sending to {target}: {human_bytes(done)} of {human_bytes(total)}")

    def preparing(self, progress: Json) -> None:
        self._progress.update(preparing_text(progress))

    def quiet(self) -> None:
        self._progress.clear()


def preparing_text(progress: Json) -> str:
    """How far an environment or an image is, in one line."""
    total = progress.get("total")
    count = f" {progress.get('done')}/{total}" if total else ""
    what = "" if progress.get("phase") == "image" else f"environment: {progress.get('phase')}"
    return f"{what}{count} {show(str(progress.get('name') or ''))}"
