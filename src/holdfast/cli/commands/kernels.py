"""``holdfast kernel install``, ``list``, ``remove``, and ``kernel run``, which Jupyter starts."""

from __future__ import annotations

import os
import signal
import sys

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.cli.confirm import choose
from holdfast.engine.notebooks import kernelspec
from holdfast.errors import HoldfastError, UsageError
from holdfast.planning import seconds
from holdfast.present.output import emit
from holdfast.present.terminal import show
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.cli.parse import Parsed
    from holdfast.engine.connection.reconnect import Line
    from holdfast.engine.notebooks.cell_records import Notebook
    from holdfast.engine.notebooks.kernel_guard import Guard
    from holdfast.engine.notebooks.kernel_session import Connection, KernelSession
    from holdfast.engine.submit.prepare import Order
    from holdfast.model import Project
    from holdfast.store.home import Home
    from holdfast.target_lookup import Target

_OPTIONS = {
    "environment": "--env",
    "python": "--python",
    "gpus": "--gpus",
    "wait_for_gpu": "--wait-for-gpu",
    "client_time": "--client-time",
    "idle": "--idle-time",
}


def install(parsed: Parsed) -> int:
    home = open_home()
    project = projects.remember(projects.find(parsed.text("project") or os.getcwd()))
    config = parsed.text("config")
    names = [config] if config else target_lookup.configurations(target_lookup.folders(project.root, home.path))
    if parsed.text("name") and len(names) > 1:
        raise UsageError("--name names one kernel", hint="choose a run configuration with -c")
    _check_options(parsed)
    options = [word for key, option in _OPTIONS.items() if (text := parsed.text(key)) for word in (option, text)]
    for name in names:
        choose(home.path, project.root, name)
        kernel = kernelspec.install(project, name, parsed.text("name"), options)
        sys.stdout.write(f"{show(kernel.name)}\n")
        sys.stderr.write(f"installed in {show(kernel.path)}; Jupyter shows it as {show(kernel.display_name)}\n")
    return 0


def list_kernels(parsed: Parsed) -> int:
    emit([kernel._asdict() for kernel in kernelspec.kernels()], **parsed.form())
    return 0


def remove(parsed: Parsed) -> int:
    for name in parsed.texts("names"):
        kernel = kernelspec.remove(name)
        sys.stderr.write(f"removed {show(kernel.path)}\n")
    return 0


def run(parsed: Parsed) -> int:
    """For as long as the kernel lives. An error is shown in the notebook, if ipykernel is here to do that.

    If a kernel ends that was in use, so does this process, and Jupyter starts it again: it then tells the reason.
    """
    from holdfast.engine.notebooks import error_kernel
    from holdfast.engine.notebooks.kernel_guard import Guard

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal of Jupyter is not meant for the kernel
    guard = Guard()
    signal.signal(signal.SIGTERM, guard.stop)
    path = parsed.text("file") or ""
    message = error_kernel.take_note(path)
    try:
        if not message:
            _serve(parsed, path, guard)
            return 0
    except HoldfastError as error:
        message = _explained(error, guard.uid)
        guard.cancel()
        if guard.has_served:
            error_kernel.leave_note(path, message)
        if guard.has_served or not error_kernel.is_available():
            raise
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    error_kernel.serve(path, message)
    return 0


def _serve(parsed: Parsed, path: str, guard: Guard) -> None:
    from holdfast.engine.notebooks import kernel_session

    parent = os.getppid()
    connection = kernel_session.read_connection(path)
    sockets = kernel_session.listeners(connection)
    try:
        session = _start(parsed, connection, guard)
        try:
            session.serve(sockets, _open_line, lambda: not guard.is_stopped and os.getppid() == parent)
        finally:
            guard.has_served = session.has_started
            if session.has_ended:
                guard.dismiss()  # else it cancels the run when this process has ended
    finally:
        for listener in sockets:
            listener.close()


def _check_options(parsed: Parsed) -> None:
    """The kernel would refuse them in a notebook, far from where they were typed."""
    from holdfast.engine.submit.gpu_request import check_typed

    _times(parsed)
    check_typed(parsed.text("gpus"), parsed.text("wait_for_gpu"))
    environment = parsed.text("environment")
    if environment and environment not in ("project", "active", "none"):
        raise UsageError(f"--env {environment} names no environment", hint="one of project, active and none")


