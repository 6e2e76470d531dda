"""Tables of runs, charts as SVG, conditions as SQL and plans, as tables of calls and results."""

from __future__ import annotations

import io
import json
import os
from itertools import product
from typing import TYPE_CHECKING, Any

from goldens import answered, assert_table
from holdfast.amlconfig import findings, spark_address
from holdfast.amlconfig.types import Finding
from holdfast.environments import spark, spark_pins
from holdfast.environments.spec import Entry, Spec
from holdfast.metrics.values import Series
from holdfast.model import GpuWish, Project
from holdfast.planning import duration_text, near_scripts, plan_gpu, script_path, seconds, share_directory
from holdfast.present import metric_chart, run_table
from holdfast.present.drawing import svg
from holdfast.present.drawing.curves import Curve, Panel, picture
from holdfast.present.drawing.shapes import Area, Box, Picture, Words
from holdfast.store.runs import Run
from holdfast.store.where import grammar, sql

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NAN, INFINITE = float("nan"), float("inf")
NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def record(number: int, **more: object) -> dict[str, Any]:
    plain: dict[str, Any] = {"run_id": f"digits_{number}", "run_number": number, "script_name": "src/train.py"}
    plain |= {"arguments": ["--lr", number / 10], "target": "local", "status": "Completed", "duration": "0:00:07.5"}
    return {**plain, "created_utc": f"2023-11-14T22:{number:02}:00+00:00", "user": "ada", **more}


RECORDS: list[list[dict[str, Any]]] = [
    [],
    [record(1)],
    [record(1, loss=[3, 1.5], acc=0.5), record(2, loss=2.25, acc=[None], epoch=3, user="bob", name="best one")],
    [record(1, loss=1, note="x" * 30, flag=True), record(2, loss=1, note="y"), record(3, status="Failed", loss=1)],
    [record(1, tags={"team": "a", "ok": True, "n": 1.23456789}), record(2, tags={"ok": False, "\x1b": "日本"})],
    [record(1, status="Running", duration=None, arguments=None), record(12, status="Lost", created_utc="odd", a=NAN)],
    [record(1, **{"": 5, " ": 6, "val_loss": INFINITE}), record(2, val_loss=0.5), record(3, val_loss=0.25)],
    [record(1, **{f"m{n}": n for n in range(9)}), record(2, **{f"m{n}": n + 1.5 for n in range(9)})],
]


def test_tables_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    rows = []
    for records, width in product(RECORDS, (20, 60, 80, 140)):
        monkeypatch.setenv("COLUMNS", str(width))
        for stream, every in ((io.StringIO(), False), (Terminal(), True)):
            text = run_table.table(records, stream, NOW, all_projects=every, first=("m7", "acc"))
            rows += [f"{len(records)} runs, {width} wide, {'terminal' if every else 'pipe'}", repr(text)]
    narrowed = run_table.table(RECORDS[2], io.StringIO(), NOW, all_projects=False, headings=("run", "age"))
    lengths = ("1:02:03.5", "0:00:59.96", "25:00:00", "1:2", "x", None)
    rows += [repr(narrowed), *(answered(run_table.duration, {"duration": length}) for length in lengths)]
    assert_table("run-tables", rows)


def test_charts_as_svg() -> None:
    wave = tuple((float(x), float((x * 7) % 11 - 3)) for x in range(9))
    panels = (
        Panel("loss", (Curve("run 1", 0, wave), Curve("run 2", 9, ((0, 1), (2, NAN), (3, 5), (4, INFINITE), (5, 2))))),
        Panel("x" * 101, (Curve("n" * 61, 1, ((3600.0, 1e-3), (7200.0, 10.0))),)),
        Panel("flat", (Curve("a", 2, ((5.0, 2.0),)),)),
        Panel("zero", (Curve("a", 2, ((0.0, 0.0), (1.0, 0.0))),)),
        Panel("far", (Curve("a", 3, ((0.0, -1.7e308), (1.0, 1.7e308))),)),
        Panel("none", (Curve("a", 3, ((0.0, NAN),)),)),
        Panel("below", (Curve("a", 4, ((0.0, -1.0), (1.0, 0.0))),)),
    )
    rows = []
    for panel, (over_time, log) in product(panels, product((False, True), repeat=2)):
        drawn = picture([panel], title="title", over_time=over_time, log=log)
        rows += [f"{panel.title[:9]}, time {over_time}, powers {log}", svg.render(drawn).decode()]
    many = tuple(Curve(f"run {number} {'n' * number}", number, ((0, number),)) for number in range(14))
    rows += [svg.render(picture([Panel("loss", many), panels[0]], title="")).decode()]
    rows += [svg.render(picture([panels[2]], title="t" * 93)).decode()]
    shapes = (
        Box(1, 2, 3, 4.5, "#000000"),
        Area(((0, 1), (2, 3)), 9.123456, "#111111"),
        Words(1, 2, "<\x00&", "#222222"),
    )
    rows += [svg.render(Picture(10, 20, shapes, "a<b")).decode()]
    assert_table("svg", rows)


