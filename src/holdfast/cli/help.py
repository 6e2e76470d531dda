"""Help texts made from the command table: all commands, a group, or one command."""

from __future__ import annotations

from holdfast.cli.parse import GLOBAL_OPTIONS, PROGRAM, placeholder, usage_line
from holdfast.present import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO, TypeAlias

    from holdfast.cli.parse import Command, HelpWanted, Option

    Groups: TypeAlias = Mapping[tuple[str, ...], str]


_WIDEST = 118
_INDENT = "    "


def print_help(
    wanted: HelpWanted, commands: Sequence[Command], groups: Groups, topics: Sequence[tuple[str, str]], stream: TextIO
) -> None:
    """``groups`` gives each group's one-line summary by its words; the empty words are the program itself."""
    page = Page(min(terminal.width(stream), _WIDEST), bold=terminal.use_colour(stream))
    if wanted.command:
        command_help(page, wanted.command)
    elif wanted.words:
        group_help(page, wanted.words, commands, groups)
    else:
        top_help(page, commands, groups, topics)
    stream.write(page.text())


def top_help(page: Page, commands: Sequence[Command], groups: Groups, topics: Sequence[tuple[str, str]]) -> None:
    """Every command that has a name of one word, by topic, and every group: each with a phrase."""
    by_name = {command.short: command for command in commands if not command.hidden}
    sections = [(title, _phrases(by_name[(name,)] for name in names.split())) for title, names in topics]
    first = sorted((group[0], text.removesuffix(".")) for group, text in groups.items() if len(group) == 1)
    sections.append(("Groups", first))
    column = max((len(name) for _, entries in sections for name, _ in entries), default=0)
    page.paragraph(f"{PROGRAM}: {groups[()]}")
    for title, entries in sections:
        page.heading(title)
        page.entries(entries, column)
    page.blank()
    page.paragraph(f"Run any command with -h for details; {PROGRAM} --version shows the version.")


def _phrases(commands: Iterable[Command]) -> list[tuple[str, str]]:
    return [(command.short[0], command.phrase) for command in commands]


def group_help(page: Page, group: tuple[str, ...], commands: Sequence[Command], groups: Groups) -> None:
    page.heading("Group")
    page.entries([(" ".join((PROGRAM, *group)), groups.get(group, ""))])
    inside = {
        name[len(group)]: command.phrase if len(name) == len(group) + 1 else groups.get(name[: len(group) + 1], "")
        for command in commands
        for name in (command.words, *command.aliases)
        if name[: len(group)] == group and len(name) > len(group) and not command.hidden
    }
    page.heading("Commands:")
    page.entries(sorted(inside.items()))


def command_help(page: Page, command: Command) -> None:
    page.heading("Command")
    page.entries([(command.title, command.summary)])
    page.paragraph(f"usage: {usage_line(command)}", _INDENT)
    others = [" ".join((PROGRAM, *name)) for name in (command.words, *command.aliases) if name != command.short]
    if others:
        page.paragraph(f"also:  {', '.join(others)}", _INDENT)
    for paragraph in command.description.split("\n\n") if command.description else ():
        page.blank()
        page.paragraph(paragraph, _INDENT)
    parameters = (*command.positionals, *((command.rest,) if command.rest else ()))
    arguments = [(f"{word.label}{' [Required]' if word.required else ''}", word.help) for word in parameters]
    arguments += _option_entries(command.options)
    if arguments:
        page.heading("Arguments")
        page.entries(arguments)
    page.heading("Global Arguments")
    own = {flag for option in command.options for flag in option.flags}
    page.entries(_option_entries([option for option in GLOBAL_OPTIONS if own.isdisjoint(option.flags)]))
    if command.examples:
        page.heading("Examples")
        for what, line in command.examples:
            page.paragraph(what, _INDENT)
            page.verbatim(line)


class Page:
    """Lines of help of a given width. Headings are bold on a terminal and plain elsewhere."""

    def __init__(self, width: int, bold: bool = False) -> None:
        self._width = max(width, 40)
        self._bold = bold
        self._lines: list[str] = []

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def heading(self, text: str) -> None:
        if self._lines:
            self.blank()
        self._lines.append(f"\x1b[1m{text}\x1b[0m" if self._bold else text)

    def entries(self, entries: Sequence[tuple[str, str]], column: int = 0) -> None:
        """``name : explanation`` lines with the colons in one column and explanations wrapped beside it."""
        column = column or min(max((len(name) for name, _ in entries), default=0), self._width // 2)
        for name, explanation in entries:
            beside = name if len(name) <= column else ""
            if not beside:
                self._lines.append(f"{_INDENT}{name}")
            self._wrapped(explanation, f"{_INDENT}{beside:<{column}} : ", " " * (len(_INDENT) + column + 3))

    def names(self, names: Iterable[str]) -> None:
        self.paragraph(", ".join(names), _INDENT)

    def paragraph(self, text: str, indent: str = "") -> None:
        self._wrapped(text, indent, indent)

    def verbatim(self, line: str) -> None:
        """An example is copied and pasted, so it is never wrapped."""
        self._lines.append(f"{_INDENT}{_INDENT}{line}")

    def blank(self) -> None:
        self._lines.append("")

    def _wrapped(self, text: str, first: str, others: str) -> None:
        import textwrap

        lines = textwrap.wrap(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self._lines.extend(lines or [first.removesuffix(" : ").rstrip()])


def _option_entries(options: Iterable[Option]) -> list[tuple[str, str]]:
    return [(_option_name(option), _option_text(option)) for option in options if not option.hidden]


def _option_name(option: Option) -> str:
    parts = [*option.flags, placeholder(option), "[Required]" if option.required else ""]
    return " ".join(filter(None, parts))


def _option_text(option: Option) -> str:
    text = option.help
    if option.choices:
        text += f" One of {', '.join(option.choices)}."
    if option.default is not None:
        text += f" Default: {option.default}."
    if option.kind == "repeat":
        text += " May be repeated."
    return text.strip()
