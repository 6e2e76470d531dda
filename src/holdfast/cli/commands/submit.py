"""``holdfast experiment submit``

Cheap checks come first. Then the runner is started, and the remaining modules are imported while its interpreter
starts.
"""

from __future__ import annotations

import os
from itertools import pairwise

from holdfast.cli.dialog import TerminalDialog
from holdfast.cli.reach import open_line
from holdfast.engine.submit.job import Asked
from holdfast.engine.submit.prepare import Order, prepare, reach
from holdfast.environments import choice
from holdfast.ledger import Stopwatch, since_start_ns
from holdfast.store.home import location, open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.parse import Parsed
    from holdfast.engine.submit.prepare import Prepared


def submit(parsed: Parsed) -> int:
    dialog = TerminalDialog(sure=parsed.flag("yes"), dry_run=parsed.flag("dry_run"))
    prepared = prepare(_order(parsed), dialog, os.environ)
    if not parsed.text("project") and os.path.realpath(prepared.project.root) != os.path.realpath(os.getcwd()):
        dialog.project(prepared.project.root)
    if len(parsed.rest) > 2 and not parsed.after_dashes:
        _name_target_after_script(parsed, prepared, dialog)
    if parsed.flag("dry_run"):
        from holdfast.cli.submission import print_plan

        return print_plan(parsed, prepared, dialog)
    stopwatch = Stopwatch(since_start_ns())
    home = open_home()
    stopwatch.lap("begin")
    line = reach(home, prepared, lambda: open_line(home, prepared.target), dialog)
    with line:
        stopwatch.lap("connect")
        stopwatch.waited = lambda: line.waited_ns
        from holdfast.cli.submission import Submission

        return Submission(parsed, home, prepared, line, stopwatch, dialog).run()


def _name_target_after_script(parsed: Parsed, prepared: Prepared, dialog: TerminalDialog) -> None:
    """The script gets its arguments as they are; one line where two of them look like the target of this submit."""
    if parsed.text("config") or parsed.text("target"):
        return
    flags = {flag for option in parsed.command.options if option.name in ("config", "target") for flag in option.flags}
    arguments = parsed.rest
    pairs = [(flag, name) for flag, name in pairwise(arguments[1:]) if flag in flags]
    if not pairs:
        return
    from holdfast import target_lookup

    places = target_lookup.folders(prepared.project.root, location())
    known = {*target_lookup.targets(places), *target_lookup.configurations(places)} - {prepared.chosen.config.name}
    for flag, name in pairs:
        if name in known:
            from shlex import quote

            dialog.warn(
                f"{flag} {name} was passed to {arguments[0]}, which runs on {prepared.target.name}; "
                f"options of submit go before the script: holdfast submit {flag} {quote(name)} {quote(arguments[0])}"
            )


def _order(parsed: Parsed) -> Order:
    choices = [word for word in parsed.texts("environment") if word in choice.WORDS]
    typed = Asked(
        words=parsed.rest,
        folder=os.path.abspath(parsed.text("project") or os.getcwd()),
        after_dashes=parsed.after_dashes,
        **_labels(parsed),
        env=(*parsed.texts("env"), *(word for word in parsed.texts("environment") if word not in choice.WORDS)),
        env_files=parsed.texts("env_file"),
        secrets=parsed.texts("secret"),
        links=parsed.texts("link"),
        data=parsed.texts("data"),
        timeout=parsed.text("timeout"),
        grace=parsed.text("grace"),
        notify=parsed.text("notify"),
        keep_work=parsed.flag("keep_work"),
        scalars=parsed.flag("scalars"),
        keep_limit=parsed.text("keep_limit"),
        no_capture=parsed.flag("no_capture"),
        retries=parsed.text("retries"),
        gpus=parsed.text("gpus"),
        require_gpu=parsed.flag("require_gpu"),
        wait_for_gpu=parsed.text("wait_for_gpu"),
    )
    environment = choices[-1] if choices else None
    return Order(typed, parsed.text("config"), parsed.text("target"), environment, parsed.text("python"))


def _labels(parsed: Parsed) -> dict[str, Any]:
    name, tags = parsed.text("name"), parsed.texts("tags")
    if name is None and not tags:
        return {}
    from holdfast import labels

    return {"name": None if name is None else labels.checked_name(name), "tags": labels.read_tags(tags)}
