from __future__ import annotations

import io
import re
from collections import Counter

import pytest

from holdfast.cli.help import print_help
from holdfast.cli.parse import Command, HelpWanted, Option, Positional, parse
from holdfast.cli.table import commands, topics

SUBMIT = Command(
    ("experiment", "submit"),
    "Run a script on a target and follow it.",
    "nowhere:run",
    options=(
        Option(("--run-configuration", "-c"), "configuration", "Which run configuration to use.", metavar="NAME"),
        Option(("--runconfig",), "configuration", hidden=True),
        Option(("--fetch",), "fetch", "What to bring home.", choices=("all", "none"), default="all"),
        Option(("--env", "-e"), "env", "Set a variable.", kind="repeat", metavar="NAME=VALUE"),
    ),
    rest=Positional("script", "The script and its own arguments.", "SCRIPT [ARGUMENT ...]"),
    aliases=(("submit",),),
    examples=(("Run it here:", "holdfast submit -c local train.py --lr 0.1"),),
    description="The project is copied first.\n\nCtrl-C stops the log stream, not the run.",
)
STATUS = Command(("experiment", "status"), "Say how a run is doing.", "nowhere:run")
START = Command(("execute", "start"), "Old name of submit.", "nowhere:run", hidden=True)
DU = Command(("du",), "Show what takes room.", "nowhere:run")
COMMANDS = (SUBMIT, STATUS, START, DU)
GROUPS = {(): "Runs scripts.", ("experiment",): "Start and stop runs."}
TOPICS = (("Start", "submit"), ("Disk", "du"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def helped(*argv: str, stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    wanted = parse(COMMANDS, argv)
    assert isinstance(wanted, HelpWanted)
    print_help(wanted, COMMANDS, GROUPS, TOPICS, stream)
    return stream.getvalue()


def test_top_level() -> None:
    assert helped("-h") == (
        "holdfast: Runs scripts.\n"
        "\n"
        "Start\n"
        "    submit     : Run a script on a target and follow it\n"
        "\n"
        "Disk\n"
        "    du         : Show what takes room\n"
        "\n"
        "Groups\n"
        "    experiment : Start and stop runs\n"
        "\n"
        "Run any command with -h for details; holdfast --version shows the version.\n"
    )


def test_first_page_has_every_name_of_one_word_with_a_phrase_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    print_help(HelpWanted((), None, asked=True), commands.COMMANDS, topics.GROUPS, topics.TOPICS, stream)
    entries = [line.partition(" : ") for line in stream.getvalue().splitlines() if line.startswith("    ")]
    assert [name for name, colon, phrase in entries if not (colon and phrase.strip())] == []
    listed = Counter(name.strip() for name, _, _ in entries)
    named = Counter(command.short[0] for command in commands.COMMANDS if len(command.short) == 1 and not command.hidden)
    groups = Counter(words[0] for words in topics.GROUPS if len(words) == 1)
    assert listed == named + groups


def test_no_two_commands_share_a_name() -> None:
    names = Counter(name for command in commands.COMMANDS for name in (command.words, *command.aliases))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_command_about_runs_has_a_name_of_one_word() -> None:
    about_runs = [command for command in commands.COMMANDS if command.words[0] in ("experiment", "history")]
    assert len(about_runs) > 20
    assert [command.words for command in about_runs if len(command.short) != 1] == []


@pytest.mark.parametrize("group", sorted(words for words in topics.GROUPS if words), ids=" ".join)
def test_group_lists_its_commands_with_a_phrase_each(group: tuple[str, ...]) -> None:
    wanted = parse(commands.COMMANDS, [*group, *(["-h"] if group in (("passport",), ("ui",)) else [])])
    assert isinstance(wanted, HelpWanted)
    stream = io.StringIO()
    print_help(wanted._replace(command=None, words=group), commands.COMMANDS, topics.GROUPS, topics.TOPICS, stream)
    listed = re.findall(r"^    (\S+) +: (\S.*)$", stream.getvalue().partition("Commands:")[2], re.MULTILINE)
    names = (name for command in commands.COMMANDS for name in (command.words, *command.aliases))
    assert [name for name, _ in listed] == sorted(
        {name[len(group)] for name in names if name[: len(group)] == group and len(name) > len(group)}
    )


def test_group() -> None:
    assert helped("experiment") == (
        "Group\n"
        "    holdfast experiment : Start and stop runs.\n"
        "\n"
        "Commands:\n"
        "    status : Say how a run is doing\n"
        "    submit : Run a script on a target and follow it\n"
    )


def test_command() -> None:
    text = helped("submit", "-h")
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings == ["Command", "Arguments", "Global Arguments", "Examples"]
    assert "    usage: holdfast submit [OPTIONS] SCRIPT [ARGUMENT ...]\n" in text
    assert "    also:  holdfast experiment submit\n" in text
    assert "    The project is copied first.\n\n    Ctrl-C stops the log stream, not the run.\n" in text
    assert "    --run-configuration -c NAME      : Which run configuration to use.\n" in text
    assert "    SCRIPT [ARGUMENT ...] [Required] : The script and its own arguments.\n" in text
    assert "    --fetch FETCH                    : What to bring home. One of all, none.\n" in text
    assert "May be repeated." in " ".join(text.split())
    assert "    Run it here:\n        holdfast submit -c local train.py --lr 0.1\n" in text
    assert "--runconfig " not in text


def test_original_spelling_shows_the_original_name() -> None:
    text = helped("ml", "submit", "-h")
    assert "    usage: holdfast experiment submit [OPTIONS] SCRIPT [ARGUMENT ...]\n" in text
    assert "also:" not in text


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_lines_fit_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    wrapped, _, examples = helped("submit", "-h").partition("Examples")
    assert max(map(len, wrapped.splitlines())) <= columns
    assert "holdfast submit -c local train.py --lr 0.1\n" in examples


def test_headings_are_bold_on_a_terminal_and_plain_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    on_terminal = helped("submit", "-h", stream=Terminal())
    assert on_terminal.startswith("\x1b[1mCommand\x1b[0m\n")
    piped = helped("submit", "-h")
    assert "\x1b" not in piped
    assert re.sub(r"\x1b\[[01]m", "", on_terminal) == piped


def test_help_of_a_command_lists_each_option_once() -> None:
    """``compare`` has an ``--output`` of its own in place of the global one."""
    for command in commands.COMMANDS:
        stream = io.StringIO()
        print_help(HelpWanted(command.words, command, True), commands.COMMANDS, GROUPS, TOPICS, stream)
        flags = re.findall(r"^ {4}(--[\w-]+)", stream.getvalue(), re.MULTILINE)
        assert flags
        assert len(flags) == len(set(flags)), command.words


def test_repetition_of_an_option_is_mentioned_once() -> None:
    repeated = [option for command in commands.COMMANDS for option in command.options if option.kind == "repeat"]
    assert repeated
    assert [option.flags for option in repeated if "repeated" in option.help] == []
