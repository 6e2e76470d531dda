"""Parses the command line into one command and its values.

The commands are a table of plain data; this module only reads it. The rules, in full:

- ``holdfast ml X`` means ``holdfast X``; ``holdfast help X`` means ``holdfast X --help``.
- The longest run of words that names a command wins. Global options may also stand before and between those words.
- ``--opt value``, ``--opt=value`` and ``-o value`` are the same. Flags are whole words (``-ap`` is one flag), so
  they are neither bundled nor abbreviated.
- An option takes the next word as its value even if that starts with a dash (``-r -5``), unless the word is itself
  a flag of the command or ``--``; such a value is written ``--opt=--wait``.
- An option given twice: the last one wins, unless it is one that repeats. ``--`` ends the options.
- An option marked ``loose`` may be given without its flag, in a command that has no positionals: ``logs 12``. For one
  marked ``leading`` the first words that can only be a run are its values: ``tag 12 kept``, ``exec 12 ls``.
- A command with a ``rest`` stops at the first word that is not an option. That word and all after it belong to the
  script and are handed on untouched. The one exception is an option marked ``trailing``: old material writes
  ``submit x.py --wait``, so it is understood as the very last word too, unless ``--`` stood before the script.
- A group without a command, or an empty command line, shows help on stderr with exit code 2 (``HelpWanted.asked`` is
  False), so that a script with a mistake does not succeed.
"""

from __future__ import annotations

from holdfast.cli import run_arguments
from holdfast.errors import UsageError
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal, NoReturn, TypeAlias, TypedDict

    Value: TypeAlias = bool | str | tuple[str, ...] | None

    class Form(TypedDict):
        fmt: str | None
        query: str | None
        capitals: bool


PROGRAM = "holdfast"
# What people type who know other programs.
_SYNONYMS = {
    **dict.fromkeys(("stop", "kill", "abort", "terminate"), ("cancel",)),
    **dict.fromkeys(("remove", "rm", "del"), ("delete",)),
    **dict.fromkeys(("list", "ls", "ps", "jobs"), ("runs",)),
    **dict.fromkeys(("run", "train", "launch"), ("submit",)),
    **dict.fromkeys(("log", "tail", "follow"), ("logs",)),
    **dict.fromkeys(("show", "describe"), ("info",)),
}
FORMATS = ("json", "jsonc", "table", "tsv", "csv", "yaml")


class Option(Record):
    """One option: how it is spelled, the name its value is stored under, and what it accepts.

    Two options may share a name: an old spelling that help need not show is a hidden option of its own.
    """

    flags: tuple[str, ...]
    name: str
    help: str = ""
    kind: Literal["value", "flag", "repeat"] = "value"
    metavar: str = ""
    default: str | None = None
    choices: tuple[str, ...] = ()
    required: bool = False
    hidden: bool = False
    trailing: bool = False
    loose: bool = False
    leading: bool = False


class Positional(Record):
    """A word (``many``: all remaining words) without a flag. ``starts``: flags that begin it, as ``-m`` of Python."""

    name: str
    help: str = ""
    metavar: str = ""
    required: bool = True
    many: bool = False
    starts: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.metavar or self.name.upper()


