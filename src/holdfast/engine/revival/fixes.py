"""The changes after which nothing in a project is withdrawn: computed as texts, shown as a diff, then written."""

from __future__ import annotations

import os
import re

from holdfast import image_names
from holdfast import project as projects
from holdfast.amlconfig.compute import read_compute
from holdfast.amlconfig.dependencies import read_spark
from holdfast.amlconfig.source import codec
from holdfast.amlconfig.types import BUILT_IN
from holdfast.amlconfig.write import save, updated
from holdfast.engine.revival import project_check
from holdfast.environments.edits import applied
from holdfast.errors import ConfigError
from holdfast.record import Record
from holdfast.runner import decoding, untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from holdfast.environments.edits import Edit

_MOST_BYTES = 4 << 20
# Lines that mean the same under a new name; everything else in a script is left to its author.
_IMPORTS = (
    (re.compile(r"^([ \t]*)from sklearn\.externals import joblib[ \t]*(?=\r?$)", re.M), r"\1import joblib"),
    (re.compile(r"^([ \t]*)from sklearn\.externals import six[ \t]*(?=\r?$)", re.M), r"\1import six"),
    (
        re.compile(
            r"^([ \t]*)from sklearn\.(?:cross_validation|grid_search|learning_curve) import (?=[\w, \t]+\r?$)"
            r"(?!.*(?:KFold|ShuffleSplit|LeaveOneOut|LabelKFold))",
            re.M,
        ),
        r"\1from sklearn.model_selection import ",
    ),
    (re.compile(r"^([ \t]*)from scipy import interp[ \t]*(?=\r?$)", re.M), r"\1from numpy import interp"),
    (re.compile(r"^([ \t]*)from pandas\.tools\.plotting import ", re.M), r"\1from pandas.plotting import "),
)


class Change(Record):
    """One file, before and after. ``reasons`` say what was replaced."""

    file: str
    before: bytes
    after: bytes
    reasons: tuple[str, ...] = ()

    def diff(self) -> list[str]:
        from difflib import unified_diff

        before, after = (_text(data).splitlines() for data in (self.before, self.after))
        return list(unified_diff(before, after, self.file, self.file, lineterm="", n=1))


def changes(root: str, known_targets: Collection[str] = ()) -> tuple[list[Change], list[str]]:
    """What would be written, by file; and what was left to the author, as sentences."""
    computed: list[Change] = []
    left: list[str] = []
    makers: tuple[Callable[[], Iterator[Change]], ...] = (
        lambda: _declarations(root, left),
        lambda: _spark_files(root),
        lambda: _compute_files(root),
        lambda: _run_configurations(root, known_targets),
        lambda: _scripts(root),
    )
    for make in makers:
        try:
            computed += make()
        except ConfigError as error:
            left.append(str(error))
    by_place: dict[str, Change] = {}  # a file and a link to it are one place
    for change in computed:
        if change.before != change.after:
            by_place.setdefault(os.path.realpath(os.path.join(root, change.file)), change)
    return list(by_place.values()), left


def write(root: str, made: list[Change]) -> None:
    """Each file whole; nothing is written if one changed since it was read, or belongs to another user."""
    for change in made:
        _refuse_changed(root, change)
    for change in made:
        save(_refuse_changed(root, change), change.after)


def _refuse_changed(root: str, change: Change) -> str:
    """The real path of the file, which is as it was read."""
    path = root
    for part in change.file.split("/"):
        path = os.path.join(path, part)
        projects.refuse_foreign(path, root)  # its owner could have it lead elsewhere meanwhile
    if _read(root, change.file) != change.before:
        raise ConfigError("this file has just changed", where=path, hint="run the command again")
    return os.path.realpath(path)


def _declarations(root: str, left: list[str]) -> Iterator[Change]:
    by_file: dict[str, list[Edit]] = {}
    for edit in project_check.retired_edits(root):
        by_file.setdefault(edit.entry.file, []).append(edit)
    for file, edits in by_file.items():
        before = _read(root, file)
        encoding, mark = codec(before)
        try:
            after = applied(before[len(mark) :].decode(encoding), edits)
        except ConfigError as error:
            left.append(str(error))
            continue
        yield Change(file, before, mark + after.encode(encoding), tuple(edit.message for edit in edits))


def _spark_files(root: str) -> Iterator[Change]:
    for file in project_check.spark_files(root):
        spark, _ = read_spark(os.path.join(root, file), file)
        before = after = _read(root, file)
        reasons = []
        for address in spark.repositories if spark is not None else ():
            new, why = project_check.living_repository(address)
            quoted = re.escape(address.encode())
            if new:
                after = after.replace(address.encode(), new.encode())
            elif why:
                after = re.sub(rb"^[ \t]*-[ \t]+[\"']?" + quoted + rb"[\"']?[ \t]*\r?\n", b"", after, flags=re.M)
            if why:
                reasons.append(f"{address} no longer exists: {why}")
        yield Change(file, before, after, tuple(reasons))


def _compute_files(root: str) -> Iterator[Change]:
    cuda = project_check.needed_cuda(root)
    for name in project_check.names(root, ".compute"):
        file = f"{project_check.FOLDER}/{name}"
        target, _ = read_compute(os.path.join(root, file), file)
        if target is None:
            continue
        image, message = image_names.replaced(target.base_docker_image or "", cuda)
        if message:
            before = _read(root, file)
            yield Change(file, before, updated(os.path.join(root, file), {"baseDockerImage": image}), (message,))


def _run_configurations(root: str, known: Collection[str]) -> Iterator[Change]:
    targets = {*BUILT_IN, *known, *(name[:-8] for name in project_check.names(root, ".compute"))}
    for config in project_check.configurations(root):
        file = f"{project_check.FOLDER}/{config.name}.runconfig"
        path = os.path.join(root, file)
        settings: dict[str, str | None] = {}
        reasons = []
        name = config.target or ""
        near = [target for target in targets if target.casefold() == name.casefold()]
        if name not in targets and len(near) == 1:
            settings["Target"] = near[0]
            reasons.append(f"there is no target {name!r}, but there is {near[0]!r}")
        named = config.conda_dependencies_file
        if named and named != project_check.CONDA_FILE and not os.path.lexists(os.path.join(root, named)):
            settings["CondaDependenciesFile"] = None
            reasons.append(f"{named} does not exist")
        if settings:
            yield Change(file, _read(root, file), updated(path, settings), tuple(reasons))


def _scripts(root: str) -> Iterator[Change]:
    for file in dict.fromkeys(script.file for script, *_ in project_check.dead_imports(root)):
        before = _read(root, file)
        text = decoding.lossless(before)
        after = text
        for pattern, new in _IMPORTS:
            after = pattern.sub(new, after)
        yield Change(file, before, decoding.as_bytes(after), ("imports of modules that moved",))


def _read(root: str, file: str) -> bytes:
    try:
        return untrusted.read_file(os.path.join(root, file), _MOST_BYTES, root)
    except (OSError, ValueError) as error:
        raise ConfigError("this file cannot be read", where=file, answer=str(error)) from None


def _text(data: bytes) -> str:
    encoding, mark = codec(data)
    return data[len(mark) :].decode(encoding, "replace")
