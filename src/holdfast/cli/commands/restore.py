"""``holdfast project restore`` and ``holdfast diff``"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast.cli import pick
from holdfast.cli.confirm import agree_to_store
from holdfast.cli.copying import Copier, copy_results
from holdfast.engine.runs import outputs
from holdfast.engine.runs import restore as engine
from holdfast.errors import UsageError
from holdfast.present.terminal import human_bytes, show, use_colour
from holdfast.store import output_manifest, runs
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.cli.parse import Parsed
    from holdfast.snapshot.snapshot import Pending
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_SHOWN = 20
_NAMED = 5


def restore(parsed: Parsed) -> int:
    return _bring_back(parsed) if parsed.text("saved") else _restore(parsed)


def _restore(parsed: Parsed) -> int:
    """The project as a run saw it, over the project's folder (what is there is saved first) or into a new one."""
    home, run = pick.run(parsed)
    to = parsed.text("to")
    if to is not None:
        files, refused = engine.restore_into(home, run, os.path.abspath(to))
        _tell_refused(refused)
        sys.stderr.write(f"{files} files in {show(os.path.abspath(to))}\n")
        return _bring_results(parsed, home, run, os.path.abspath(to))
    hint = "change to that project's folder, or restore into a new one with --to DIR"
    project = pick.project_of(parsed, run, hint)
    done = engine.restore_over(home, run, project, _agreeing(parsed))
    if done.saved:
        sys.stderr.write(f"your changes were saved; restore them with: holdfast restore --saved {done.saved}\n")
    _tell_refused(done.refused)
    _name_kept(done.kept)
    counts = f"{done.written} written, {done.removed} removed, {done.same} unchanged"
    sys.stderr.write(f"restored the project to {show(str(run.request.get('run_id')))}: {counts}\n")
    return _bring_results(parsed, home, run, project.root)


def _bring_results(parsed: Parsed, home: Home, run: Run, folder: str) -> int:
    """With ``--results`` copy them beside the restored code, which they never replace; otherwise count them."""
    rows = output_manifest.rows(run)
    if not parsed.flag("results"):
        count = f"{len(rows)} result{'' if len(rows) == 1 else 's'}"
        sys.stderr.write(f"the run left {count}; --results copies them too\n" if rows else "")
        return 0
    copier, problems = Copier(), outputs.bring(home, run)
    for name, why in problems.items():
        copier.problem(name, why)
    kept = copy_results(run, folder, copier, problems, overwrite=None)
    summary = f"{copier.copied} result{'' if copier.copied == 1 else 's'} ({human_bytes(copier.bytes)})"
    sys.stderr.write(f"{summary} copied\n")
    copier.finish("result", "try again when this is fixed: holdfast return")
    return 1 if kept else 0


def _bring_back(parsed: Parsed) -> int:
    """Undo of a restore: a saved state, by the name that the restore printed."""
    home = open_home()
    project = projects.find(parsed.text("project") or os.getcwd())
    done = engine.bring_back(home, project, parsed.text("saved") or "", _agreeing(parsed))
    if done.saved:
        sys.stderr.write(f"the previous files were saved; restore them with: holdfast restore --saved {done.saved}\n")
    _tell_refused(done.refused)
    _name_kept(done.kept)
    sys.stderr.write(f"{done.written} written, {done.removed} removed, {done.same} unchanged\n")
    return 0


def _tell_refused(refused: dict[str, str]) -> None:
    for name, why in list(refused.items())[:_SHOWN]:
        sys.stderr.write(f"not restored: {show(name)} ({show(why)})\n")
    if len(refused) > _SHOWN:
        sys.stderr.write(f"not restored: {len(refused) - _SHOWN} more\n")


def _name_kept(paths: tuple[str, ...]) -> None:
    """The files whose other content is in no saved state."""
    if paths:
        named = ", ".join(map(show, paths[:_NAMED])) + (f" and {len(paths) - _NAMED} more" * (len(paths) > _NAMED))
        sys.stderr.write(f"not touched, because they are ignored and not saved: {named}; --to DIR has the run's own\n")


def diff(parsed: Parsed) -> int:
    """Between the code of two runs, or between a run and the project as it is now. Exit code 1 where they differ."""
    home, project, index = pick.here(parsed)
    try:
        names = parsed.texts("runs") or ("last",)
        if len(names) > 2:
            raise UsageError("at most two runs can be compared", hint="holdfast diff -r A -r B")
        chosen = [runs.read(home, index.find(project.id, name)) for name in names]
    finally:
        index.close()
    lines = engine.difference(home, chosen[0], chosen[1] if len(chosen) > 1 else None, project, _agreeing(parsed))
    colour = use_colour(sys.stdout)
    count = 0
    for line in lines:
        count += 1
        sys.stdout.write(_painted(show(line), colour) + "\n")
    return 1 if count else 0


def _agreeing(parsed: Parsed) -> Callable[[Pending], None]:
    hint = "exclude files that are not code in .amlignore, or use --yes"
    return lambda pending: agree_to_store(pending, hint, sure=parsed.flag("yes"))


def _painted(line: str, colour: bool) -> str:
    code = {"+": "32", "-": "31", "@": "36"}.get(line[:1]) if colour else None
    return f"\x1b[{code}m{line}\x1b[0m" if code else line
