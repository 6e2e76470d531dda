"""``holdfast store ...`` and ``holdfast du``"""

from __future__ import annotations

import contextlib
import sys

from holdfast.engine.runs import daily_cleanup
from holdfast.engine.runs.open_index import open_index
from holdfast.errors import StoreError, UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import Progress, human_bytes, is_tty, show, young_note
from holdfast.runner import untrusted
from holdfast.store import disk_usage
from holdfast.store import prune as pruning
from holdfast.store.home import open_home
from holdfast.store.index.index import rebuild

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json


def reindex(_parsed: Parsed) -> int:
    home = open_home()
    count = rebuild(home)
    sys.stderr.write(f"{count} run{'' if count == 1 else 's'} in the index\n")
    return 0


def verify(parsed: Parsed) -> int:
    from holdfast.cli.commands import team
    from holdfast.store import audit
    from holdfast.store.shared import shared_verify

    home, named = open_home(create=False), parsed.text("folder")
    with contextlib.ExitStack() as stack:
        folder = team.opened(stack, home, named, None) if named else None
        progress = stack.enter_context(Progress(sys.stderr))

        def on_progress(files: int, size: int) -> None:
            progress.update(f"reading: {files} files, {human_bytes(size)}")

        problems = shared_verify.audit(home, folder, on_progress) if folder else audit.audit(home, on_progress)
        left = problems
        if parsed.flag("repair"):
            left = shared_verify.repair(home, folder, problems) if folder else audit.repair(home, problems)
    rows = [{"path": row.path, "problem": row.what, "todo": row.todo} for row in left]
    if rows or parsed.text("output") or parsed.text("query"):
        emit(rows, **parsed.form(), columns=("path", "problem", "todo"))
    repaired = f"{len(problems)} found, {len(problems) - len(left)} repaired, " if parsed.flag("repair") else ""
    sys.stderr.write(f"{repaired}{len(left)} remaining\n" if left else f"{repaired}everything is intact\n")
    return StoreError.exit_code if left else 0


def du(parsed: Parsed) -> int:
    home = open_home(create=False)
    rows = disk_usage.measure(home)
    if parsed.text("output") or parsed.text("query") or not is_tty(sys.stdout):
        emit(rows, **parsed.form(), columns=("what", "bytes", "files"))
        return 0
    sys.stdout.write(f"{show(home.path)}\n")
    for row in rows:
        sys.stdout.write(f"{human_bytes(int(str(row['bytes']))):>10}  {row['what']:<10}  {row['why']}\n")
    return 0


def prune(parsed: Parsed) -> int:
    home = open_home(create=not parsed.flag("dry_run"))
    days = parsed.text("keep_days")
    if days is not None and untrusted.whole_number(days, 6) is None:
        raise UsageError(f"--keep-days {days}: not a number of days")
    keep = daily_cleanup.kept(home, None if days is None else float(days), clock_is_right=parsed.flag("clock_is_right"))
    if keep.clock.doubt:
        sys.stderr.write(f"WARNING: {keep.clock.doubt}; age-based deletion is suspended.\n")
        sys.stderr.write("         if the date is right: holdfast store prune --clock-is-right\n")
    if parsed.flag("empty_trash"):
        keep = keep._replace(trash=None)
    index = open_index(home)
    try:
        freed = pruning.prune(home, index.of_store(), keep, act=not parsed.flag("dry_run"))
        index.refresh()
    finally:
        index.close()
    rows = [{**row, "note": _note(row)} for row in freed]
    emit(rows, **parsed.form(), columns=("what", "count", "bytes", "note"))
    return 0


def _note(row: Json) -> str:
    young = young_note(int(str(row.get("young") or 0)), int(str(row.get("young_bytes") or 0)))
    return "; ".join(filter(None, (str(row.get("note") or ""), young)))
