"""The ``az ml`` commands of the Azure Machine Learning Workbench, run by Holdfast.

The arguments are read by Holdfast, not here: the words of the command line are handed on as they were typed, because
everything after a script's name belongs to the script. The table of commands serves help and completion only.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from azure.cli.core import AzCommandsLoader
from knack.events import EVENT_INVOKER_PRE_PARSE_ARGS
from knack.help_files import helps
from knack.log import get_logger

from azext_holdfast import arguments, program

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = get_logger(__name__)
_MICROSOFTS = {"ml": "the extension of Azure Machine Learning", "azure-cli-ml": "the retired extension azure-cli-ml"}


class HoldfastCommandsLoader(AzCommandsLoader):  # type: ignore[misc]
    """Registers the commands, and keeps the words of the command line for the one that is run."""

    def __init__(self, cli_ctx: Any = None) -> None:
        from azure.cli.core.commands import CliCommandType

        handler = CliCommandType(operations_tmpl="azext_holdfast.program#{}")
        super().__init__(cli_ctx=cli_ctx, custom_command_type=handler)
        with open(os.path.join(os.path.dirname(__file__), "commands.json"), encoding="utf-8") as source:
            self.table: dict[str, Any] = json.load(source)
        self.argv: list[str] = []
        self.is_hooked = False

    def load_command_table(self, args: list[str]) -> dict[str, Any]:
        self.argv = list(args or ())
        for name, row in self._commands():
            group, _, verb = f"ml {name}".rpartition(" ")
            with self.command_group(group) as commands:
                commands.custom_command(verb, "run")
            helps[f"ml {name}"] = arguments.help_text(row)
        for name, text in self.table["groups"].items():
            helps[f"ml {name}"] = json.dumps({"type": "group", "short-summary": text})
        helps.setdefault("ml", json.dumps({"type": "group", "short-summary": "Machine learning, run by Holdfast."}))
        if not self.is_hooked:
            self.is_hooked = True
            self.cli_ctx.register_event(EVENT_INVOKER_PRE_PARSE_ARGS, self._hand_over)
        table: dict[str, Any] = self.command_table
        return table

    def load_arguments(self, command: str) -> None:
        row = self._row(command)
        if row is None or _other_extension(self.cli_ctx, command):
            return
        with self.argument_context(command) as context:
            arguments.register(context, row, required=arguments.asks_for_help(row, self._own_words(command)))

    def _hand_over(self, cli_ctx: Any, **event: Any) -> None:
        """Leave to the parser of the Azure CLI only what it must know: the command, and whether help is wanted."""
        command = cli_ctx.invocation.data["command_string"]
        row = self._row(command)
        if row is None or not _is_ours(cli_ctx, command):
            return
        words = self._own_words(command)
        typed = command.split()
        if arguments.asks_for_help(row, words):
            event["args"][:] = [*typed, "--help"]
            return
        program.prepare(cli_ctx, typed, row, words)
        event["args"][:] = typed

    def _own_words(self, command: str) -> list[str]:
        """The words after the command, as they were typed: the Azure CLI replaces ``@FILE`` by the file's content."""
        return arguments.as_typed(self.argv)[len(command.split()) :]

    def _row(self, command: str) -> dict[str, Any] | None:
        return dict(self._commands()).get(command.removeprefix("ml ")) if command else None

    def _commands(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """All commands but those that an installed extension of Microsoft has too."""
        others = _installed()
        for name, row in self.table["commands"].items():
            if not (others and name.partition(" ")[0] in self.table["shared"]):
                yield name, row


def _is_ours(cli_ctx: Any, command: str) -> bool:
    """Whether the command that will run is ours; a warning says how to make it ours."""
    other = _other_extension(cli_ctx, command)
    if other:
        logger.warning(
            "az %s is run by the extension %s, which has a command of this name too. To run it with Holdfast: "
            "az extension remove --name %s; or type holdfast %s",
            command,
            other,
            other,
            command.removeprefix("ml "),
        )
    return not other


def _other_extension(cli_ctx: Any, command: str) -> str:
    """The extension whose command of this name will run; the last of two that have it wins. Empty: ours."""
    source = getattr(cli_ctx.invocation.commands_loader.command_table.get(command), "command_source", None)
    name = getattr(source, "extension_name", program.EXTENSION)
    return "" if name == program.EXTENSION else str(name)


def _installed() -> list[str]:
    """Extensions of Microsoft that have commands below ``az ml``."""
    from azure.cli.core.extension import get_extensions

    return [extension.name for extension in get_extensions() or () if extension.name in _MICROSOFTS]


COMMAND_LOADER_CLS = HoldfastCommandsLoader
