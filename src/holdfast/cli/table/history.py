"""Command table: ``history list`` and ``history metrics``."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option
from holdfast.cli.table.options import PROJECT, RUN

_AT = "holdfast.cli.commands."
HISTORY = (
    Command(
        ("history", "list"),
        "List the project's runs, newest first.",
        _AT + "listing:list_runs",
        (
            PROJECT,
            Option(("--all", "-A"), "all", "Runs of all projects.", kind="flag"),
            Option(("--where",), "where", "Only runs for which this is true.", metavar="CONDITION"),
            Option(("--sort",), "sort", "By these, comma between; - turns one round.", metavar="NAMES"),
            Option(("--limit",), "limit", "Not more than N runs.", metavar="N"),
            Option(("--archived",), "archived", "Archived ones too.", kind="flag"),
            Option(("--columns",), "columns", "Only these, comma between.", metavar="NAMES"),
        ),
        aliases=(("runs",),),
        examples=(
            (
                "The best on one machine",
                "holdfast history list --where \"Accuracy > 0.9 and target = 'lab1'\" --sort -Accuracy --limit 20",
            ),
        ),
        essential=True,
    ),
    Command(
        ("history", "metrics"),
        "Show what a run logged: a line for each metric, or every point of one.",
        _AT + "series:show_metrics",
        (
            RUN,
            PROJECT,
            Option(("--name",), "name", "Every point of this metric.", metavar="METRIC"),
            Option(("--points",), "points", "Thin it to about N points; peaks stay.", metavar="N"),
        ),
        examples=(("For a spreadsheet", "holdfast history metrics -r 12 --name loss -o csv"),),
    ),
    Command(
        ("history", "undelete"),
        "Bring deleted runs back from the trash; without a run, list what is there.",
        _AT + "history:undelete",
        (
            PROJECT,
            Option(
                ("--run", "-r", "--run-id"),
                "runs",
                "A run to bring back; may be repeated.",
                kind="repeat",
                metavar="RUN",
            ),
            Option(("--all", "-A"), "all", "List deleted runs of all projects.", kind="flag"),
        ),
    ),
)
