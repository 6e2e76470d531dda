"""The report about an old project as one self-contained HTML page, without scripts. All text in it is escaped."""

from __future__ import annotations

import json
from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.engine.revival.survey import Report
    from holdfast.engine.revival.trial import Result

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
"""
_STYLE = """
:root{color-scheme:light dark;--ink:#20262e;--faint:#66707c;--ground:#fff;--line:#dde2e8;--add:#dcf5e3;--del:#fde2e1}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ed;--faint:#98a2ae;--ground:#15181c;--line:#333a43}
:root{--add:#12351f;--del:#451a1a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground)}
body{max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin-bottom:.2rem}h2{font-size:1.05rem;margin:2rem 0 .4rem}p{color:var(--faint);margin:.2rem 0}
table{border-collapse:collapse;width:100%}th{font-weight:600}
th,td{padding:.25rem .8rem .25rem .4rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td{overflow-wrap:anywhere}td.ok{background:var(--add)}td.bad{background:var(--del)}
pre{font-size:.82rem;overflow-x:auto;border:1px solid var(--line);padding:.6rem}
pre span{display:block}.add{background:var(--add)}.del{background:var(--del)}
"""


def page(report: Report, results: Sequence[Result] | None) -> bytes:
    """``results`` is None where no script was run."""
    title = f"{report.name}: {report.era}"
    lines = [
        f"{_HEAD}<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(report.name)}</h1><p>{_text(report.era)}</p>",
        *_what(report),
        *_dead(report),
        *_replaced(report),
        *(_results(results) if results is not None else ()),
        "</body></html>",
    ]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def last_values(metrics: dict[str, object]) -> str:
    """Metrics on one line."""
    pairs = metrics.items()
    return ", ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={json.dumps(value)[:80]}"
        for name, value in pairs
    )


def _what(report: Report) -> Iterator[str]:
    yield "<h2>what it is</h2>"
    configurations = [(row["name"], row["target"], row["framework"]) for row in report.configurations]
    yield from _table(("run configuration", "target", "framework"), configurations)
    yield from _table(("target", "type"), [(row["name"], row["type"] or "unreadable") for row in report.targets])
    yield from _table(("script", "role"), report.roles)
    if report.flows:
        yield from _table(("data flow",), [(file,) for file in report.flows])


def _dead(report: Report) -> Iterator[str]:
    yield "<h2>what no longer works</h2>"
    rows = [
        (f"{finding.file}:{finding.line}" if finding.line else finding.file, finding.message, finding.hint)
        for finding in report.findings
    ]
    yield from _table(("place", "finding", "what to do"), rows)


def _replaced(report: Report) -> Iterator[str]:
    yield "<h2>what is replaced</h2>"
    if not report.changes:
        yield "<p>nothing</p>"
    for change in report.changes:
        yield f"<pre>{''.join(_line(line) for line in change.diff())}</pre>"
    if report.left:
        yield from _table(("left to the author",), [(line,) for line in report.left])


def _results(results: Sequence[Result]) -> Iterator[str]:
    yield "<h2>which scripts run</h2><table><thead><tr>"
    yield "".join(f"<th>{name}</th>" for name in ("script", "result", "seconds", "run", "metrics"))
    yield "</tr></thead><tbody>"
    for result in results:
        kind, word = ("ok", "completed") if result.code == 0 else ("bad", f"exit code {result.code}")
        cells = (result.seconds, result.run_id, last_values(result.metrics))
        yield f"<tr><td>{_text(result.script)}</td><td class={kind}>{word}</td>"
        yield "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table>"
    for result in results:
        if result.code:
            yield f"<h2>{_text(result.script)}</h2><pre>{_text(result.tail)}</pre>"


def _table(heads: Iterable[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    rows = list(rows)
    if not rows:
        return
    yield f"<table><thead><tr>{''.join(f'<th>{_text(head)}</th>' for head in heads)}</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table>"


def _line(line: str) -> str:
    kind = "" if line.startswith(("+++", "---")) else {"+": "add", "-": "del"}.get(line[:1], "")
    return f'<span class="{kind}">{_text(line) or " "}</span>'


def _text(value: object) -> str:
    """What cannot be printed becomes a question mark."""
    return escape("".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in str(value)))