def test_points_of_series(tmp_path: Path) -> None:
    events = [{"type": "accepted", "wall_ns": 1}, {"type": "started", "wall_ns": 5 * 10**8}]
    runs = [Run("ab" * 16, str(tmp_path), {"run_number": number}, events, []) for number in (7, None)]
    lists: tuple[list[Any], ...] = (
        [1.0, 2, None],
        ["a"],
        ["a", NAN],
        [NAN] * 101,
        [NAN] * 99 + [1.0],
        [NAN] * 100 + [1.0],
        [5],
    )
    rows = [metric_chart.label(run) for run in runs]
    for numbers in lists:
        times = [10**9 + 10**8 * at for at in range(len(numbers))]
        series = Series("a", list(range(len(numbers))), times, numbers)
        rows.append(f"{numbers[:3]} {len(numbers)}: {metric_chart.has_shape(series)}")
        drawn = (metric_chart.points(series, runs[0], over_time=over_time, parts=2) for over_time in (False, True))
        rows += [str(points)[:300] for points in drawn]
    early = Series("a", [0], [10**8], [1.0])
    rows += [f"{metric_chart.points(early, runs[0], over_time=True)} {metric_chart.has_shape(None)}"]
    assert_table("points", rows)


class Names:
    """What an index would know."""

    def __init__(self) -> None:
        known = ("param lr", "param age", "metric loss", "metric acc", "metric a.b", "tag team")
        self._numbers = {tuple(text.split()): number for number, text in enumerate(known, 1)}

    def number(self, kind: str, name: str) -> int | None:
        return self._numbers.get((kind, name))

    def known(self) -> list[str]:
        return [name for _, name in self._numbers]


def test_conditions_as_sql() -> None:
    wheres = (
        *(
            "lr = 1",
            "lr > 1",
            "lr >= 1.5",
            "lr < 'x'",
            "lr <= 'x'",
            "lr > 'x'",
            "lr != true",
            "lr in (1, 'a', true)",
            "lr like 'a%'",
            "not lr ~ 'a*'",
            "lr is null",
            "lr is not null",
            "params.lr = 1",
            "metrics.lr = 1",
            "tags.team = 'x'",
        ),
        *(
            "loss.min < 1",
            "loss.max > 1",
            "loss.best < 1",
            "acc.best > 1",
            "loss.points > 2",
            "loss.last = 1",
            "loss.odd = 1",
            "a.b = 1",
            "params.loss.min = 1",
            "age < 5",
            "params.age = 5",
            "status = 'Failed'",
            "duration > '2h'",
            "duration > 'x'",
            "duration > 60",
        ),
        *(
            "run_number = 'x'",
            "run_number > 9007199254740992",
            "run_number >= 9007199254740993",
            "run_number > 5",
            "target = 5",
            "target = true",
            "arguments like '%x%'",
            "run = 3",
            "started > 1",
            "los = 1",
            "`odd name` = 1",
            "x" * 201 + " = 1",
            "created_utc > '2023'",
        ),
        *(
            "lr = 1 and loss = 2 or acc = 3",
            "not (lr = 1 and loss = 2)",
            "(lr = 1 and (loss > 2 and acc is null))",
            "status != 'a' and status = 'b'",
            "hidden = true",
            "hidden = 'x'",
            "duration in ('1h', 60)",
        ),
    )
    rows = []
    for text in wheres:
        joins = sql.Joins()
        rows.append(f"{text[:60]}: {answered(lambda: sql.where(*grammar.read_where(text), Names(), NOW, joins))[2:]}")  # noqa: B023
        rows.append(f"    {joins.of_runs()} {joins.of_values()}")
    for text in ("lr", "-loss,acc.best", "run,-age", "duration", "script", "params.zzz", "zzz"):
        joins = sql.Joins()
        rows.append(f"{text}: {answered(lambda: sql.order(*grammar.read_sort(text), Names(), NOW, joins))[2:]}")  # noqa: B023
        source, names = grammar.read_names("--columns", text.replace("-", ""))
        rows.append(answered(lambda: [sql.resolve(source, name, Names(), NOW) for name in names])[2:])  # noqa: B023
    joins = sql.Joins()
    aliases = [joins.alias(number) for number in (*range(50), 50, 3)]
    rows += [f"{aliases[:2]} {aliases[-3:]}", f"{sorted(sql.free_headings(Names()))}"]
    joins.require("v7")
    joins.require("v9")
    rows += [f"{joins.of_values()}"[:300], f"{joins.of_runs(' NOT INDEXED')}"[:120]]
    assert_table("sql", rows)


