"""The page in a passport for people: what ran, how it ended, which files there are. Nothing in it runs."""

from __future__ import annotations

import json
from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.model import Json
    from holdfast.passport.archive import Entry

_FACTS = (
    *("run_id", "status", "exit_code", "reason", "script_name", "arguments", "target", "host", "user", "program"),
    *("created_utc", "start_time_utc", "end_time_utc", "duration", "uid"),
)
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}"
    "table{border-collapse:collapse;width:100%}th{text-align:left;font-weight:600;vertical-align:top;white-space:nowrap}"
    "td,th{padding:.2rem .8rem .2rem 0;border-bottom:1px solid #8884}"
    "code,.n{font-family:ui-monospace,monospace;font-size:.85em;overflow-wrap:anywhere}"
    ".n{text-align:right;white-space:nowrap}"
)
_LOCKED = "its exact packages are in <code>environment.lock</code>"
_UNKNOWN = "not managed by Holdfast, or its lock is not stored"
_HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    '<meta name="viewport" content="width=device-width">\n'
)


def page(record: Json, manifest: Json, entries: Iterable[Entry], has_lock: bool) -> bytes:
    title = f"Passport of {record['run_id']}"
    logged = {name: value for name, value in record.items() if _is_metric(name, value)}
    facts = {name: record[name] for name in _FACTS if record.get(name) not in (None, "", [])}
    lines = [
        f"{_HEAD}<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(title)}</h1>",
        f"<p>Signed {_text(manifest['signed_utc'])} by the signer's clock. This page is part of the signed contents.",
        "To verify everything: <code>holdfast passport verify FILE</code>.</p>",
        *_table(facts.items()),
        f"<p>Environment: {_LOCKED if has_lock else _UNKNOWN}.",
        f"Code: <code>code/</code>, snapshot <code>{_text(manifest['tree'])}</code>.",
        "Output files are not included; <code>outputs.jsonl</code> has their hashes.</p>",
        *(["<h2>Logged</h2>", *_table(logged.items())] if logged else []),
        *(["<h2>GPU receipt</h2>", *_table(_plain(record["gpu"]))] if isinstance(record.get("gpu"), dict) else []),
        "<h2>Files</h2><table><tr><th>name</th><th class=n>bytes</th><th>SHA-256</th></tr>",
        *(_file(entry) for entry in entries),
        "</table></body></html>",
    ]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _is_metric(name: str, value: object) -> bool:
    from holdfast.store.history_record import FIXED

    return name not in FIXED and isinstance(value, (int, float, str))


def _plain(receipt: object) -> Iterator[tuple[str, object]]:
    for name, value in receipt.items() if isinstance(receipt, dict) else ():
        yield str(name), value


def _table(rows: Iterable[tuple[str, object]]) -> Iterator[str]:
    yield "<table>"
    for name, value in rows:
        shown = value if isinstance(value, str) else json.dumps(value)
        yield f"<tr><th>{_text(name)}</th><td>{_text(shown)}</td></tr>"
    yield "</table>"


def _file(entry: Entry) -> str:
    cells = (f"<td><code>{_text(entry.name)}</code></td>", f"<td class=n>{entry.size}</td>")
    return f"<tr>{''.join(cells)}<td><code>{entry.sha256}</code></td></tr>"


def _text(value: object) -> str:
    """What cannot be printed becomes a question mark."""
    return escape("".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in str(value)))
