"""Compares several runs: parameters, environments, metrics, outputs, code.

Everything is read from the runs' records, logs and snapshots. Outputs are not opened: they are compared by the sizes
and hashes of the manifest.
"""

from __future__ import annotations

import os

from holdfast import parameters
from holdfast.engine.runs import restore
from holdfast.errors import HoldfastError
from holdfast.metrics import reader
from holdfast.metrics import values as logged
from holdfast.record import Record
from holdfast.store import history_record, output_manifest, package_list, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.metrics.reader import Metrics
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_FACTS = ("status", "exit_code", "reason", "script_name", "run_configuration", "target", "host", "user", "program")
_CARD = (("busy_s", "busy, s"), ("mean_percent", "busy, mean %"), ("memory_peak", "memory, peak bytes"))
_MOST_LINES = 2000  # of a difference between two trees


class Row(Record):
    """One thing of all runs; None is what a run does not have."""

    name: str
    values: tuple[object, ...]
    differs: bool


class Section(Record):
    """``note`` says what could not be found out."""

    title: str
    rows: tuple[Row, ...]
    note: str = ""


class Comparison(Record):
    """``code`` are the lines of a unified difference of each further run from the first one."""

    runs: tuple[Run, ...]
    logged: tuple[Metrics, ...]
    sections: tuple[Section, ...]
    code: tuple[tuple[str, ...], ...]

    def to_json(self) -> Json:
        names = ("run_id", "run_number", "created_utc")
        records = [history_record.record(run) for run in self.runs]
        return {
            "runs": [{name: record[name] for name in names} for record in records],
            "sections": [
                {
                    "title": section.title,
                    "note": section.note,
                    "rows": [{"name": r.name, "values": list(r.values), "differs": r.differs} for r in section.rows],
                }
                for section in self.sections
            ],
            "code": [list(lines) for lines in self.code],
        }


def compare(home: Home, chosen: Sequence[Run]) -> Comparison:
    """All that is known of these runs, row by row."""
    plans = [runs.read_plan(run) or {} for run in chosen]
    values = tuple(reader.read_attempts(runs.metric_folders(run)) for run in chosen)
    code, lines = _code(home, chosen)
    sections = (
        Section("run", _rows([_facts(run) for run in chosen])),
        Section("parameters", _rows(list(map(_parameters, chosen, values)))),
        Section("data", _rows([_data(run) for run in chosen])),
        Section("metrics", _rows([_metrics(metrics) for metrics in values])),
        _environment(home, chosen, plans),
        code,
        Section("outputs", _rows([_outputs(run) for run in chosen])),
        Section("GPU", _rows([dict(_gpu(run)) for run in chosen])),
    )
    return Comparison(tuple(chosen), values, sections, lines)


def _rows(columns: Sequence[Mapping[str, object]]) -> tuple[Row, ...]:
    """One for each name in the order of first appearance."""
    names = dict.fromkeys(name for column in columns for name in column)
    rows = []
    for name in names:
        values = tuple(column.get(name) for column in columns)
        rows.append(Row(name, values, any(not _same(value, values[0]) for value in values[1:])))
    return tuple(rows)


def _same(first: object, other: object) -> bool:
    """NaN is the same as NaN; true is not 1."""
    if isinstance(first, bool) is not isinstance(other, bool):
        return False
    return first == other or (first != first and other != other)  # noqa: PLR0124 - that is how NaN is known


def _facts(run: Run) -> Json:
    record = history_record.record(run)
    events = {str(event.get("type")): event for event in reversed(run.events)}
    length = history_record.length_ns(events.get("started") or events.get("accepted"), events.get("exited"))
    facts: Json = {name: record[name] for name in _FACTS if record[name] not in (None, "")}
    git = run.request.get("git")
    if isinstance(git, dict):
        facts.update({name: git[name] for name in ("commit", "branch", "dirty") if git.get(name) is not None})
    if length is not None and "closed" in events:
        facts["duration, s"] = round(length / 1e9, 3)
    return facts


def _parameters(run: Run, logged: Metrics) -> Json:
    arguments = run.request.get("arguments")
    tokens = [word for word in arguments if isinstance(word, str)] if isinstance(arguments, list) else []
    return {
        **parameters.read(tokens),
        **logged.parameters,
        **({"(all arguments)": " ".join(tokens)} if tokens else {}),
    }


def _data(run: Run) -> Json:
    rows = history_record.record(run).get("data")
    return {
        str(row.get("name")): str(row.get("tree") or "")[:12] or row.get("path_on_target")
        for row in (rows if isinstance(rows, list) else ())
    }


def _metrics(metrics: Metrics) -> Json:
    row: Json = {}
    for series in metrics.by_name.values():
        digest = reader.digest(series)
        row[series.name] = _plain(digest.last)
        if digest.points > 1 and digest.least is not None:
            row[f"{series.name} (best)"] = digest.best
    return row


