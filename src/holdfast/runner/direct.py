"""The script as a child of the supervisor itself."""

import os

from . import child, kill, prepare

MYPY = False
if MYPY:
    from .supervise import Supervisor


class Direct:
    def __init__(self, supervisor: "Supervisor") -> "None":
        self._run = supervisor

    def start(
        self, asked: "dict[bytes, bytes]", environment: "dict[str, object]"
    ) -> "tuple[int, int, dict[str, object]]":
        run = self._run
        ours = prepare.merged(prepare.variables(run.home, run.runner, run.attempt, run.plan, environment))
        argv = [word.encode("utf-8", "surrogateescape") for word in run.plan["argv"]]  # type: ignore[attr-defined]
        env = child.environment(dict(os.environb), asked, ours)
        env.update(run.gpu.variables())
        work = os.path.join(run.attempt, b"work")
        if run.gpu.wants:
            from . import gpu_check

            run.gpu.check(run.events, gpu_check.here(argv[0], env, work))
        pid, output = child.spawn(argv, env, work, run.umask)
        return pid, output, {}

    def tell(self, _pid: "int", number: "int") -> "None":
        kill.tell(kill.family(os.getpid(), str(self._run.plan["uid"])), number)

    def end(self) -> "dict[int, int]":
        return kill.end_family(str(self._run.plan["uid"]))

    def goes_on(self) -> "int":
        return 0

    def tidy(self) -> "None":
        """Nothing is left."""

    def verdict(self, status: "int") -> "dict[str, object]":
        return {"code": -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), "reason": ""}
