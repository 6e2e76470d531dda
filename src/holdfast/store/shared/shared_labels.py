"""Names, tags, notes and hidden marks of shared runs: what a store contributes, and how those of others are merged.

Each is a line of client.jsonl. The newest line counts, for tags by name, and of two with the same time the greater
value, so that all stores arrive at the same result in whatever order they pull. Whether a run is hidden is decided
by the store that pushed it, and by one's own.
"""

from __future__ import annotations

import json
import os
import time

from holdfast import labels
from holdfast.runner.store import layout
from holdfast.runner.store.jsonl import read_lines, sealed
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_FIELD = {"name": "name", "tags": "tags", "note": "text", "hidden": "hidden"}
_LONGEST = 100_000
_AHEAD_NS = 86_400 * 10**9  # clocks may differ; a later line would win for ever
FROM = "from"  # the store that a merged line came from


def contributed(run: Run, authors: Container[object]) -> Iterator[bytes]:
    """The labels given in this store, and those that came from a store that does not write to this folder."""
    for line in run.client:
        if _is_valid(line) and _source(line) not in authors:
            field = _FIELD[_kind(line)]
            yield sealed({"uid": run.uid, "wall_ns": line["wall_ns"], "type": line["type"], field: line[field]})


def without_labels(run: Run) -> bytes:
    """The client.jsonl of a run without its labels, which are shared apart from it."""
    lines = read_lines(os.fsencode(layout.client(run.path)))
    kept = ({name: line[name] for name in line if name != "crc"} for line in lines if not _kind(line))
    return b"".join(map(sealed, kept))


def merge(home: Home, run: Run, offered: Iterable[tuple[str, Json]], own: Container[str]) -> int:
    """Add lines that are newer than what the run has; ``offered`` has each with its store. Returns how many.

    ``own`` are stores of this user, for one that is restored.
    """
    present = (line for line in run.client if _is_valid(line) and _is_in_time(line))
    newest = {key: rank for line in present for key, rank, _ in _parts(line)}
    valid = [(store, line) for store, line in offered if _is_valid(line) and _may(run, store, line, own)]
    count = 0
    for store, line in sorted(valid, key=lambda pair: (int(str(pair[1]["wall_ns"])), pair[0])):
        kind = str(line["type"])
        news = [(key, rank, value) for key, rank, value in _parts(line) if rank > newest.get(key, (-1, ""))]
        if not news:
            continue
        newest.update((key, rank) for key, rank, _ in news)
        value = {key[1]: value for key, _, value in news} if kind == "tags" else news[0][2]
        runs.mention_client(home, run.uid, kind, **{"wall_ns": line["wall_ns"], _FIELD[kind]: value, FROM: store})
        count += 1
    return count


def _parts(line: Json) -> Iterator[tuple[tuple[str, str], tuple[int, str], object]]:
    """What a line decides, each with its rank and value: a tag by name, or the whole."""
    kind, wall_ns = str(line["type"]), int(str(line["wall_ns"]))
    value = line[_FIELD[kind]]
    for name, part in value.items() if isinstance(value, dict) else (("", value),):
        yield (kind, name), (wall_ns, json.dumps(part)), part


def _may(run: Run, store: str, line: Json, own: Container[str]) -> bool:
    team = run.request.get("team")
    pushed_by = team.get("store") if isinstance(team, dict) else None
    return _is_in_time(line) and (line["type"] != "hidden" or store == pushed_by or store in own)


def _is_in_time(line: Json) -> bool:
    return int(str(line["wall_ns"])) < time.time_ns() + _AHEAD_NS


def _kind(line: Json) -> str:
    """The type of a label, empty for every other line. Its value may be of any type, also one without a hash."""
    kind = line.get("type")
    return kind if isinstance(kind, str) and kind in _FIELD else ""


def _source(line: Json) -> str:
    store = line.get(FROM)
    return store if isinstance(store, str) else ""


def is_label(line: object) -> bool:
    """Whether a line of a shared folder is as ``history push`` writes it."""
    return isinstance(line, dict) and isinstance(line.get("uid"), str) and _is_valid(line)


def _is_valid(line: Json) -> bool:
    kind, wall_ns = _kind(line), line.get("wall_ns")
    if not kind or not isinstance(wall_ns, int) or isinstance(wall_ns, bool) or not 0 < wall_ns < 2**63:
        return False
    value = line.get(_FIELD[kind])
    if kind == "tags":
        return isinstance(value, dict) and all(labels.is_tag(name) and _is_plain(tag) for name, tag in value.items())
    if kind == "name":
        return isinstance(value, str) and labels.is_name(value)
    return isinstance(value, bool) if kind == "hidden" else isinstance(value, str) and len(value) <= _LONGEST


def _is_plain(value: object) -> bool:
    return value is None or (isinstance(value, (str, int, float)) and len(str(value)) <= _LONGEST)
