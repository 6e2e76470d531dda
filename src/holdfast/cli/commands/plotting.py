"""``holdfast history plot``"""

from __future__ import annotations

import sys

from holdfast.cli import pick
from holdfast.present import metric_chart, terminal, terminal_plot
from holdfast.present.files import picture_renderer, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parse import Parsed
    from holdfast.present.drawing.curves import Panel

_HIGH = 16
_WIDEST = 120


def plot_metrics(parsed: Parsed) -> int:
    to = parsed.text("to")
    render = picture_renderer("--to", to) if to is not None else None
    _, chosen = pick.runs_named(parsed)
    logged = metric_chart.read(chosen)
    wanted = metric_chart.names(logged, parsed.texts("names"))
    over_time = parsed.text("x") == "time"
    panels = metric_chart.panels(chosen, logged, wanted, over_time=over_time)
    if to is None or render is None:
        _show(panels, log=parsed.flag("log"), over_time=over_time)
        return 0
    from holdfast.present.drawing.curves import picture

    title = str(chosen[0].request.get("project")) if len(chosen) > 1 else str(chosen[0].request.get("run_id"))
    write_file(to, render(picture(panels, title=title, over_time=over_time, log=parsed.flag("log"))))
    sys.stdout.write(f"{terminal.show(to)}\n")
    return 0


def _show(panels: Sequence[Panel], *, log: bool, over_time: bool) -> None:
    fancy, colour = terminal_plot.can_draw(sys.stdout), terminal.use_colour(sys.stdout)
    width = min(terminal.width(sys.stdout), _WIDEST)
    for number, panel in enumerate(panels):
        drawing = {}
        for curve in panel.curves:
            xs, ys = [x for x, _ in curve.points], [y for _, y in curve.points]
            drawing[curve.name] = (xs, ys)
        title = f"{terminal.show(panel.title)} by {'seconds' if over_time else 'step'}"
        lines = terminal_plot.chart(drawing, width, _HIGH, fancy=fancy, colour=colour, log=log)
        sys.stdout.write("\n".join(([""] if number else []) + [title, *lines]) + "\n")