def _plain(value: object) -> object:
    """A number or text as it is; of a picture or table what tells it from another."""
    image, table = logged.image(value), logged.table(value)  # type: ignore[arg-type]
    if image is not None:
        return f"image {image.width}x{image.height} {image.sha256[:12]}"
    if table is not None:
        import hashlib

        digest = hashlib.sha256(repr(table).encode("utf-8", "surrogatepass")).hexdigest()
        return f"table of {len(table.rows)} rows {digest[:12]}"
    return value


def _environment(home: Home, compared: Sequence[Run], plans: Sequence[Json]) -> Section:
    """The key, and below it every package; the note says if neither a list of them nor the lock is here."""
    columns: list[Json] = []
    lost = []
    for run, plan in zip(compared, plans, strict=True):
        environment = plan.get("environment")
        container = plan.get("container")
        column: Json = {}
        if isinstance(container, dict):
            column["image"] = container.get("image")
        if isinstance(environment, dict):
            column.update(environment=environment.get("key"), declared=environment.get("source"))
        packages = _recorded(run) or (_packages(home, plan) if isinstance(environment, dict) else {})
        column.update(packages or {})
        lost += [str(environment.get("key"))] if packages is None and isinstance(environment, dict) else []
        columns.append(column)
    note = f"the lock of {', '.join(dict.fromkeys(lost))} is not stored here" if lost else ""
    return Section("environment", _rows(columns), note)


def _recorded(run: Run) -> Json:
    """The interpreter and packages that were recorded while the run went on; empty for runs of earlier versions."""
    recorded = package_list.read(run)
    python = package_list.interpreter(run)
    if recorded is None or python is None:
        return {}
    described: Json = {"interpreter": python["path"], "python": python["version"]}
    return {**described, **package_list.versions(recorded)}


def _packages(home: Home, plan: Json) -> Json | None:
    from holdfast.environments import lock
    from holdfast.passport.contents import environment_lock

    text = environment_lock(home, plan)
    if not text:
        return None
    locked = lock.from_text(text, "the environment's lock")
    packages: Json = {"python": locked.python.version}
    packages.update({package.name: package.version for package in locked.conda})
    for line in locked.pip:
        name, equals, version = line.split(" --hash", 1)[0].strip().partition("==")
        packages[name] = version if equals else line.split(" --hash", 1)[0].strip()
    return packages


def _code(home: Home, chosen: Sequence[Run]) -> tuple[Section, tuple[tuple[str, ...], ...]]:
    columns: list[Json] = []
    note = ""
    for run in chosen:
        column: Json = {"snapshot": str(run.request.get("tree") or "")[:12]}
        try:
            for path, entry in restore.files(home, run).items():
                column[os.fsdecode(path)] = (
                    entry.digest[:12] if entry.kind == "file" else f"-> {os.fsdecode(entry.target)}"
                )
        except (HoldfastError, OSError) as error:
            note = note or f"the code of run {run.request.get('run_number')} is incomplete here: {error}"
        columns.append(column)
    section = Section("code", _rows(columns), note)
    if note or not any(row.differs for row in section.rows):
        return section, ((),) * (len(chosen) - 1)
    return section, tuple(tuple(_difference(home, chosen[0], run)) for run in chosen[1:])


def _difference(home: Home, old: Run, new: Run) -> Iterator[str]:
    for number, line in enumerate(restore.between(home, old, new)):
        if number == _MOST_LINES:
            yield f"... more: holdfast diff -r {old.request.get('run_number')} -r {new.request.get('run_number')}"
            return
        yield line


def _outputs(run: Run) -> Json:
    files: Json = {}
    for row in history_record.output_rows(run):
        digest = str(row.get("sha256") or "")[:12]
        name = str(row["path"]) if output_manifest.is_output(row) else f"./{row['project']}"
        files[name] = f"{row.get('size')} bytes {digest}".rstrip() if digest else f"-> {row.get('link')}"
    return files


def _gpu(run: Run) -> Iterator[tuple[str, object]]:
    receipt = history_record.gpu_receipt(run) or {}
    if isinstance(receipt.get("verdict"), str):
        yield "verdict", receipt["verdict"]
    cards = receipt.get("gpus")
    energy = [0.0]
    for position, card in enumerate(cards if isinstance(cards, list) else ()):
        if not isinstance(card, dict):
            continue
        yield f"GPU {position}", card.get("name")
        for key, label in _CARD:
            if isinstance(card.get(key), (int, float)):
                yield f"GPU {position} {label}", card[key]
        if isinstance(card.get("energy_j"), (int, float)):
            energy.append(float(card["energy_j"]))
    if len(energy) > 1:
        yield "energy, Wh", round(sum(energy) / 3600, 3)