def test_parts_of_a_plan(tmp_path: Path) -> None:
    wishes = (
        GpuWish(),
        GpuWish(0),
        GpuWish(2, 24, "L4", True, 90.0, True, 86400.0),
        GpuWish("all", wait_s=0),
        GpuWish(require=True),
    )
    lengths = (0, 0.5, 59, 60, 61, 90, 3600, 5400, 86399, 86400, 90000, 172800, 1e9)
    project = Project("/p", "id", "digits", "ann", "lab")
    for name in ("train.py", "test.sh", "notes.ipynb", "data.csv", "sub/deep.py", "trian"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "out.py").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "fifo")
    root, sub = str(tmp_path), str(tmp_path / "sub")
    paths = (
        (root, "train.py"),
        (sub, "deep.py"),
        (sub, "train.py"),
        (sub, "../train.py"),
        (root, r"sub\deep.py"),
        (root, "gone"),
        (root, "out.py"),
        (root, "fifo"),
        (root, "sub"),
        (root, "trai.py"),
        (root, "train"),
        (root, "./trian.py"),
        (sub, "/etc/hostname"),
        (root, "zzz"),
        (str(tmp_path / "sub"), "q"),
    )
    rows = [
        *(answered(plan_gpu, wish, handed_in=handed) for wish in wishes for handed in (False, True)),
        *(answered(duration_text, length) for length in lengths),
        *(answered(seconds, text, "lab.runconfig:3") for text in ("4h", "0", "x", "")),
        *(answered(share_directory, base, project) for base in (None, "", "/share")),
        *(answered(script_path, root, folder, name) for folder, name in paths),
        *(answered(near_scripts, root, name) for name in ("trian.py", "train", "tset", "zzz", "test")),
    ]
    assert_table("planning", [row.replace(root, "ROOT") for row in rows])


def test_addresses_of_spark_and_findings_as_text() -> None:
    addresses = (
        "spark://a:7077",
        "spark://a",
        "spark://a:0",
        "spark://a:65535",
        "spark://a:65536",
        "spark://a:1,b:2",
        "sc://a",
        "sc://a:15002/;token=x",
        "sc://a/x",
        "sc://[::1]:1",
        "local",
        "local[4]",
        "local[*]",
        "local[0]",
        "local[2,3]",
        "local-cluster[1,2,3]",
        "spark://é:1",
        "a",
        "",
    )
    rows = [answered(spark_address.complaint, "address", text) for text in addresses]
    rows += [answered(spark_address.is_local, text) for text in addresses]
    found = [
        Finding("warning", "a", 1, 2, "w"),
        *(Finding("error", "b\x07", line, 3, f"e{line}", "h\ni" * (line % 2)) for line in range(4)),
    ]
    rows += [repr(findings.render(found))]
    rows += [answered(findings.raise_errors, found[:count]) for count in range(6)]
    odd = Spec(
        "a.txt",
        "pip",
        pip=(Entry("a b", "a.txt", 1), Entry("pyspark==3.5.1", "a.txt", 2)),
        conda=(Entry("pyspark==3.4", "c.yml", 1),),
    )
    for spec in (odd, odd._replace(pip=odd.pip[:1]), odd._replace(pip=(), conda=())):
        rows.append(f"{spark_pins.declared(spec, 'pyspark')} {spark.declared_version(spec)}")
        rows.append(json.dumps([entry.text for entry in spark.with_spark(spec, (3, 11), 17).pip]))
    assert_table("addresses-of-spark", rows)
