"""The commands that the Azure CLI has as ``az ml ...``, as JSON for the extension ``holdfast-az``."""

from __future__ import annotations

from holdfast._version import __version__
from holdfast.cli.parse import PROGRAM, placeholder
from holdfast.cli.table.azure_groups import SHARED_GROUPS, WORKBENCH_GROUPS
from holdfast.cli.table.commands import COMMANDS
from holdfast.cli.table.topics import GROUPS, HIDDEN_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.parse import Command, Option, Positional


def azure_table() -> dict[str, Any]:
    """The commands by name, their groups, and the version they are of."""
    commands = {}
    for command in COMMANDS:
        for name in (command.words, *command.aliases):
            if name[0] in SHARED_GROUPS or (len(name) > 1 and name[0] in WORKBENCH_GROUPS):
                commands[" ".join(name)] = _row(command, name)
    named = (*WORKBENCH_GROUPS, *SHARED_GROUPS)
    groups = {" ".join(name): text for name, text in {**GROUPS, **HIDDEN_GROUPS}.items() if name and name[0] in named}
    return {"version": __version__, "commands": commands, "groups": groups, "shared": list(SHARED_GROUPS)}


def _row(command: Command, name: tuple[str, ...]) -> dict[str, Any]:
    positionals = (*command.positionals, *((command.rest,) if command.rest else ()))
    return {
        "summary": command.summary,
        "description": command.description,
        "options": [_option(option) for option in command.options],
        "positionals": [_positional(positional) for positional in positionals],
        "passes_on": command.rest is not None,
        "starts": list(command.rest.starts) if command.rest else [],
        "examples": [[text, _as_az(line, command, name)] for text, line in command.examples],
    }


def _option(option: Option) -> dict[str, Any]:
    return {
        "flags": list(option.flags),
        "name": option.name,
        "help": option.help,
        "takes_value": option.kind != "flag",
        "metavar": placeholder(option),
        "choices": list(option.choices),
        "required": option.required,
        "hidden": option.hidden,
    }


def _positional(positional: Positional) -> dict[str, Any]:
    return {"label": positional.label, "help": positional.help, "required": positional.required}


def _as_az(line: str, command: Command, name: tuple[str, ...]) -> str:
    """The line with the name that the command has in ``az``."""
    for spelling in sorted((command.words, *command.aliases), key=len, reverse=True):
        start = " ".join((PROGRAM, *spelling, ""))
        if line.startswith(start):
            return " ".join(("az ml", *name, line[len(start) :]))
    return line
