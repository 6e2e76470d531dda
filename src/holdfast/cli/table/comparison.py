"""Command table: compare, plot and reproduce runs; check a project, and revive an old one."""

from __future__ import annotations

from holdfast.cli.parse import FORMATS, Command, Option, Positional
from holdfast.cli.table.options import PROJECT, RUN

_AT = "holdfast.cli.commands."
_RUNS = Option(("--run", "-r", "--run-id"), "runs", "A run. Default: last.", kind="repeat", metavar="RUN", loose=True)
COMPARISONS = (
    Command(
        ("history", "compare"),
        "Show how runs differ.",
        _AT + "comparing:compare_runs",
        (
            _RUNS,
            PROJECT,
            Option(("--all", "-A"), "all", "Also show what is the same.", kind="flag"),
            Option(("--to",), "to", "Write the comparison to this .html or .json file.", metavar="FILE"),
            Option(
                ("--output", "-o"),
                "output",
                "As the global option, or html.",
                metavar="FORMAT",
                choices=(*FORMATS, "html"),
            ),
        ),
        aliases=(("compare",),),
        examples=(("As an HTML page", "holdfast compare -r 12 -r 13 --to compare.html"),),
        paged=True,
    ),
    Command(
        ("history", "plot"),
        "Plot metrics of runs in the terminal or into a file.",
        _AT + "plotting:plot_metrics",
        (
            _RUNS,
            PROJECT,
            Option(("--name",), "names", "Metric to plot. Default: all.", kind="repeat", metavar="METRIC"),
            Option(("--x",), "x", "Axis.", choices=("step", "time"), default="step", metavar="WHAT"),
            Option(("--log",), "log", "Logarithmic y axis.", kind="flag"),
            Option(("--to",), "to", "Write the plot to this .svg or .png file.", metavar="FILE"),
        ),
        aliases=(("plot",),),
        examples=(("Two runs in one plot", "holdfast plot -r 12 -r 13 --name loss --log --to loss.svg"),),
    ),
    Command(
        ("reproduce",),
        "Re-run a run and compare its metrics with the original.",
        _AT + "reproducing:reproduce",
        (
            RUN,
            PROJECT,
            Option(("-c", "--runconfig"), "config", "Run on this target instead.", metavar="NAME"),
            Option(("--tolerance",), "tolerance", "Allowed relative difference.", metavar="SHARE", default="0.01"),
            Option(("--metric",), "metrics", "Compare only this metric.", kind="repeat", metavar="NAME"),
            Option(
                ("-e", "--env"),
                "env",
                "Value of a variable that was not stored.",
                kind="repeat",
                metavar="NAME[=VALUE]",
            ),
            Option(
                ("--link",),
                "link",
                "Folder for a link of the run; needed if the run was imported.",
                kind="repeat",
                metavar="NAME=PATH",
            ),
            Option(
                ("--recorded-packages",),
                "recorded",
                "Build the packages that were recorded for the run.",
                kind="flag",
            ),
            Option(
                ("--allow-urls",),
                "allow_urls",
                "Also install recorded packages from the addresses and channels that the record names.",
                kind="flag",
            ),
            Option(("--secret",), "secret", "Secret variable; prompted for if unset.", kind="repeat", metavar="NAME"),
        ),
        description="Exit code 0: the metrics agree; 1: they differ, or the new run failed.",
    ),
)

REVIVAL: tuple[Command, ...] = (
    Command(
        ("check",),
        "Check configuration, declared packages and scripts; list all problems.",
        _AT + "revival:check",
        (
            PROJECT,
            Option(
                ("--fix",),
                "fix",
                "Show replacements for withdrawn packages, images and imports as a diff; write them.",
                kind="flag",
            ),
        ),
    ),
    Command(
        ("revive",),
        "List what no longer works in an old project.",
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
                choices=("project", "active", "none"),
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