def _start(parsed: Parsed, connection: Connection, guard: Guard) -> KernelSession:
    """Submit the run of the kernel, as ``holdfast submit`` does."""
    from holdfast.cli.dialog import TerminalDialog
    from holdfast.engine.notebooks.cell_records import Notebook
    from holdfast.engine.notebooks.kernel_session import KernelSession
    from holdfast.engine.submit.prepare import prepare, reach
    from holdfast.engine.submit.session import Session
    from holdfast.ledger import Stopwatch, since_start_ns

    token = os.urandom(8).hex()
    dialog, stopwatch, home = TerminalDialog(), Stopwatch(since_start_ns()), open_home()
    prepared = prepare(_order(parsed, token), dialog, os.environ)
    stopwatch.lap("begin")
    line = reach(home, prepared, lambda: _open_line(home, prepared.target), dialog)
    try:
        stopwatch.lap("connect")
        stopwatch.waited = lambda: line.waited_ns
        session = Session(home, prepared, line, stopwatch, dialog, lambda identity: guard.watch(identity.uid))
        plan, _ = session.run()
    finally:
        line.close()
    sys.stderr.write(f"RunId: {plan.run_id}\n")
    sys.stderr.flush()
    script = os.path.basename(os.environ.get("JPY_SESSION_NAME", "")) or "notebook"
    notebook = Notebook(script, plan.target, prepared.job.config, plan.run_id)
    return KernelSession(home, plan.uid, token, connection, _keeper_of_cells(home, session.project, notebook))


def _keeper_of_cells(home: Home, project: Project, notebook: Notebook) -> Callable[[dict[str, Any]], None]:
    """Adds the records that the target sends to the history, within a budget; says once that it is used up."""
    from holdfast.engine.notebooks import cell_records

    budget = cell_records.Budget()
    is_told = False

    def keep(record: dict[str, Any]) -> None:
        nonlocal is_told
        try:
            cell = cell_records.read(notebook.target, record)
            if budget.take(cell):
                cell_records.add(home, project, notebook, cell)
            elif not is_told:
                is_told = True
                sys.stderr.write(f"{show(notebook.target)} sent too many records of cells; no more of them are kept\n")
        except HoldfastError as error:
            sys.stderr.write(f"{show(str(error))}\n")

    return keep


def _order(parsed: Parsed, token: str) -> Order:
    from holdfast.engine.notebooks.kernel_session import command
    from holdfast.engine.submit.job import Asked
    from holdfast.engine.submit.prepare import Order
    from holdfast.ports import PYTHON

    request = Asked(
        words=("kernel",),
        folder=os.path.abspath(parsed.text("project") or os.getcwd()),
        gpus=parsed.text("gpus"),
        wait_for_gpu=parsed.text("wait_for_gpu"),
        command=(PYTHON, *command(token, *_times(parsed))),
    )
    return Order(request, parsed.text("config"), None, parsed.text("environment"), parsed.text("python"))


def _times(parsed: Parsed) -> tuple[float, float]:
    """How long the kernel waits for the client, and for the next cell."""
    idle = parsed.text("idle") or "24h"
    client_s = seconds(parsed.text("client_time") or "12h", "--client-time")
    return client_s, 0.0 if idle == "0" else seconds(idle, "--idle-time")


def _open_line(home: Home, target: Target, **options: Any) -> Line:
    from holdfast.cli.reach import Notice, tell_quiet
    from holdfast.engine.connection.reconnect import Line

    notice = Notice(target.name)
    return Line(home, target, notice.lost, notice.back, on_quiet=tell_quiet, **options)


def _explained(error: HoldfastError, uid: str) -> str:
    """The error, with the command that adds a missing package, or else the end of the log."""
    from holdfast.present import error_text, missing_module
    from holdfast.runner.decoding import readable
    from holdfast.runner.store import layout
    from holdfast.store import runs

    text = "\n  ".join(error_text.lines(error))
    if not uid:
        return text
    run = runs.read(open_home(), uid)
    try:
        with open(layout.log(run.attempt), "rb") as source:
            last = source.read()[-4000:]
    except FileNotFoundError:
        last = b""
    return f"{text}\n{missing_module.explain(run, last) or readable(last)}".rstrip()
