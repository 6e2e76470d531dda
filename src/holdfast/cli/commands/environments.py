"""``holdfast experiment prepare`` and ``holdfast env ...``"""

from __future__ import annotations

import os
import sys
import time

from holdfast import project as projects
from holdfast import settings, target_lookup
from holdfast.cli.environments import Bench, described_offline
from holdfast.engine.submit import declaration
from holdfast.environments.choice import is_managed
from holdfast.errors import ConfigError, UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import Progress, human_bytes, is_tty, show
from holdfast.quantities import parse_size
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.store import built_environments as shelf
from holdfast.store.home import location, open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Project


def prepare(parsed: Parsed) -> int:
    """Build the environment and print where the time went; of one that is there, how long it took to see that."""
    with _bench(parsed) as bench:
        started = time.monotonic()
        environment = bench.settle("")
        solving = round(time.monotonic() - started, 3)
        if environment is None:
            sys.stderr.write("no environment is declared; runs use the interpreter unchanged\n")
            return 0
        with Progress(sys.stderr) as progress:
            ledger = bench.build(environment, progress)
    checked = round(time.monotonic() - started, 3)
    details = {"already_there": True, "check_s": checked} if ledger is None else {"solve_s": solving, **ledger}
    row = {"environment": environment.key, "source": environment.source, **details}
    if ledger is None:
        sys.stderr.write(f"already built: environment {environment.key}, checked in {checked:.3f} s\n")
    if parsed.text("output") or parsed.text("query") or not is_tty(sys.stdout):
        emit(row, **parsed.form())
    else:
        for name, value in row.items():
            sys.stdout.write(f"{name:<12} {show(str(value))}\n")
    return 0


def show_declared(parsed: Parsed) -> int:
    project, chosen = _managed(parsed)
    if chosen.compute.kind.in_container:
        description = described_offline(project.root, chosen)
    else:
        with Bench(open_home(), project, chosen) as bench:
            description = bench.describe("")
    emit(description, **parsed.form())
    return 0


def list_environments(parsed: Parsed) -> int:
    rows = shelf.listed(open_home(create=False))
    emit(
        rows,
        **parsed.form(),
        columns=("key", "python", "packages", "bytes", "last_used", "in_use"),
    )
    return 0


def lock(parsed: Parsed) -> int:
    from holdfast.amlconfig.write import save
    from holdfast.environments.lock import lock_file, to_text

    with _bench(parsed) as bench:
        solved = bench.solve("")
        name = lock_file(bench.chosen.config.name)
        path = os.path.join(bench.project.root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    save(path, to_text(solved).encode())
    sys.stderr.write(f"{show(name)}: {len(solved.conda) + len(solved.pip)} packages, exactly\n")
    return 0


def verify(parsed: Parsed) -> int:
    """Exit code 74 where a file is not as it was installed."""
    with _bench(parsed) as bench:
        environment = bench.settle("", may_build=False)
        if environment is None:
            raise UsageError("no environment is declared here", where=bench.project.root)
        changes = shelf.changed(bench.home, environment.prefix)
    emit(changes, **parsed.form(), columns=("file", "what"))
    return 74 if changes else 0


def add(parsed: Parsed) -> int:
    from holdfast.amlconfig.write import save
    from holdfast.environments import additions

    project = _project(parsed)
    chosen = _chosen(parsed, project.root)
    change = additions.added(project.root, chosen.config, parsed.texts("packages"))
    if change.is_changed:
        save(os.path.join(project.root, change.file), as_bytes(change.text))
    sys.stderr.write("".join(f"{show(note)}\n" for note in change.notes))
    return 0


def fix(parsed: Parsed) -> int:
    from holdfast.amlconfig.write import save

    project, chosen = _managed(parsed)
    if chosen.compute.kind.in_container and not parsed.flag("gpu"):
        file, before, after = declaration.fixed(project.root, chosen)
    else:
        with Bench(open_home(), project, chosen) as bench:
            file, before, after = bench.fixed(gpu=parsed.flag("gpu"))
    if before == after:
        sys.stderr.write(f"{show(file)}: nothing to fix\n")
        return 0
    save(os.path.join(project.root, file), as_bytes(after))
    from difflib import unified_diff

    for line in unified_diff(before.splitlines(), after.splitlines(), file, file, lineterm="", n=1):
        sys.stdout.write(show(line) + "\n")
    return 0


def prune(parsed: Parsed) -> int:
    keep, limit = untrusted.whole_number(parsed.text("keep") or "5"), parsed.text("max_size")
    if keep is None:
        raise UsageError(f"--keep {parsed.text('keep')}: not a number")
    size = parse_size(limit) if limit else None
    if limit and size is None:
        raise UsageError(f"--max-size {limit}: not a size", hint="for example 20GB")
    gone = shelf.prune(open_home(create=False), keep, size, act=not parsed.flag("dry_run"))
    emit(gone, **parsed.form(), columns=("key", "bytes", "last_used"))
    sys.stderr.write(f"{len(gone)} environments, {human_bytes(sum(int(str(row['bytes'])) for row in gone))}\n")
    return 0


def _bench(parsed: Parsed) -> Bench:
    return Bench(open_home(), *_managed(parsed))


def _managed(parsed: Parsed) -> tuple[Project, target_lookup.Chosen]:
    project = projects.remember(_project(parsed))
    chosen = _chosen(parsed, project.root)
    if not is_managed(project.root, chosen.compute):
        where = f"{chosen.compute.name}.compute"
        hint = "add this line to it: environment: project"
        raise ConfigError(
            "this target uses its interpreter unchanged, so there is nothing to build", where=where, hint=hint
        )
    return project, chosen


def _project(parsed: Parsed) -> Project:
    return projects.find(parsed.text("project") or os.getcwd())


def _chosen(parsed: Parsed, root: str) -> target_lookup.Chosen:
    home = location()
    configured = settings.read(layout.settings(home))
    name = parsed.text("config") or parsed.text("target") or configured["defaultTarget"]
    return target_lookup.choose(target_lookup.folders(root, home), name, parsed.text("target"))
