"""The script's process when it runs directly on the host, as a child of the supervisor."""

import os

from ..decoding import as_bytes
from ..store import layout
from . import process_tree, script_process, workdir

MYPY = False
if MYPY:
    from .supervisor import Supervisor


class Direct:
    def __init__(self, supervisor: "Supervisor") -> "None":
        self._run = supervisor

    def start(
        self, requested: "dict[bytes, bytes]", environment: "dict[str, object]"
    ) -> "tuple[int, int, dict[str, object]]":
        run = self._run
        ours = workdir.merged(workdir.variables(run.home, run.runner, run.attempt, run.plan, environment))
        argv = [as_bytes(word) for word in run.plan.argv]
        env = script_process.environment(dict(os.environb), requested, ours)
        env.update(run.gpu.variables())
        work = layout.work(run.attempt)
        if run.gpu.wants:
            from ..gpu import probe_run

            run.gpu.check(run.events, probe_run.here(as_bytes(run.plan.python), env, work))
        run.packages.prepare(as_bytes(run.plan.python), env)
        pid, output = script_process.spawn(argv, env, work, run.umask)
        return pid, output, {}

    def tell(self, _pid: "int", number: "int") -> "None":
        process_tree.tell(process_tree.family(os.getpid(), self._run.plan.uid), number)

    def end(self) -> "dict[int, int]":
        return process_tree.end_family(self._run.plan.uid)

    def goes_on(self) -> "int":
        return 0

    def tidy(self) -> "None":
        """Nothing is left."""

    def verdict(self, status: "int") -> "dict[str, object]":
        return {"code": -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), "reason": ""}
