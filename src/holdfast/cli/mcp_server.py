"""The MCP server for AI agents, over stdin and stdout.

Every tool runs one of our commands in a process of its own, so nothing that a command prints can get into the
conversation. Tools see the runs of one project only: a run is looked up here, within the project, and the command gets
its uid. Secrets and variables cannot be passed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from holdfast import project as projects
from holdfast._version import __version__
from holdfast.engine.runs import agent_budget
from holdfast.errors import HoldfastError
from holdfast.model import Project
from holdfast.planning import seconds
from holdfast.runner import untrusted
from holdfast.runner.decoding import readable
from holdfast.store.home import open_home
from holdfast.store.index.index import Index

_LONGEST = 60_000  # characters of an answer: the reader pays for each
_MOST_RUNS = 200
_PATIENCE_S = 600
_INSTRUCTIONS = """Runs training scripts on machines and records the results. A run is given by its number, its id, or
'last'. submit returns at once: poll with run_info and logs. GPU use is limited by the user; see budget."""
# -m and -c look for modules in the current folder first, which is the project's; nothing of it may run here.
_OURSELVES = "import sys; del sys.path[0]; from holdfast.__main__ import main; main()"
_LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
_ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)


def serve(project: str) -> None:
    server = MCPServer("holdfast", instructions=_INSTRUCTIONS, version=__version__, log_level="ERROR")
    tools = Tools(project)
    for tool in (tools.list_runs, tools.run_info, tools.compare_runs, tools.logs, tools.budget):
        server.tool(annotations=_LOOKS)(tool)
    server.tool(annotations=_ACTS)(tools.submit)
    server.tool(annotations=_ENDS)(tools.cancel)
    server.run("stdio")


class Tools:
    def __init__(self, root: str) -> None:
        self._root = root
        self._project_id = ""  # of a folder that has an identity; it must not change while we serve
        self._find_project()

    def list_runs(self, where: str = "", sort: str = "", limit: int = 20) -> dict[str, Any]:
        """Runs of the project, newest first. where: "accuracy > 0.9 and target = 'lab1'"; sort: "-accuracy"."""
        self._find_project()
        options = ["--limit", str(max(1, min(limit, _MOST_RUNS)))]
        options += [f"--where={where}"] if where else []
        options += [f"--sort={sort}"] if sort else []
        return {"runs": self._json("history", "list", *options)}

    def run_info(self, run: str = "last") -> dict[str, Any]:
        """All that is known of a run: status, metrics, exit code and reason, outputs, what it did with its GPUs."""
        record: dict[str, Any] = self._json("history", "info", f"--run={self._uid(run)}")
        return record

    def compare_runs(self, runs: list[str]) -> dict[str, Any]:
        """What differs between runs: parameters, metrics, environment, code, outputs, GPU receipts."""
        comparison: dict[str, Any] = self._json("history", "compare", *(f"--run={self._uid(run)}" for run in runs))
        return comparison

    def logs(self, run: str = "last", lines: int = 100) -> str:
        """The last lines of what a run has printed so far."""
        return self._output_of("logs", f"--run={self._uid(run)}", "--tail", str(max(1, min(lines, 2000))))[-_LONGEST:]

    def budget(self) -> dict[str, float]:
        """GPU-hours that may be spent in any 24 hours: allowed by the user, spent, left."""
        budget = agent_budget.look(open_home())
        return {"allowed": budget.allowed, "spent": round(budget.spent, 4), "left": round(budget.left, 4)}

    def submit(
        self, script: str, config: str = "local", arguments: list[str] | None = None, gpus: int = 0, timeout: str = "1h"
    ) -> dict[str, Any]:
        """Start a script of the project on a target and return its id at once. After timeout (30m, 4h) it is ended.

        Without gpus it sees none. With gpus it takes that many alone, and gpus x timeout must be within the budget.
        """
        self._find_project()
        try:
            untrusted.component(config)  # a name, not a path to the configuration of another project
            home, length = open_home(), seconds(timeout, "timeout")
            name = agent_budget.reserve(home, max(0, gpus), length)
        except HoldfastError as error:
            raise ToolError(_message(error)) from error
        except untrusted.Untrusted as error:
            raise ToolError(f"config: {error}") from error
        options = [f"-c={config}", "--no-wait", "--gpus", str(max(0, gpus)), f"--timeout={length:.0f}s"]
        # The script may wait for its cards; what it waits is not what it takes, but it must not wait for ever.
        options += [f"--wait-for-gpu={timeout}"] if gpus > 0 else []
        uid = None
        try:
            named = script if script.endswith(".py") else f"./{script}"  # a file of the project, never a program
            answer: dict[str, Any] = self._json("submit", *options, "--", named, *(arguments or []))
            uid = str(answer["uid"])
        finally:
            agent_budget.settle(home, name, uid)
        return answer

    def cancel(self, run: str) -> str:
        """End a run: its processes get SIGTERM now and SIGKILL after its grace time."""
        return self._output_of("cancel", f"--run={self._uid(run)}")

    def _find_project(self) -> Project:
        """The project that this server was started in. Its folder may get an identity, and then keeps it."""
        try:
            project = projects.find(self._root)
        except HoldfastError as error:
            raise ToolError(_message(error)) from error
        if project.root != self._root or self._project_id not in ("", project.id):
            raise ToolError("the project in this folder changed since the server was started; restart it")
        if not project.is_new:
            self._project_id = project.id
        return project

    def _uid(self, named: str) -> str:
        """The uid of a run of this project; the runs of other projects are not found."""
        project = self._find_project()
        try:
            index = Index(open_home())
            try:
                return index.find(project.id, named, any_project=False)
            finally:
                index.close()
        except HoldfastError as error:
            raise ToolError(_message(error)) from error

    def _json(self, *argv: str) -> Any:
        text = self._output_of(argv[0], *_formatted(argv))
        if len(text) > _LONGEST:
            raise ToolError(f"the result has {len(text)} characters, the limit is {_LONGEST}; request less")
        return json.loads(text)

    def _output_of(self, *argv: str) -> str:
        """What a command printed; a refusal becomes the tool's error, with the message that a terminal would show."""
        done = subprocess.run(
            [sys.executable, "-c", _OURSELVES, *argv],
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
        if done.returncode:
            raise ToolError(readable(done.stderr).strip()[-4000:] or f"exit code {done.returncode}")
        return readable(done.stdout) or readable(done.stderr).strip()


def _formatted(argv: tuple[str, ...]) -> list[str]:
    """The rest of a command's words with the format before whatever belongs to a script."""
    rest = list(argv[1:])
    at = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:at], "-o", "json", *rest[at:]]


def _message(error: HoldfastError) -> str:
    return "\n".join(part for part in (str(error), error.answer, error.hint) if part)
