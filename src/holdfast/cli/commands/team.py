"""``holdfast history push`` and ``holdfast history pull``"""

from __future__ import annotations

import contextlib
import os
import sys

from holdfast import project as projects
from holdfast.cli import pick
from holdfast.cli.commands.exchange import counted, show_skipped
from holdfast.errors import StoreError, UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import Progress, human_bytes, show
from holdfast.store.home import open_home
from holdfast.store.index.index import Index
from holdfast.store.shared import local_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import ExitStack

    from holdfast.cli.parse import Parsed
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.shared.shared_folder import SharedFolder

_SHOWN = 10


def push(parsed: Parsed) -> int:
    from holdfast.engine.transfer import push_history

    named = parsed.text("folder") or ""
    home, project, index = pick.here(parsed, create=True)
    with contextlib.ExitStack() as stack:
        stack.callback(index.close)
        folder = opened(stack, home, named, parsed.text("project"), create=True)
        rows = index.of_store() if parsed.flag("all") else index.of_project(project.id)
        uids = [str(row["uid"]) for row in rows]
        pick.settle(home, index, uids)
        progress = stack.enter_context(Progress(sys.stderr))

        def on_bytes(done: int, total: int, size: int) -> None:
            progress.update(f"writing run {done + 1} of {total}, {human_bytes(size)}")

        result = push_history.push(home, uids, folder, on_bytes)
    labels = f", {counted(result.labels, 'label')}" if result.labels else ""
    known = f"{result.present} already there"
    message = f"{counted(len(result.new), 'run')} pushed to {named} ({human_bytes(result.bytes)}){labels}, {known}"
    _tell(parsed, result._asdict(), message, result.left_out)
    for run_id in result.open[:_SHOWN]:
        sys.stderr.write(f"not ended, left for the next push: {show(run_id)}\n")
    return StoreError.exit_code if result.left_out else 0


def opened(stack: ExitStack, home: Home, named: str, project: str | None, *, create: bool = False) -> SharedFolder:
    """A folder of this machine, or ``gpu1:FOLDER`` on a target of a project; ``stack`` closes the connection."""
    from holdfast.engine.transfer import target_folder

    on_target = target_folder.split(named)
    if on_target is None:
        return local_folder.opened(named, home, create=create)
    from holdfast import target_lookup
    from holdfast.cli.confirm import choose
    from holdfast.cli.reach import tell_quiet
    from holdfast.engine.connection.channel import WORKING, connect

    name, path = on_target
    root = projects.find(project or os.getcwd()).root
    target = target_lookup.resolve(choose(home.path, root, name).compute, home.path)
    channel = connect(home, target, WORKING, tell_quiet)
    stack.callback(channel.close)
    return stack.enter_context(target_folder.TargetFolder(home, channel, name, path, create=create))


def pull(parsed: Parsed) -> int:
    named, config = parsed.text("folder"), parsed.text("config")
    if (named is None) == (config is None):
        hint = "holdfast history pull /mnt/team/history, or holdfast history pull -c gpu1"
        raise UsageError("name either a folder or, with -c, a target", hint=hint)
    if named is None:
        from holdfast.cli.commands import machines

        return machines.pull(parsed)
    return _pull_folder(parsed, named)


def _pull_folder(parsed: Parsed, named: str) -> int:
    from holdfast.engine.transfer import pull_history

    home, project = open_home(), projects.find(parsed.text("project") or os.getcwd())
    wanted = pull_history.Wanted("" if parsed.flag("all") else project.id, parsed.text("author") or "")
    with contextlib.ExitStack() as stack:
        folder = opened(stack, home, named, parsed.text("project"))
        progress = stack.enter_context(Progress(sys.stderr))

        def on_run(done: int, total: int, size: int) -> None:
            text = f"reading run {done + 1} of {total}, {human_bytes(size)}"
            progress.update(text if total else f"reading the list of runs: {done}")

        result = pull_history.pull(home, project, folder, wanted, on_run)
    if result.changed:
        index = Index(home)
        index.refresh(result.changed)
        index.close()
    labels = f", {counted(result.labels, 'label')}" if result.labels else ""
    message = f"{counted(len(result.new), 'run')} added from {named}{labels}, {result.present} already known"
    if result.others and not result.new:
        message += f"; {counted(result.others, 'run')} of other projects skipped, --all adds them"
    _tell(parsed, result._asdict(), message, result.left_out)
    return StoreError.exit_code if result.left_out else 0


def _tell(parsed: Parsed, result: Json, message: str, left_out: list[str]) -> None:
    if parsed.text("output") or parsed.text("query"):
        emit(result, **parsed.form())
    sys.stderr.write(f"{show(message)}\n")
    show_skipped(left_out)
