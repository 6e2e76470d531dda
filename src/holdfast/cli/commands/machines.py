"""``holdfast computetarget test`` and ``setup-script``, and ``holdfast history pull``"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.cli.check_output import tell
from holdfast.cli.commands.targets import name_of
from holdfast.cli.confirm import choose
from holdfast.cli.reach import tell_quiet
from holdfast.engine.connection.channel import ASKING, connect
from holdfast.engine.machines import checks, cloud_config
from holdfast.engine.transfer import pull_runs
from holdfast.errors import StoreError
from holdfast.present.output import emit
from holdfast.present.terminal import Progress, show
from holdfast.store.home import open_home
from holdfast.store.temporary_store import store_to_look_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed


def test(parsed: Parsed) -> int:
    """A line for each thing as it is found out; the exit code is that of the first thing that failed."""
    project = projects.find(parsed.text("project") or os.getcwd())
    with store_to_look_from() as home:
        compute = choose(home.path, project.root, "local", name_of(parsed)).compute
        return tell(checks.examine(home, compute), parsed)


def setup_script(parsed: Parsed) -> int:
    user, key = cloud_config.user_name(parsed.text("username")), cloud_config.public_key(parsed.text("key_file"))
    sys.stdout.write(cloud_config.text(user, key, gpu=parsed.flag("gpu")))
    return 0


def pull(parsed: Parsed) -> int:
    """Runs of other clients on a machine, made known here with all that they have written."""
    home = open_home()
    project = projects.find(parsed.text("project") or os.getcwd())
    chosen = choose(home.path, project.root, parsed.text("config") or "")
    target = target_lookup.resolve(chosen.compute, home.path)
    channel = connect(home, target, ASKING, tell_quiet)
    try:
        with Progress(sys.stderr) as progress:

            def on_run(done: int, total: int) -> None:
                progress.update(f"reading run {done + 1} of {total} on {target.name}")

            result = pull_runs.gather(home, target, channel, project, on_run)
    finally:
        channel.close()
    if parsed.text("output") or parsed.text("query"):
        emit(result._asdict(), **parsed.form())
    known = f"{result.here} {'was' if result.here == 1 else 'were'} already known"
    message = f"{_runs(len(result.new))} added from {target.name}, {known}"
    if result.refused:
        message += f"; {_runs(result.refused)} there cannot be read and were skipped"
    if result.left_alone:
        message += f"; {_runs(result.left_alone)} of other targets, or with other contents, were not changed"
    if result.incomplete:
        some = ", ".join(result.incomplete[:5]) + (", ..." if len(result.incomplete) > 5 else "")
        message += f"; outputs of {_runs(len(result.incomplete))} are incomplete ({some}): see holdfast info -r RUN"
    if result.others and result.others == len(result.new):
        message += "; of other projects: holdfast runs --all lists runs of all projects"
    sys.stderr.write(f"{show(message)}\n")
    return StoreError.exit_code if result.incomplete else 0


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
