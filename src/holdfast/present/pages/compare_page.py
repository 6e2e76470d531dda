"""The comparison of runs as one self-contained HTML page, without scripts."""

from __future__ import annotations

import base64
import json
from html import escape

from holdfast.metrics import values
from holdfast.present import metric_chart
from holdfast.present.drawing import svg
from holdfast.present.drawing.curves import picture
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.engine.runs.compare import Comparison, Row, Section
    from holdfast.store.runs import Run

_LARGEST = 1_000_000  # bytes of a picture that is taken into the page
_ALL_PICTURES = 20_000_000
_CHARTS = 24
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width">
"""
_STYLE = """
:root{color-scheme:light dark;--ink:#20262e;--faint:#66707c;--ground:#fff;--line:#dde2e8}
:root{--mark:#fff3c4;--add:#dcf5e3;--del:#fde2e1}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ed;--faint:#98a2ae;--ground:#15181c;--line:#333a43}
:root{--mark:#4a3d0d;--add:#12351f;--del:#451a1a}
svg{filter:invert(.92) hue-rotate(180deg)}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground)}
body{max-width:80rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin-bottom:.2rem}h2{font-size:1.05rem;margin:2rem 0 .4rem}p{color:var(--faint);margin:.2rem 0}
.wide{overflow-x:auto}table{border-collapse:collapse;table-layout:fixed;width:100%}
thead th:first-child{width:14rem}
th,td{padding:.25rem .8rem .25rem .4rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{font-weight:600;overflow-wrap:anywhere}tbody th{font-weight:400;color:var(--faint)}
td{font-family:ui-monospace,monospace;font-size:.86em;overflow-wrap:anywhere}
td.d{background:var(--mark)}td.none{color:var(--faint)}
body:has(#only:checked) tr.same{display:none}body:has(#only:checked) section.same{display:none}
label{cursor:pointer}figure{margin:1rem 0;overflow-x:auto}figcaption{color:var(--faint)}
.pictures{display:flex;flex-wrap:wrap;gap:1rem}.pictures img{max-width:24rem;height:auto;border:1px solid var(--line)}
pre{font-size:.82rem;overflow-x:auto;border:1px solid var(--line);padding:.6rem}
pre span{display:block}.add{background:var(--add)}.del{background:var(--del)}
"""


def page(comparison: Comparison, *, show_all: bool) -> bytes:
    """``show_all``: rows that are the same everywhere are shown from the start."""
    names = [metric_chart.label(run) for run in comparison.runs]
    title = f"{comparison.runs[0].request.get('project')}: {', '.join(names)}"
    checked = "" if show_all else " checked"
    lines = [
        f"{_HEAD}<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(title)}</h1>",
        f"<p><label><input type=checkbox id=only{checked}> only what differs</label></p>",
        *(line for section in comparison.sections for line in _section(section, names)),
        *_charts(comparison),
        *_pictures(comparison, names),
        *_code(comparison.code, names),
        "</body></html>",
    ]
    return ("\n".join(lines) + "\n").encode("utf-8")


def shown(value: object) -> str:
    """A cell as text; a dash for a missing value."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _section(section: Section, names: Sequence[str]) -> Iterator[str]:
    if not section.rows and not section.note:
        return
    same = not any(row.differs for row in section.rows) and not section.note
    yield f"<section{' class=same' if same else ''}><h2>{_text(section.title)}</h2>"
    if section.note:
        yield f"<p>{_text(section.note)}</p>"
    heads = "".join(f"<th>{_text(name)}</th>" for name in names)
    wide = f"min-width:{14 + 9 * len(names)}rem"
    yield f'<div class="wide"><table style="{wide}"><thead><tr><th></th>{heads}</tr></thead><tbody>'
    yield from map(_row, section.rows)
    yield "</tbody></table></div></section>"


def _row(row: Row) -> str:
    cells = []
    for value in row.values:
        kinds = [*(["d"] if row.differs and value != row.values[0] else []), *(["none"] if value is None else [])]
        cells.append(f'<td class="{" ".join(kinds)}">{_text(shown(value))}</td>')
    return f'<tr class="{"differs" if row.differs else "same"}"><th>{_text(row.name)}</th>{"".join(cells)}</tr>'


def _charts(comparison: Comparison) -> Iterator[str]:
    known = dict.fromkeys(name for metrics in comparison.logged for name in metrics.by_name)
    wanted = [
        name
        for name in known
        if any(metric_chart.has_shape(metrics.by_name.get(name)) for metrics in comparison.logged)
    ]
    for number, panel in enumerate(metric_chart.panels(comparison.runs, comparison.logged, wanted[:_CHARTS])):
        if number == 0:
            yield "<h2>curves</h2>"
        yield f"<figure>{svg.render(picture([panel], title='')).decode()}</figure>"
    if len(wanted) > _CHARTS:
        yield f"<p>{len(wanted) - _CHARTS} more series are not shown.</p>"


def _image_data(run: Run, image: values.Image) -> bytes | None:
    """From the attempt that logged it: the newest one, or one that it resumed."""
    parts = (values.read_image(folder, image) for folder in reversed(runs.metric_folders(run)))
    return next((data for data in parts if data is not None), None)


def _pictures(comparison: Comparison, names: Sequence[str]) -> Iterator[str]:
    """The last one of each name, of every run that has it."""
    room = _ALL_PICTURES
    for metric in dict.fromkeys(name for logged in comparison.logged for name in logged.by_name):
        figures = []
        for run, logged, name in zip(comparison.runs, comparison.logged, names, strict=True):
            series = logged.by_name.get(metric)
            image = values.image(series.values[-1]) if series is not None else None
            data = _image_data(run, image) if image is not None else None
            if image is None or data is None or len(data) > min(_LARGEST, room) or series is None:
                continue
            room -= len(data)
            source = f"data:{image.media_type};base64,{base64.b64encode(data).decode('ascii')}"
            caption = f"{name}, step {series.steps[-1]}"
            figures.append(f'<figure><img alt="{_text(metric)}" src="{source}">')
            figures.append(f"<figcaption>{_text(caption)}</figcaption></figure>")
        if figures:
            yield f'<h2>{_text(metric)}</h2><div class="pictures">{"".join(figures)}</div>'


def _code(code: Sequence[Sequence[str]], names: Sequence[str]) -> Iterator[str]:
    for name, lines in zip(names[1:], code, strict=True):
        if lines:
            yield f"<h2>code</h2><details open><summary>{_text(names[0])} to {_text(name)}</summary><pre>"
            yield "".join(_line(line) for line in lines)
            yield "</pre></details>"


def _line(line: str) -> str:
    kind = "" if line.startswith(("+++", "---")) else {"+": "add", "-": "del"}.get(line[:1], "")
    return f'<span class="{kind}">{_text(line) or " "}</span>'


def _text(value: object) -> str:
    """What cannot be printed becomes a question mark."""
    return escape("".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in str(value)))
