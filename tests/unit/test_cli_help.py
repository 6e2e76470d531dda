from __future__ import annotations

import io
import re

import pytest

from holdfast.cli.help import print_help
from holdfast.cli.parse import Command, HelpWanted, Option, Positional, parse

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
    essential=True,
)
STATUS = Command(("experiment", "status"), "Say how a run is doing.", "nowhere:run")
START = Command(("execute", "start"), "Old name of submit.", "nowhere:run", hidden=True)
DU = Command(("du",), "Show what takes room.", "nowhere:run")
COMMANDS = (SUBMIT, STATUS, START, DU)
GROUPS = {(): "Runs scripts.", ("experiment",): "Start and stop runs."}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def helped(*argv: str, stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    wanted = parse(COMMANDS, argv)
    assert isinstance(wanted, HelpWanted)
    print_help(wanted, COMMANDS, GROUPS, stream)
    return stream.getvalue()


def test_top_level() -> None:
    assert helped("-h") == (
        "Group\n"
        "    holdfast : Runs scripts.\n"
        "\n"
        "Commands:\n"
        "    submit : Run a script on a target and follow it.\n"
        "\n"
        "Groups and more commands:\n"
        "    du, experiment\n"
        "\n"
        "Run any command with -h for details; holdfast --version shows the version.\n"
    )


def test_group() -> None:
    assert helped("experiment") == (
        "Group\n"
        "    holdfast experiment : Start and stop runs.\n"
        "\n"
        "Commands:\n"
        "    status : Say how a run is doing.\n"
        "    submit : Run a script on a target and follow it.\n"
    )


def test_command() -> None:
    text = helped("submit", "-h")
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings == ["Command", "Arguments", "Global Arguments", "Examples"]
    assert "    usage: holdfast experiment submit [OPTIONS] SCRIPT [ARGUMENT ...]\n" in text
    assert "    also:  holdfast submit\n" in text
    assert "    The project is copied first.\n\n    Ctrl-C stops the log stream, not the run.\n" in text
    assert "    --run-configuration -c NAME      : Which run configuration to use.\n" in text
    assert "    SCRIPT [ARGUMENT ...] [Required] : The script and its own arguments.\n" in text
    assert "    --fetch FETCH                    : What to bring home. One of all, none.\n" in text
    assert "May be repeated." in " ".join(text.split())
    assert "    Run it here:\n        holdfast submit -c local train.py --lr 0.1\n" in text
    assert "--runconfig " not in text


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