class Command(Record):
    """One command. ``run`` is "module:function", imported when it is used; an example is (what it does, the line)."""

    words: tuple[str, ...]
    summary: str
    run: str
    options: tuple[Option, ...] = ()
    positionals: tuple[Positional, ...] = ()
    rest: Positional | None = None
    aliases: tuple[tuple[str, ...], ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    description: str = ""
    hidden: bool = False
    paged: bool = False  # at a terminal, long output goes through a pager

    @property
    def short(self) -> tuple[str, ...]:
        """The shortest name; ``words`` is the original's."""
        return min((self.words, *self.aliases), key=len)

    @property
    def title(self) -> str:
        return " ".join((PROGRAM, *self.short))

    @property
    def phrase(self) -> str:
        """The first clause of the summary, for lists of commands."""
        for end in (": ", "; "):
            if end in self.summary:
                return self.summary.partition(end)[0]
        return self.summary.partition(". ")[0].removesuffix(".")


class Parsed(Record):
    """A command with a value for each of its options and positionals, and the script's own arguments.

    ``compatible``: it was typed as ``ml ...``, so it prints the original's columns. ``after_dashes``: after ``--``.
    """

    command: Command
    values: Mapping[str, Value]
    rest: tuple[str, ...] = ()
    compatible: bool = False
    after_dashes: bool = False

    def form(self) -> Form:
        """How ``present.output.emit`` prints the result."""
        return {"fmt": self.text("output"), "query": self.text("query"), "capitals": self.compatible}

    def flag(self, name: str) -> bool:
        return self.values[name] is True

    def text(self, name: str) -> str | None:
        value = self.values[name]
        return value if isinstance(value, str) else None

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        return value if isinstance(value, tuple) else ()


class HelpWanted(Record):
    """Help was requested, or the command line is incomplete. Without ``command``, ``words`` name a group."""

    words: tuple[str, ...]
    command: Command | None
    asked: bool


GLOBAL_OPTIONS = (
    Option(("--help", "-h"), "help", "Show this help and exit.", kind="flag"),
    Option(("--debug",), "debug", "Show full tracebacks.", kind="flag"),
    Option(("--verbose", "-v"), "verbose", "Show which files and programs are used.", kind="flag"),
    Option(
        ("--output", "-o"),
        "output",
        "Output format. Default: table at a terminal, json otherwise.",
        metavar="FORMAT",
        choices=FORMATS,
    ),
    Option(("--query",), "query", "JMESPath expression applied to the result.", metavar="JMESPATH"),
    Option(("--no-pager",), "no_pager", "Do not send long output through a pager.", kind="flag"),
)


def parse(commands: Sequence[Command], argv: Sequence[str]) -> Parsed | HelpWanted:
    tokens = _without_prefixes(argv)
    compatible = list(argv[:1]) == ["ml"]
    table = {name: command for command in commands for name in (command.words, *command.aliases)}
    heard = Values(GLOBAL_OPTIONS)
    named, at = _find_command(table, tokens, heard)
    command = table.get(named)
    if command is None:
        return HelpWanted(named, None, asked=heard.values["help"] is True)
    named_by = command._replace(aliases=()) if compatible else command  # help and errors have the original's name
    values = Values((*GLOBAL_OPTIONS, *command.options), named_by, heard.values)
    loose, rest, dashes = _read_options(command, tokens, at, values)
    if values.values["help"] is True:
        return HelpWanted(command.words, named_by, asked=True)
    if command.rest is not None and not dashes:
        rest = _take_trailing(rest, values)
    loose, rest = run_arguments.take(command, loose, rest, values, dashes)
    _place(named_by, loose, values.values)
    _check_required(named_by, values.values, rest)
    return Parsed(command, values.values, tuple(rest), compatible, dashes)


def usage_line(command: Command) -> str:
    """One line a person can type from: required options first, then positionals, then the script."""
    needed = [f"{option.flags[0]} {placeholder(option)}" for option in command.options if option.required]
    parts = [command.title, *needed]
    if any(not option.required and not option.hidden for option in command.options):
        parts.append("[OPTIONS]")
    loose = run_arguments.loose_option(command)
    if loose is not None:
        parts.append(f"[{placeholder(loose)} ...]" if loose.kind == "repeat" else f"[{placeholder(loose)}]")
    for positional in (*command.positionals, *((command.rest,) if command.rest else ())):
        label = f"{positional.label} ..." if positional.many else positional.label
        parts.append(label if positional.required else f"[{label}]")
    return " ".join(parts)


def placeholder(option: Option) -> str:
    """The placeholder for the option's value in help and usage; empty for a flag."""
    return "" if option.kind == "flag" else option.metavar or option.name.upper()


class Values:
    """Collects option values while words are read; starts from the defaults."""

    def __init__(
        self, options: Sequence[Option], command: Command | None = None, heard: Mapping[str, Value] | None = None
    ) -> None:
        self.by_flag = {flag: option for option in options for flag in option.flags}
        self.command = command
        self.values: dict[str, Value] = {option.name: _nothing(option) for option in options}
        self.values.update(heard or {})

    def is_flag(self, word: str) -> bool:
        return word in self.by_flag or word.partition("=")[0] in self.by_flag

    def read(self, tokens: Sequence[str], at: int) -> int:
        """Take the option at ``tokens[at]`` with its value; return the next position."""
        flag, equals, value = tokens[at], "", ""
        if flag not in self.by_flag:
            flag, equals, value = flag.partition("=")
        option = self.by_flag.get(flag)
        if option is None:
            self._unknown(flag)
        if option.kind == "flag":
            if equals:
                self.refuse(f"{flag} takes no value, but got {_quoted(value)}")
            self.values[option.name] = True
            return at + 1
        if not equals:
            value = self._next_word(flag, tokens, at + 1)
        self._store(option, flag, value)
        return at + (1 if equals else 2)

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        if self.command:
            raise _misuse(self.command, what, hint)
        raise UsageError(what, where=PROGRAM, answer=f"usage: {PROGRAM} COMMAND [OPTIONS]", hint=hint)

    def _next_word(self, flag: str, tokens: Sequence[str], at: int) -> str:
        if at >= len(tokens):
            self.refuse(f"{flag} needs a value")
        if tokens[at] == "--" or self.is_flag(tokens[at]):
            self.refuse(
                f"{flag} needs a value, but the next argument is {_quoted(tokens[at])}",
                hint=f"if this is the value, write {flag}=VALUE",
            )
        return tokens[at]

    def _store(self, option: Option, flag: str, value: str) -> None:
        if option.choices and value not in option.choices:
            self.refuse(
                f"invalid value {_quoted(value)} for {flag}",
                hint=f"{_nearest(value, option.choices)} the choices are {', '.join(option.choices)}".lstrip(),
            )
        if option.kind == "repeat":
            so_far = self.values[option.name]
            self.values[option.name] = (*(so_far if isinstance(so_far, tuple) else ()), value)
        else:
            self.values[option.name] = value

    def _unknown(self, flag: str) -> NoReturn:
        visible = [known for known, option in self.by_flag.items() if not option.hidden]
        title = self.command.title if self.command else PROGRAM
        rest = self.command.rest if self.command else None
        other = f"see {title} -h"
        if rest is not None and rest.name in ("script", "command"):
            other = f"options of the {rest.name} go after the {rest.name}"
        near = _nearest(flag, visible, cutoff=0.75 if rest is not None else 0.6)
        raise UsageError(f"unknown option {_quoted(flag)}; {near or other}")


def _without_prefixes(argv: Sequence[str]) -> list[str]:
    tokens = list(argv[1:] if list(argv[:1]) == ["ml"] else argv)
    return ["--help", *tokens[1:]] if tokens[:1] == ["help"] else tokens


def _find_command(
    table: Mapping[tuple[str, ...], Command], tokens: Sequence[str], heard: Values
) -> tuple[tuple[str, ...], int]:
    """The longest run of words that names a command or group, and the index of the first word after it."""
    prefixes = {name[:length] for name in table for length in range(1, len(name) + 1)}
    named: tuple[str, ...] = ()
    at = 0
    while at < len(tokens):
        word = tokens[at]
        if (*named, word) in prefixes:
            named = (*named, word)
            at += 1
        elif named in table:
            break
        elif word.startswith("-"):
            at = heard.read(tokens, at)
        else:
            _unknown_command(table, named, word)
    return named, at


def _unknown_command(table: Mapping[tuple[str, ...], Command], named: tuple[str, ...], word: str) -> NoReturn:
    """One line with a command that has this name in another group or means the same, or else the nearest name."""
    depth = len(named)
    visible = [name for name, command in table.items() if not command.hidden]
    siblings = sorted({name[depth] for name in visible if len(name) > depth and name[:depth] == named})
    same = [name for name in visible if name[-1] == word or name == _SYNONYMS.get(word)]
    same.sort(key=lambda name: (name != _SYNONYMS.get(word), name[0] != "history", len(name)))
    known = f"did you mean '{' '.join(same[0])}'?" if same else ""
    if (*named, word) == ("version",):
        known = "did you mean '--version'?"
    near = known or _nearest(word, siblings, " ".join((*named, "")))
    near = near or "see " + " ".join((PROGRAM, *named, "-h"))
    raise UsageError(f"unknown command {_quoted(' '.join((*named, word)))}; {near}")


def _read_options(
    command: Command, tokens: Sequence[str], at: int, values: Values
) -> tuple[list[str], list[str], bool]:
    """Read options from ``at`` on: the loose words, the script's words, and whether ``--`` ended the options."""
    loose: list[str] = []
    while at < len(tokens) and values.values["help"] is not True:
        word = tokens[at]
        if word == "--":
            tail = list(tokens[at + 1 :])
            return (loose, tail, True) if command.rest else ([*loose, *tail], [], True)
        starts = command.rest is not None and word in command.rest.starts
        if word.startswith("-") and word != "-" and not starts:
            at = values.read(tokens, at)
        elif command.rest and (starts or len(loose) == len(command.positionals)):
            return loose, list(tokens[at:]), False
        else:
            loose.append(word)
            at += 1
    return loose, [], False


def _take_trailing(rest: list[str], values: Values) -> list[str]:
    option = values.by_flag.get(rest[-1]) if rest else None
    if option is None or not option.trailing:
        return rest
    values.values[option.name] = True
    return rest[:-1]


def _place(command: Command, loose: list[str], values: dict[str, Value]) -> None:
    for positional in command.positionals:
        if positional.many:
            values[positional.name] = tuple(loose)
            loose = []
        else:
            values[positional.name] = loose[0] if loose else None
            loose = loose[1:]
    if loose:
        raise _misuse(command, f"unexpected argument {_quoted(loose[0])}", "quote a value that contains spaces")


def _check_required(command: Command, values: Mapping[str, Value], rest: Sequence[str]) -> None:
    missing = [option.flags[0] for option in command.options if option.required and not values[option.name]]
    missing += [word.label for word in command.positionals if word.required and not values[word.name]]
    if command.rest and command.rest.required and not rest:
        missing.append(command.rest.label)
    if missing:
        raise _misuse(command, f"missing {' and '.join(missing)}", f"see {command.title} -h")


def _misuse(command: Command, what: str, hint: str) -> UsageError:
    return UsageError(what, where=command.title, answer=f"usage: {usage_line(command)}", hint=hint)


def _nothing(option: Option) -> Value:
    if option.kind == "flag":
        return False
    return () if option.kind == "repeat" else option.default


def _quoted(word: str) -> str:
    from holdfast.present.terminal import show

    return f"'{show(word)}'"


def _nearest(word: str, known: Iterable[str], before: str = "", cutoff: float = 0.6) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"did you mean '{before}{near[0]}'?" if near else ""
