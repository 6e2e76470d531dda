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
            Option(("--all", "-A"), "all", "List runs of all projects.", kind="flag"),
            Option(("--where",), "where", "Only runs that match this condition.", metavar="CONDITION"),
            Option(
                ("--sort",), "sort", "Sort by these names, comma-separated; -NAME sorts descending.", metavar="NAMES"
            ),
            Option(("--limit",), "limit", "At most N runs.", metavar="N"),
            Option(("--archived",), "archived", "Include archived runs.", kind="flag"),
            Option(("--columns",), "columns", "Only these columns, comma-separated.", metavar="NAMES"),
        ),
        aliases=(("runs",),),
        examples=(
            (
                "The best runs on one machine",
                "holdfast runs --where \"Accuracy > 0.9 and target = 'lab1'\" --sort -Accuracy --limit 20",
            ),
        ),
        paged=True,
    ),
    Command(
        ("history", "metrics"),
        "Show a run's metrics: one line per metric, or all points of one.",
        _AT + "series:show_metrics",
        (
            RUN,
            PROJECT,
            Option(("--name",), "name", "All points of this metric.", metavar="METRIC"),
            Option(("--points",), "points", "Reduce to about N points; peaks are kept.", metavar="N"),
        ),
        aliases=(("metrics",),),
        examples=(("For a spreadsheet", "holdfast metrics -r 12 --name loss -o csv"),),
        paged=True,
    ),
    Command(
        ("history", "undelete"),
        "Restore deleted runs from the trash; without a run, list the trash.",
        _AT + "history:undelete",
        (
            PROJECT,
            Option(
                ("--run", "-r", "--run-id"),
                "runs",
                "A run to restore.",
                kind="repeat",
                metavar="RUN",
                loose=True,
            ),
            Option(("--all", "-A"), "all", "List deleted runs of all projects.", kind="flag"),
        ),
        aliases=(("undelete",),),
    ),
)
