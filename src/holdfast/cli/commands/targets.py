"""``holdfast computetarget ...`` and ``holdfast runconfiguration ...``"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.cli.confirm import choose
from holdfast.engine.machines import target_files
from holdfast.errors import HoldfastError, UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import human_bytes, is_tty, show
from holdfast.store.home import location, open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.cli.parse import Parsed
    from holdfast.engine.machines.purge import Purged


def list_targets(parsed: Parsed) -> int:
    emit(target_lookup.targets(_places(parsed)), **parsed.form())
    return 0


def show_target(parsed: Parsed) -> int:
    """The target as it is understood, with the file it comes from."""
    places = _places(parsed)
    name = name_of(parsed)
    chosen = target_lookup.choose(places, "local", name)
    fields = {key: value for key, value in chosen.compute._asdict().items() if value not in (None, {})}
    fields["file"] = target_lookup.find(places, f"{name}.compute")
    emit(fields, **parsed.form())
    return 0


def detach(parsed: Parsed) -> int:
    """Remove the target's files. Runs that were made on it stay, unless --purge takes them from there."""
    root = projects.find(parsed.text("project") or os.getcwd()).root
    places = target_lookup.folders(root, location())
    name = name_of(parsed)
    keeps_files = not parsed.flag("purge") and _is_remote(places, name)
    if target_lookup.find(places, f"{name}.compute") is not None and parsed.flag("purge"):
        _purge(choose(location(), root, "local", name).compute, sure=parsed.flag("yes"))
    for path in target_files.remove(location(), root, name):
        sys.stderr.write(f"removed {show(path)}\n")
    if keeps_files:
        sys.stderr.write(
            f"the files of its runs stay on {show(name)}; attach it again and detach --purge removes them\n"
        )
    return 0


def list_configurations(parsed: Parsed) -> int:
    emit(target_lookup.configurations(_places(parsed)), **parsed.form())
    return 0


def create_configuration(parsed: Parsed) -> int:
    from holdfast.amlconfig.write import new_runconfig, save

    places = _places(parsed)
    name, target = name_of(parsed), parsed.text("target") or "local"
    if target not in target_lookup.targets(places):
        hint = f"known: {', '.join(target_lookup.targets(places))}"
        raise UsageError(f"no target named {target!r}", hint=hint)
    path = os.path.join(places[0], f"{name}.runconfig")
    if os.path.lexists(path):
        raise UsageError("this run configuration already exists", where=path)
    os.makedirs(places[0], exist_ok=True)
    save(path, new_runconfig(target).encode())
    sys.stderr.write(f"created {show(path)}\n")
    _confirm_target(os.path.dirname(places[0]), name)
    return 0


def delete_configuration(parsed: Parsed) -> int:
    places = _places(parsed)
    path = target_lookup.find(places, f"{name_of(parsed)}.runconfig")
    if path is None:
        known = ", ".join(target_lookup.configurations(places)) or "none"
        raise UsageError(f"no run configuration named {name_of(parsed)!r}", hint=f"known: {known}")
    os.unlink(path)
    sys.stderr.write(f"removed {show(path)}\n")
    return 0


def _confirm_target(root: str, name: str) -> None:
    """The user has just chosen the target of this run configuration."""
    from holdfast.engine.submit.confirmation import confirms_target
    from holdfast.store import trust_file

    rows = confirms_target(location(), root, target_lookup.choose(target_lookup.folders(root, location()), name))
    if rows:
        trust_file.confirm(open_home(), rows)


def _is_remote(places: Sequence[str], name: str) -> bool:
    """Whether a target is another machine; its file may be damaged."""
    try:
        return target_lookup.choose(places, "local", name).compute.kind.is_remote
    except HoldfastError:
        return False


def _purge(compute: ComputeTarget, *, sure: bool) -> None:
    from holdfast.engine.machines.purge import purge

    def agree(count: int, size: int) -> None:
        what = f"{count} output{'' if count == 1 else 's'} ({human_bytes(size)}) of your runs exist only there"
        if sure:
            return
        if is_tty(sys.stdin) and is_tty(sys.stderr):
            sys.stderr.write(f"{what}. Remove them? [y/N] ")
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() in ("y", "yes"):
                return
        hint = "holdfast return -r RUN downloads a run's outputs; --yes removes them"
        raise UsageError(f"{what}; nothing was removed", where=compute.name, hint=hint)

    gone = purge(open_home(), compute, agree)
    sys.stderr.write(f"{show(f'{compute.name}: {_removed(gone)}')}\n")


def _removed(gone: Purged) -> str:
    summary = f"{gone.runs} run{'' if gone.runs == 1 else 's'} of this client"
    if not gone.left:
        return f"{summary} and all other Holdfast data were removed there"
    summary += f" {'was' if gone.runs == 1 else 'were'} removed there; {gone.place} is kept"
    others = f"{gone.others} other client{' that uses' if gone.others == 1 else 's that use'} it"
    if gone.labels:
        others += f" ({', '.join(gone.labels)})"
    kept = f"{gone.kept} run{' that was' if gone.kept == 1 else 's that were'} not submitted from this client"
    why = " and ".join(([others] if gone.others else []) + ([kept] if gone.kept else []))
    return f"{summary} for {why}" if why else f"{summary}: some files could not be removed"


def _places(parsed: Parsed) -> tuple[str, ...]:
    project = projects.find(parsed.text("project") or os.getcwd())
    return target_lookup.folders(project.root, location())


def name_of(parsed: Parsed) -> str:
    name = parsed.text("name") or parsed.text("word")
    if not name:
        raise UsageError("no name given", hint="--name NAME")
    if name != os.path.basename(name) or name.startswith((".", "-")) or not name.isprintable():
        raise UsageError(f"{name!r} is not a valid file name", where="--name")
    return name
