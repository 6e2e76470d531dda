"""``requirements.txt``, with the files it takes in."""

from __future__ import annotations

import os
import re

from holdfast.environments.files import read_text
from holdfast.environments.pip import PipItems
from holdfast.environments.spec import Entry, Spec
from holdfast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.amlconfig.types import Finding

_COMMENT = re.compile(r"(^|(?<!\s)\s+)#.*$")  # tried once for each run of blanks, however long
_LONGEST_LINE = 4096
_LONGEST_JOINED = 1 << 16  # a requirement with its hashes, one per line


def read_requirements(root: str, file: str) -> tuple[Spec, list[Finding]]:
    items = PipItems(root)
    take_file(items, file)
    take_own_requirements(items)
    return pip_spec(file, items, None), items.findings


def take_file(items: PipItems, file: str, *, constrains: bool = False) -> None:
    """Read every line into ``items``; a file that takes itself in is read once."""
    items.included.add((file, constrains))
    for number, column, line in _logical_lines(file, read_text(items.root, file)):
        items.take(Entry("", file, number, column, line), os.path.dirname(file), constrains=constrains)


def take_own_requirements(items: PipItems) -> None:
    """What ``-e .`` asks for besides: the project's own requirements, with those of its extras."""
    if items.own_package:
        from holdfast.environments.pyproject import take_project

        take_project(items)


def pip_spec(file: str, items: PipItems, python: str | None) -> Spec:
    return Spec(
        source=file,
        kind="pip",
        python=python,
        pip=tuple(items.entries),
        constraints=tuple(items.constraints),
        pip_options=items.options,
        option_lines=tuple(items.option_lines),
        own_package=items.own_package,
    )


def _logical_lines(file: str, text: str) -> Iterator[tuple[int, int, str]]:
    """Lines with their place: without comments, continued ones joined."""
    joined, start, column, length = "", 0, 0, 0
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > _LONGEST_LINE:
            raise ConfigError(f"this line is longer than {_LONGEST_LINE} characters", where=f"{file}:{number}")
        content = _COMMENT.sub("", line)
        length = length + len(line) if joined else len(line)
        if length > _LONGEST_JOINED:
            what = f"this line with its continuation is longer than {_LONGEST_JOINED} characters"
            raise ConfigError(what, where=f"{file}:{start}")
        if not joined:
            start, column = number, len(line) - len(line.lstrip()) + 1
        if content.endswith("\\"):
            joined += content[:-1]
            continue
        joined += content
        if joined.strip():
            yield start, column, joined.strip()
        joined = ""
    if joined.strip():
        yield start, column, joined.strip()
