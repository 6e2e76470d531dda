"""conda environment files, in every shape that old projects have them."""

from __future__ import annotations

import os
import re

from holdfast.amlconfig.dependencies import read_conda
from holdfast.amlconfig.types import CondaDependencies, Finding
from holdfast.environments.matchspec import NotAMatchSpecError, parse
from holdfast.environments.pip import STANDARD, PipItems, shown
from holdfast.environments.requirements import take_own_requirements
from holdfast.environments.spec import Entry, Spec
from holdfast.environments.versions import from_conda

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.amlconfig.types import Item
    from holdfast.environments.matchspec import MatchSpec

# conda's own default is a product with terms of use; the community's channel has all that old files ask for.
DEFAULT_CHANNELS = ("conda-forge",)
_CHANNEL = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)*/?|(https?|file)://[^\s\"'`<>|;]+")
_BROUGHT_ANYWAY = ("python", "pip")


def read_conda_file(root: str, file: str) -> tuple[Spec, list[Finding]]:
    """A file that lists only Python as a conda package is of kind ``pip``: any interpreter of that version will do."""
    declared, findings = read_conda(os.path.join(root, file), file)
    declared = declared or CondaDependencies()
    wanted = list(_packages(file, declared.dependencies, findings))
    items = PipItems(root)
    for item in declared.pip or ():
        items.take(Entry("", file, item.line, item.column, item.text), os.path.dirname(file))
    take_own_requirements(items)
    findings += items.findings
    pythons = [package for package, _ in wanted if package.name == "python"]
    spec = Spec(
        source=file,
        kind="conda" if any(package.name not in _BROUGHT_ANYWAY for package, _ in wanted) else "pip",
        python=from_conda(pythons[-1].version) if pythons and pythons[-1].version else None,
        channels=_channels(file, declared.channels, findings),
        conda=tuple(entry for _, entry in wanted),
        pip=tuple(items.entries),
        constraints=tuple(items.constraints),
        pip_options=items.options,
        option_lines=tuple(items.option_lines),
        channel_lines=tuple(
            Entry(item.text.rstrip("/"), file, item.line, item.column, item.text) for item in declared.channels
        ),
        own_package=items.own_package,
    )
    return spec, findings


def _packages(file: str, items: Iterable[Item], findings: list[Finding]) -> Iterable[tuple[MatchSpec, Entry]]:
    warned = {finding.line for finding in findings}
    for item in items:
        if item.text in STANDARD:
            if item.line not in warned:
                message = f"{item.text} is part of Python, not a package"
                findings.append(Finding("warning", file, item.line, item.column, message, "delete this line"))
            continue
        try:
            package = parse(item.text)
        except NotAMatchSpecError as error:
            message = f"{shown(item.text)} is not a conda package: {error}"
            findings.append(Finding("error", file, item.line, item.column, message, "write - name=1.2"))
            continue
        if package.is_doubled:
            message = f"{shown(item.text)} is read as {package.text}: conda versions use a single ="
            findings.append(Finding("warning", file, item.line, item.column, message, f"write - {package.text}"))
        yield package, Entry(package.text, file, item.line, item.column, item.text)


def _channels(file: str, items: Sequence[Item], findings: list[Finding]) -> tuple[str, ...]:
    for item in items:
        if not _CHANNEL.fullmatch(item.text):
            message = f"{shown(item.text)} is not a channel"
            hint = "write its name, such as conda-forge, or its https address"
            findings.append(Finding("error", file, item.line, item.column, message, hint))
    names = dict.fromkeys(item.text.rstrip("/") for item in items if item.text != "nodefaults")
    return tuple(names) or DEFAULT_CHANNELS
