"""Commands that messages name exist: ``holdfast ...`` and ``az ml ...`` in texts of the source."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import holdfast
from holdfast.cli.table.commands import COMMANDS
from holdfast.cli.table.topics import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(holdfast.__file__).parent
NAMES = {words for command in COMMANDS for words in (command.words, *command.aliases)}
NAMED = re.compile(r"(?<![\w./-])(?:holdfast|az ml) ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?")
NOT_COMMANDS = {"holdfast starts and"}  # of the ledger of a run's time


def texts(source: str) -> Iterator[str]:
    """String constants without docstrings."""
    tree = ast.parse(source)
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def unknown(text: str) -> list[str]:
    """What looks like a command and is none; a group may stand alone where the text is continued by a value."""
    found = []
    for match in NAMED.finditer(text):
        first, second = match.groups()
        is_command = (first,) in NAMES or (first, second) in NAMES or ((first,) in GROUPS and second is None)
        if not is_command and match[0] not in NOT_COMMANDS:
            found.append(match[0])
    return found


def test_commands_that_messages_name_exist() -> None:
    files = [path for path in SOURCE.rglob("*.py") if "templates" not in path.parts]
    found = {path.name: unknown(text) for path in files for text in texts(path.read_text()) if unknown(text)}
    assert found == {}


def test_command_that_does_not_exist_is_found() -> None:
    assert unknown("try: holdfast targets repair") == ["holdfast targets repair"]
    assert unknown("az ml computetarget mend NAME; az ml history list") == ["az ml computetarget mend"]
