"""Generates tables of the documentation from the source: ``python tools/docs.py [--check]``.

The text between ``<!-- made from ...: name -->`` and ``<!-- end -->`` of a page is replaced; the rest stays. With
``--check`` nothing is written, and the exit code is 1 if a page is not up to date.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from holdfast._version import __version__
from holdfast.amlconfig.docker_arguments import HARMLESS
from holdfast.cli.parse import GLOBAL_OPTIONS, PROGRAM, placeholder, usage_line
from holdfast.cli.table.commands import COMMANDS as ALL_COMMANDS
from holdfast.cli.table.topics import GROUPS, TOPICS
from holdfast.engine.submit.trust_policy import TABLE
from holdfast.errors import HoldfastError
from holdfast.runner.run.script_process import INHERITED
from holdfast.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.cli.parse import Command, Option, Positional

COMMANDS = tuple(command for command in ALL_COMMANDS if not command.hidden)
DOCS = Path(__file__).resolve().parent.parent / "docs"
SOURCE = DOCS.parent / "src" / "holdfast"
PAGES = ("azure-cli.md", "commands.md", "errors.md", "holdfast.1", "modules.md", "settings.md", "trust.md")
_PART = re.compile(r"(?P<head><!-- made from \S+: (?P<name>[\w ]+) -->\n).*?(?P<foot><!-- end -->)", re.DOTALL)


def main(argv: Sequence[str]) -> int:
    stale = [name for name in PAGES if not (DOCS / name).exists() or (DOCS / name).read_text("utf-8") != made(name)]
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
    if page == "holdfast.1":
        return manual_page()
    return filled((DOCS / page).read_text(encoding="utf-8"))


def filled(text: str) -> str:
    parts = {
        "commands": commands,
        "global options": lambda: options_table(GLOBAL_OPTIONS),
        "exit codes": exit_codes,
        "user settings": user_settings,
        "inherited variables": inherited_variables,
        "modules": modules,
        "steps of the guide": steps_of_the_guide,
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
        (str(error.exit_code), f"`{error.__name__}`", f"`{error.code}`", _first_paragraph(error))
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


def steps_of_the_guide() -> str:
    """How many work as printed, and each of them; every step names its test."""
    steps = runpy.run_path(str(DOCS.parent / "tests" / "azure_cli" / "guide.py"))
    return f"{fill(steps['counted'](), 120)}\n\n{table(('', 'step', 'works', 'how'), steps['rows']())}"


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
    for cell in (cell for cells in lines for cell in cells if "\n" in cell):
        raise ValueError(f"a cell of a table has more than one line: {cell!r}")
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


def manual_page() -> str:
    """holdfast(1), in the man macros of troff; the wheel installs it in share/man/man1."""
    by_name = {command.short: command for command in COMMANDS}
    titles = {name: title for title, names in TOPICS for name in names.split()}
    sections: dict[str, list[Command]] = {title: [] for title, _ in TOPICS}
    for name, command in sorted(by_name.items(), key=lambda item: (len(item[0]) > 1, _position(item[0]))):
        heading = titles[name[0]] if len(name) == 1 else GROUPS[name[:1]].removesuffix(".")
        sections.setdefault(heading, []).append(command)
    variables = (DOCS / "settings.md").read_text("utf-8").partition("## Environment variables that Holdfast reads")[2]
    rows = re.findall(r"^\| (`.*?`.*?) \| (.*) \|$", variables.partition("\nVariables that")[0], re.MULTILINE)
    parts = [
        '.\\" Made by tools/docs.py from the command table.',
        f'.TH HOLDFAST 1 "" "holdfast {__version__}" "User Commands"',
        f".SH NAME\nholdfast \\- {_roff(GROUPS[()].removesuffix('.').replace('Run', 'run', 1))}",
        ".SH SYNOPSIS\n.B holdfast\n.I COMMAND\n[\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION\nEvery command about runs has a name of one word.",
        "The longer names are those of Azure ML Workbench and work too.",
        "\\fBholdfast COMMAND \\-h\\fR shows the help of a command.",
        ".SH GLOBAL OPTIONS",
        *(_roff_entry(_roff_option(option), _meaning(option)) for option in GLOBAL_OPTIONS),
        ".SH COMMANDS",
        *(f".SS {title}\n" + "\n".join(map(_roff_command, inside)) for title, inside in sections.items()),
        ".SH EXIT STATUS\nThat of the script after \\fBsubmit\\fR, that of the command after \\fBexec\\fR; otherwise:",
        _roff_entry("\\fB0\\fR", "Success."),
        *(_roff_entry(f"\\fB{code}\\fR", meaning) for code, meaning in sorted(_exit_codes().items())),
        ".SH ENVIRONMENT",
        *(_roff_entry(f"\\fB{_roff(_plain(names))}\\fR", _plain(meaning)) for names, meaning in rows),
        ".SH FILES",
        _roff_entry("\\fI~/.holdfast\\fR", "The store: runs, targets, settings and environments."),
        _roff_entry("\\fI.holdfast\\-project\\fR", "In a project: its id."),
        _roff_entry("\\fIaml_config/\\fR", "In a project: targets and run configurations."),
        ".SH SEE ALSO\n.BR ssh (1),\n.BR docker (1),\n.BR podman (1)",
    ]
    return "\n".join(parts) + "\n"


def _position(name: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    listed = [word for _, names in TOPICS for word in names.split()]
    return (listed.index(name[0]), ()) if len(name) == 1 else (0, name)


def _exit_codes() -> dict[int, str]:
    """Each exit code with the meaning of its most general error."""
    return {error.exit_code: _first_paragraph(error) for error in reversed(error_classes())}


def _first_paragraph(error: type[HoldfastError]) -> str:
    return " ".join((error.__doc__ or "").partition("\n\n")[0].split()).replace("``", "`")


def _roff_command(command: Command) -> str:
    words = (*command.positionals, *((command.rest,) if command.rest else ()))
    others = [" ".join((PROGRAM, *name)) for name in (command.words, *command.aliases) if name != command.short]
    lines = [_roff_entry(f"\\fB{_roff(usage_line(command))}\\fR", command.summary)]
    lines += [_roff(f"Also {', '.join(others)}.")] if others else []
    lines += [_roff(command.description)] if command.description else []
    entries = [(f"\\fI{_roff(word.label)}\\fR", word.help) for word in words]
    entries += [(_roff_option(option), _meaning(option)) for option in command.options if not option.hidden]
    if entries:
        lines += [".RS", *(_roff_entry(*entry) for entry in entries), ".RE"]
    for what, line in command.examples:
        lines += [".IP", f"{_roff(what)}:", ".nf", _roff(line), ".fi"]
    return "\n".join(lines)


def _roff_option(option: Option) -> str:
    flags = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in option.flags)
    value = placeholder(option)
    return f"{flags} \\fI{_roff(value)}\\fR" if value else flags


def _roff_entry(head: str, text: str) -> str:
    return f".TP\n{head}\n{_roff(text)}"


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "").replace("'", "\\(aq").replace("~", "\\(ti")
    return text.replace("^", "\\(ha").replace('"', "\\(dq")


def _plain(text: str) -> str:
    """Markdown without its marks."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


def _below(error: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    for child in error.__subclasses__():
        yield child
        yield from _below(child)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
