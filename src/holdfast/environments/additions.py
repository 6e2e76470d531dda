"""Adding packages to the file that declares an environment; comments and everything else stay.

A package that is declared already is not declared a second time. Its line is left as it is where it says no less, and
changed where another version is asked for.
"""

from __future__ import annotations

import os

from holdfast.environments import edits, matchspec, read, requirement, sources
from holdfast.environments.files import line_end, read_text
from holdfast.errors import ConfigError, UsageError
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.amlconfig.types import RunConfig
    from holdfast.environments.requirement import Requirement
    from holdfast.environments.sources import Declared
    from holdfast.environments.spec import Entry

_FIRST = "requirements.txt"
_OURS = ("conda", "requirements")  # kinds of files that we change


class Added(Record):
    """The file (made new where nothing is declared yet), its new text, and a line of text about each package."""

    file: str
    text: str
    notes: list[str]
    is_changed: bool = True


class _Line(Record):
    """A line that declares the package; ``there`` is None for a conda package."""

    entry: Entry
    there: Requirement | None

    @property
    def where(self) -> str:
        return f"{self.entry.file}:{self.entry.line}"


def added(root: str, config: RunConfig | None, packages: Sequence[str]) -> Added:
    wanted = _parsed(packages)
    declared = sources.find(root, config, "")
    if declared is None:
        text = "".join(f"{package}\n" for package in packages)
        return Added(_FIRST, text, [f"{_FIRST}: {package}" for package in packages])
    new, changes, notes = [], [], []
    for package, parsed in wanted.items():
        lines = list(_lines_of(root, declared, parsed.name))
        enough = next((line for line in lines if _says_no_less(line.there, parsed)), None)
        if enough is not None:
            notes.append(f"{enough.where}: {enough.entry.raw.strip()} is declared already; nothing to add")
        elif lines:
            _check_changeable(root, declared, lines, package, parsed)
            changes.append(edits.Edit(lines[0].entry, package, ""))
            notes.append(f"{lines[0].where}: {package} (was {lines[0].entry.raw.strip()})")
        else:
            new.append(package)
            notes.append(f"{declared.file}: {package}")
    before = read_text(root, declared.file)
    after = edits.applied(before, changes)
    after = _with_new(root, declared, after, new) if new else after
    return Added(declared.file, after.replace("\n", line_end(root, declared.file)), notes, after != before)


def _parsed(packages: Sequence[str]) -> dict[str, Requirement]:
    requirements: dict[str, Requirement] = {}
    for package in packages:
        try:
            parsed = requirement.parse(package)
        except requirement.NotARequirementError as error:
            raise UsageError(f"{package!r} is not a valid package name", answer=str(error)) from error
        if parsed.name and any(parsed.name == other.name for other in requirements.values()):
            raise UsageError(f"{parsed.name} is given twice", hint=f"holdfast env add {package}")
        requirements[package] = parsed
    return requirements


def _lines_of(root: str, declared: Declared, name: str) -> Iterator[_Line]:
    """Where the package is declared. An address without a name is compared with nothing."""
    spec = read.stated(root, declared)
    for entry in spec.pip if name else ():
        try:
            there = requirement.parse(entry.text)
        except requirement.NotARequirementError:
            continue
        if there.name == name:
            yield _Line(entry, there)
    for entry in spec.conda if name else ():
        try:
            conda_name = requirement.normal(matchspec.parse(entry.raw).name)
        except (matchspec.NotAMatchSpecError, requirement.NotARequirementError):
            continue
        if conda_name == name:
            yield _Line(entry, None)


def _says_no_less(there: Requirement | None, wanted: Requirement) -> bool:
    """Whether the line is the same requirement, or narrower than a bare name."""
    is_bare = not (wanted.specifier or wanted.url or wanted.marker or wanted.hashes)
    if there is None:
        return is_bare and not wanted.extras
    if there == wanted:
        return True
    return is_bare and not there.marker and set(wanted.extras) <= set(there.extras)


def _check_changeable(root: str, declared: Declared, lines: list[_Line], package: str, wanted: Requirement) -> None:
    """Only one plain line of the file itself is changed: a marker, hashes or extras were probably meant to stay."""
    entry, there = lines[0].entry, lines[0].there
    is_plain = there is not None and not (there.marker or there.hashes) and set(there.extras) <= set(wanted.extras)
    keeps_version = bool(wanted.specifier or wanted.url) or not (there and (there.specifier or there.url))
    if len(lines) == 1 and is_plain and keeps_version and entry.file == declared.file and declared.kind in _OURS:
        return
    hint = "change that line in an editor"
    if declared.kind not in _OURS:
        hint = f"change it there, for example with: uv add {package}"
    elif there is None:
        hint = "it is a conda package: change its version in that line"
    what = f"{wanted.name} is declared already, as {entry.raw.strip()}"
    where = ", ".join(os.path.join(root, line.where) for line in lines)
    raise ConfigError(what, where=where, hint=hint)


def _with_new(root: str, declared: Declared, text: str, packages: list[str]) -> str:
    if declared.kind == "conda":
        return edits.with_pip_items(text, packages)
    if declared.kind == "requirements":
        ended = text if not text or text.endswith("\n") else f"{text}\n"
        return ended + "".join(f"{package}\n" for package in packages)
    hint = f"add it there, for example with: uv add {' '.join(packages)}"
    where = os.path.join(root, declared.file)
    raise ConfigError(f"{declared.file} is maintained by another tool", where=where, hint=hint)
