"""Generates tables of the documentation from the source: ``python tools/docs.py [--check]``.

The text between ``<!-- made from ...: name -->`` and ``<!-- end -->`` of a page is replaced; the rest stays. With
``--check`` nothing is written, and the exit code is 1 if a page is not up to date.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.amlconfig.docker_arguments import HARMLESS
from holdfast.cli.parse import GLOBAL_OPTIONS, PROGRAM, placeholder, usage_line
from holdfast.cli.table.commands import COMMANDS
from holdfast.cli.table.topics import GROUPS
from holdfast.engine.submit.trust_policy import TABLE
from holdfast.errors import HoldfastError
from holdfast.runner.run.script_process import INHERITED
from holdfast.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.cli.parse import Command, Option, Positional

DOCS = Path(__file__).resolve().parent.parent / "docs"
SOURCE = DOCS.parent / "src" / "holdfast"
PAGES = ("commands.md", "errors.md", "modules.md", "settings.md", "trust.md")
_PART = re.compile(r"(?P<head><!-- made from \S+: (?P<name>[\w ]+) -->\n).*?(?P<foot><!-- end -->)", re.DOTALL)


def main(argv: Sequence[str]) -> int:
    stale = [name for name in PAGES if (DOCS / name).read_text(encoding="utf-8") != made(name)]
    if list(argv) == ["--check"]:
        for name in stale:
            print(f"docs/{name} is not up to date; python tools/docs.py writes it", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (DOCS / name).write_text(made(name), encoding="utf-8")
        print(f"docs/{name} written")
    return 0


def made(page: str) -> str:
    """The page as it should be."""
    return filled((DOCS / page).read_text(encoding="utf-8"))


def filled(text: str) -> str:
    parts = {
        "commands": commands,
        "global options": lambda: options_table(GLOBAL_OPTIONS),
        "exit codes": exit_codes,
        "user settings": user_settings,
        "inherited variables": inherited_variables,
        "modules": modules,
        "trust table": trust_table,
        "harmless docker arguments": harmless_docker_arguments,
    }
    return _PART.sub(lambda found: f"{found['head']}\n{parts[found['name']]()}\n\n{found['foot']}", text)


def commands() -> str:
    """Every command in the order of the table, under its first word; those of one word come last."""
    single = [command for command in COMMANDS if len(command.words) == 1]
    grouped: dict[str, list[Command]] = {}
    for command in COMMANDS:
        if command not in single:
            grouped.setdefault(command.words[0], []).append(command)
    blocks = []
    for name, inside in grouped.items():
        blocks += [f"## {PROGRAM} {name}", GROUPS.get((name,), ""), *map(_command, inside)]
    blocks += ["## Commands of one word", *map(_command, single)]
    return "\n\n".join(filter(None, blocks))


def options_table(options: Iterable[Option]) -> str:
    return table(("option", "meaning"), ((_spelled(option), _meaning(option)) for option in options))


def exit_codes() -> str:
    rows = (
        (str(error.exit_code), f"`{error.__name__}`", f"`{error.code}`", error.__doc__ or "")
        for error in error_classes()
    )
    return table(("exit code", "error", "code", "meaning"), rows)


def error_classes() -> list[type[HoldfastError]]:
    return sorted(_below(HoldfastError), key=lambda error: error.exit_code)


def user_settings() -> str:
    rows = (
        (f"`{name}`", setting.help, f"`{setting.default}`" if setting.default else "")
        for name, setting in SETTINGS.items()
    )
    return table(("setting", "meaning", "default"), rows)


def inherited_variables() -> str:
    return ", ".join(f"`{name}`" for name in INHERITED) + ", and every name that begins with `LC_`."


def trust_table() -> str:
    rows = ((rule.files, f"`{rule.key}`", rule.rule, rule.note) for rule in TABLE)
    return table(("file", "key", "rule", "note"), rows)


def harmless_docker_arguments() -> str:
    return ", ".join(f"`{name}`" for name in sorted(HARMLESS))


def modules() -> str:
    """A table for each folder of the source, with the first sentence of each module's docstring."""
    folders: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        folder = path.parent.relative_to(SOURCE).as_posix()
        if path.name != "__init__.py" and folder.partition("/")[0] not in ("templates", "compat"):
            folders.setdefault(folder, []).append((f"`{path.stem}`", purpose(path)))
    blocks = []
    for folder in sorted(folders, key=lambda name: (name != ".", name)):
        title = "Top level" if folder == "." else f"`{folder}/`"
        blocks += [
            f"## {title}",
            purpose(SOURCE / folder / "__init__.py"),
            table(("module", "purpose"), folders[folder]),
        ]
    return "\n\n".join(filter(None, blocks))


def purpose(path: Path) -> str:
    """The first sentence of a module's docstring, or of the comment that it begins with."""
    text = path.read_text(encoding="utf-8")
    comment = re.match(r"(#[^\n]*\n)+", text)
    words = ast.get_docstring(ast.parse(text)) or (comment[0].replace("# ", "") if comment else "")
    sentence = re.split(r"(?<=[.:]) (?=[A-Z])", " ".join(words.partition("\n\n")[0].split()))[0]
    return sentence.replace("``", "`").removesuffix(":") + ("." if sentence[-1:] not in ".:" else "")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _command(command: Command) -> str:
    others = (name for name in (command.words, *command.aliases) if name != command.short)
    aliases = ", ".join(f"`{' '.join((PROGRAM, *name))}`" for name in others)
    words = (*command.positionals, *((command.rest,) if command.rest else ()))
    rows = [*map(_word, words), *((_spelled(option), _meaning(option)) for option in command.options)]
    blocks = [
        f"### {command.title}",
        command.summary,
        f"Also {aliases}." if aliases else "",
        f"    {usage_line(command)}",
        command.description,
        table(("option", "meaning"), rows) if rows else "",
        *(f"{what}:\n\n    {line}" for what, line in command.examples),
    ]
    return "\n\n".join(filter(None, blocks))


def _word(word: Positional) -> tuple[str, str]:
    return f"`{word.label}`", word.help


def _spelled(option: Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in option.flags)
    value = placeholder(option)
    return f"{flags} `{value}`" if value else flags


def _meaning(option: Option) -> str:
    text = option.help or "Accepted for old command lines; not used."
    if option.choices:
        text += f" One of {', '.join(option.choices)}."
    if option.default is not None:
        text += f" Default: `{option.default}`."
    if option.kind == "repeat":
        text += " May be given several times."
    return text + (" Required." if option.required else "")


def _below(error: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    for child in error.__subclasses__():
        yield child
        yield from _below(child)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
