"""Command table: compare, plot and reproduce."""

from __future__ import annotations

from holdfast.cli.parse import FORMATS, Command, Option
from holdfast.cli.table.options import PROJECT, RUN

_AT = "holdfast.cli.commands."
_RUNS = Option(("--run", "-r", "--run-id"), "runs", "A run. Default: last.", kind="repeat", metavar="RUN")
COMPARISONS = (
    Command(
        ("history", "compare"),
        "Show in what runs differ.",
        _AT + "comparing:compare_runs",
        (
            _RUNS,
            PROJECT,
            Option(("--all", "-A"), "all", "Also what is the same.", kind="flag"),
            Option(("--to",), "to", "Write it into this .html or .json file.", metavar="FILE"),
            Option(
                ("--output", "-o"),
                "output",
                "As the global one, or a page.",
                metavar="FORMAT",
                choices=(*FORMATS, "html"),
            ),
        ),
        examples=(("As a page", "holdfast history compare -r 12 -r 13 --to compare.html"),),
    ),
    Command(
        ("history", "plot"),
        "Draw what runs logged, here or into a file.",
        _AT + "plotting:plot_metrics",
        (
            _RUNS,
            PROJECT,
            Option(("--name",), "names", "Default: all.", kind="repeat", metavar="METRIC"),
            Option(("--x",), "x", "Axis.", choices=("step", "time"), default="step", metavar="WHAT"),
            Option(("--log",), "log", "Upwards by powers of ten.", kind="flag"),
            Option(("--to",), "to", "Into this .svg or .png file.", metavar="FILE"),
        ),
        examples=(("Two runs, one picture", "holdfast history plot -r 12 -r 13 --name loss --log --to loss.svg"),),
    ),
    Command(
        ("reproduce",),
        "Make a run again and judge its metrics by the first.",
        _AT + "reproducing:reproduce",
        (
            RUN,
            PROJECT,
            Option(("-c", "--runconfig"), "config", "On this target instead.", metavar="NAME"),
            Option(("--tolerance",), "tolerance", "Relative difference allowed.", metavar="SHARE", default="0.01"),
            Option(("--metric",), "metrics", "Only this metric.", kind="repeat", metavar="NAME"),
            Option(("-e", "--env"), "env", "Its value; not kept.", kind="repeat", metavar="NAME[=VALUE]"),
            Option(("--secret",), "secret", "The same, asked for.", kind="repeat", metavar="NAME"),
        ),
        description="Exit code 0: the same; 1: they differ, or the new run failed.",
    ),
)
