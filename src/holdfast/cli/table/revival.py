"""Rows of the command table: checks of a project, and old projects."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional
from holdfast.cli.table.options import PROJECT

_AT = "holdfast.cli.commands."

REVIVAL: tuple[Command, ...] = (
    Command(
        ("check",),
        "Check configuration, declared packages and scripts; list all problems.",
        _AT + "revival:check",
        (
            PROJECT,
            Option(
                ("--fix",), "fix", "Show all replacements of withdrawn things as a diff, and write them.", kind="flag"
            ),
        ),
    ),
    Command(
        ("revive",),
        "Report what in an old project no longer works, and what replaces it.",
        _AT + "revival:revive",
        (
            Option(
                ("--run",), "run", "Run its scripts in a copy with the replacements; write an HTML page.", kind="flag"
            ),
            Option(("--write",), "write", "Write the replacements into the project.", kind="flag"),
            Option(
                ("--env",),
                "environment",
                "With --run: the Python environment, as for submit. Default: project.",
                metavar="project|active|none",
            ),
            Option(("--timeout",), "timeout", "With --run: limit for each script. Default: 30m.", metavar="TIME"),
            Option(
                ("--html",), "html", "With --run: the file of the page. Default: NAME-revived.html.", metavar="FILE"
            ),
        ),
        (Positional("path", "Folder of the project.", "PATH"),),
        examples=(
            ("Look without changing anything", "holdfast revive ~/old/iris"),
            ("Run its scripts and keep the page", "holdfast revive --run --html iris.html ~/old/iris"),
        ),
    ),
)
