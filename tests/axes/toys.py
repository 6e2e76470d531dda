"""A host, a launcher and a runtime from outside the package: one class and one row of the kinds table for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import kinds
from holdfast.hosts.local import spawn
from holdfast.kinds import Kind
from holdfast.launchers.queue import QueueLauncher
from holdfast.ports import PYTHON, PlainHost

if TYPE_CHECKING:
    from holdfast.model import Json, Login
    from holdfast.ports import RuntimeParts, Stream


class NamespaceHost(PlainHost):
    """A UTS namespace of this machine; the address is the host name that commands see there."""

    def __init__(self, login: Login) -> None:
        self._name = login.address

    def run(self, argv: tuple[str, ...]) -> Stream:
        return spawn(self.at_terminal(argv))

    def at_terminal(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        enter = ("unshare", "--uts", "--", "sh", "-c", 'name=$1; shift; hostname "$name" && exec "$@"', "sh")
        return *enter, self._name, *argv


class SpoolLauncher(QueueLauncher):
    """Jobs are files in a folder, as those of ``at`` are; another process runs them later."""

    def submit_argv(self, plan: Json) -> list[str]:
        return ["spool-submit", self._partition]

    def list_argv(self) -> list[str]:
        return ["spool-list", self._partition]

    def cancel_argv(self, job: str) -> list[str]:
        return ["spool-remove", job, self._partition]

    @property
    def _partition(self) -> str:
        return str(self.settings.get("partition") or "")


class NiceRuntime:
    """The interpreter behind other words, some of them from the target's file."""

    def __init__(self, parts: RuntimeParts) -> None:
        self._words = ("nice", "-n", "5", "env", f"TOY_TARGET={parts.settings.get('name')}", parts.python)

    def argv(self, script: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return (*self._words, f"./{script}" if script.startswith("-") else script, *arguments)

    def command(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return (*self._words, *words[1:]) if words[0] == PYTHON else (*self._words[:-1], *words)


def register() -> None:
    kinds.register(Kind("namespace", "axes.toys:NamespaceHost", kinds.PROCESS, kinds.PYTHON, is_remote=True))
    kinds.register(Kind("spool", kinds.LOCAL_HOST, "axes.toys:SpoolLauncher", kinds.PYTHON, settings=("partition",)))
    kinds.register(Kind("nice", kinds.LOCAL_HOST, kinds.PROCESS, "axes.toys:NiceRuntime"))
