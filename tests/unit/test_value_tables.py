"""Values at and beside the limits of functions that read or write one value, as tables of calls and results."""

from __future__ import annotations

import io
import json
from itertools import product
from typing import Any

from goldens import answered, assert_table
from holdfast import answers, image_names, labels, lifecycle, parameters, redact
from holdfast.metrics import downsample, lines, values
from holdfast.metrics.direction import has_best, less_is_better
from holdfast.metrics.resumed import continued
from holdfast.metrics.values import Series
from holdfast.present import csv_table, run_table, terminal, terminal_plot
from holdfast.present.drawing import axes
from holdfast.present.jmespath_query import search
from holdfast.quantities import parse_duration, parse_size
from holdfast.runner import json_text, untrusted, wire
from holdfast.runner.gpu import gpu_model, matching
from holdfast.runner.plan import Plan, PlanError, gpu_request
from holdfast.runner.run import outcome
from holdfast.store import archive_names
from holdfast.store.where import grammar
from holdfast.withdrawn import CUDA_IMAGES

INFINITE = float("inf")
NAN = float("nan")


def test_quantities() -> None:
    durations = ("90", "0", "-1", "1.5h", "1h30m", "1h 30m", "2d", "1 d 2 h", "30 min", "5x", "", "h", "1..5", "1h30")
    sizes = (
        "1",
        "0",
        "5K",
        "5k",
        "5KB",
        "5KiB",
        "2MiB",
        "3g",
        "1T",
        "1TiB",
        "1e3",
        "9" * 17,
        "1" + "0" * 18,
        "x",
        "1.5M",
    )
    assert_table(
        "quantities",
        [*(answered(parse_duration, text) for text in durations), *(answered(parse_size, text) for text in sizes)],
    )


def test_lengths_of_time_and_bytes() -> None:
    seconds = (
        0,
        0.004,
        0.99,
        9.994,
        9.995,
        10,
        59.94,
        59.95,
        60,
        61,
        3599.4,
        3599.5,
        3600,
        3661,
        86399,
        86400,
        90061,
        1e7,
    )
    counts = (
        0,
        1,
        999,
        1000,
        1234,
        99_949,
        99_950,
        999_499,
        999_500,
        1e6,
        1e9,
        9.9949e10,
        1e12,
        9.995e14,
        1e15,
        5e18,
        -5e6,
    )
    ages = (-3, 0, 4.9, 5, 59.9, 60, 119, 3599, 3600, 86399, 86400, 172799, 172800, 1e7)
    young = ((0, 5), (1, 999), (12, 10**9))
    assert_table(
        "lengths",
        [
            *(answered(terminal.human_duration, number) for number in seconds),
            *(answered(terminal.human_bytes, number) for number in counts),
            *(answered(run_table.age, number) for number in ages),
            *(answered(terminal.young_note, *pair) for pair in young),
        ],
    )


def test_text_on_a_terminal() -> None:
    texts = (
        "",
        "plain",
        "\x1b[31mred",
        "a\u200bb",
        "\u3164",
        "日本語テキスト",
        "e\u0301te\u0301",
        "a\tb\nc",
        "\x1b[2K\x1b[1;5H",
        "\x9b31m",
    )
    line = "  - one two  three fours and a-very-long-word-that-is-wider 日本語 end"
    assert_table(
        "terminal",
        [
            *(answered(terminal.show, text) for text in texts),
            *(answered(terminal.neutralise, text) for text in texts),
            *(answered(terminal.display_width, text) for text in texts),
            *(answered(terminal.clip, text, width) for text in texts for width in (0, 1, 2, 5, 6, 13, 14)),
            *(
                answered(terminal.wrap, line, width, indent)
                for width in (10, 16, 17, 30, 68, 69, 70)
                for indent in (0, 4)
            ),
        ],
    )


def test_escapes_of_a_log_in_two_chunks() -> None:
    text = "a\x1b[31mb\x1b[0mc\x1b]0;title\x07d\x1b[2Je\rf\x1b[1Ag\x00h\u202ei\x1bPdata\nj\x1b[1;32mk\xe9"
    data = text.encode() + b"\xff\x9b"
    rows = []
    for at in range(len(data)):
        escapes = terminal.EscapeFilter()
        rows.append(f"{at}: {escapes.feed(data[:at])!r} {escapes.feed(data[at:])!r} {escapes.finish()!r}")
    assert_table("escapes", rows)


def test_ticks_of_axes() -> None:
    spans = (
        *(
            (0, 1),
            (0, 0),
            (0.1, 0.9),
            (-5, 5),
            (1e-7, 2e-7),
            (1e6, 3e6),
            (999_999, 1_000_001),
            (0, 1e300),
            (-1e308, 1e308),
        ),
        *((3, 3.0001), (0, 7), (12, 47), (0.00001, 0.0001), (-0.3, -0.1)),
    )
    exponents = ((-2, 2), (0, 2.2), (0, 2.3), (-0.5, 0.5), (0.1, 0.2), (-12, 8), (-300, 307.5), (300, 309), (2, 2))
    moments = (0, 0.5, 1, 9, 10, 11, 59, 60, 100, 600, 601, 3600, 7300, 86400, 90000, 604800, 6048000, 6048001, 1e8)
    assert_table(
        "axes",
        [
            *(answered(axes.numbers, *span) for span in spans),
            *(answered(axes.numbers, *span, most) for span in spans[:4] for most in (0, 1, 2, 9)),
            *(answered(axes.powers, *span) for span in exponents),
            *(answered(axes.moments, length) for length in moments),
        ],
    )


def test_pictures_of_numbers_in_a_terminal() -> None:
    series = {
        "wave": ([float(x) for x in range(40)], [float((x * 7) % 13 - 4) for x in range(40)]),
        "gaps": ([0.0, 10.0, 20.0, 30.0, 39.0], [1.0, NAN, 5.0, INFINITE, 2.5]),
        "日本\x1b": ([39.0], [8.0]),
    }
    charts: tuple[Any, ...] = (
        series,
        {"flat": ([0.0, 1.0], [3.0, 3.0])},
        {"tiny": ([1.0, 2.0, 3.0], [1e-7, 3e-7, 2e-7])},
        {"huge": ([0.0, 1.0], [-1e308, 1e308])},
        {"large": ([0.0, 5.0], [1e6, 2.5e6])},
        {"near": ([0.0, 5.0], [1000.0, 1000.5])},
        {"none": ([1.0], [NAN])},
        {},
    )
    powers = {"a": ([0.0, 1.0, 2.0, 3.0], [1.0, 0.0, 1000.0, 1e-3]), "b": ([0.0, 3.0], [5.0, 50.0])}
    rows = []
    for points, (width, height) in product(charts, ((60, 8), (30, 3), (20, 1), (41, 15))):
        rows += [f"{list(points)} {width}x{height}", *terminal_plot.chart(points, width, height)]
    for fancy, colour in ((True, True), (False, False), (False, True)):
        rows += [f"fancy {fancy}, colour {colour}", *terminal_plot.chart(series, 50, 6, fancy=fancy, colour=colour)]
        rows += terminal_plot.chart(powers, 50, 9, fancy=fancy, log=True)
    many = [((x * 37) % 101) / 10 for x in range(100)]
    lists: tuple[Any, ...] = ([], [1.0], [1.0, 1.0], [1.0, 2.0, NAN, 3.0], [-INFINITE, 0.0, 8.0], [NAN, NAN], many)
    rows += [answered(terminal_plot.sparkline, numbers, width) for numbers in lists for width in (1, 3, 8, 99, 100)]
    rows += [
        answered(terminal_plot.sparkline, many, 9, fancy=False),
        answered(terminal_plot.sparkline, [1.0, 2.0], 9, between=(0.0, 4.0)),
    ]
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=name) for name in ("utf-8", "ascii", "latin-1", "cp437")]
    rows += [f"{stream.encoding}: {terminal_plot.can_draw(stream)}" for stream in streams]
    assert_table("plots", [row.rstrip() for row in rows])


def test_names_of_images() -> None:
    images = (
        *(
            "python",
            "python:3.11",
            "python:3.11-bookworm",
            "library/python",
            "docker.io/library/python:3",
            "Python",
            "a//b",
        ),
        *(
            "registry.example.org:5000/team/train:1",
            "localhost/x",
            "[::1]:80/x",
            "[]/x",
            "[::g]/x",
            "-h/x",
            "h-/x",
            "/x",
            "x/",
        ),
        *(
            "x@sha256:" + "a" * 31,
            "x@sha256:" + "a" * 32,
            "x@SHA:" + "a" * 32,
            "x@sha256:" + "g" * 32,
            "x:",
            "x:.a",
            "x:-a",
        ),
        *(
            "x:" + "a" * 128,
            "x:" + "a" * 129,
            "a" * 255,
            "a" * 256,
            "a..b",
            "a__b",
            "a___b",
            "a._b",
            "a-",
            "é",
            "_a",
            "https://X/y",
        ),
        *(
            "https://x.org/y",
            "rootfs:/a",
            "rootfs:a",
            "rootfs:/a:b",
            "rootfs:/a,b",
            "rootfs:/a\x07",
            "rootfs:",
            "1.2.3.4:9/x:t",
            "x:5000",
        ),
    )
    old = (
        *(
            "microsoft/mmlspark:plus-0.7.91",
            "microsoft/mmlspark:plus-gpu-0.7.9",
            "index.docker.io/microsoft/mmlspark:0.9",
        ),
        *(
            "nvidia/cuda:8.0-cudnn6-devel",
            "nvidia/cuda:9.1",
            "docker.io/nvidia/cuda:10.2-base",
            "nvidia/cuda:11.8.0-base",
            "nvidia/cuda",
        ),
        *(
            "nvidia/cuda:latest",
            "nvidia/cuda:9",
            "nvidia/cuda:x.1",
            "nvidia/cuda:1.x",
            "nvidia/cuda:12.6.3",
            *CUDA_IMAGES.values(),
        ),
    )
    cudas = (None, (8, 0), (9, 0), (10, 0), (10, 1), (11, 2), (12, 3), (99, 0))
    assert_table(
        "images",
        [
            *(answered(image_names.complaint, image) for image in images),
            *(answered(image_names.cuda_of, image) for image in (*images[:3], *old)),
            *(answered(image_names.for_cuda, cuda) for cuda in cudas),
            *(answered(image_names.replaced, image, cuda) for image in (*images[:2], *old) for cuda in cudas[:3]),
        ],
    )


def test_names_tags_and_parameters() -> None:
    values_of_tags: tuple[Any, ...] = ({"a": None}, {"a": []}, {"": 1}, {"b": True, "c": 1.5, "d": "x"})
    names = ("", "a", " a", "a ", "last", "Last", "12", "１２", "1a", "x" * 200, "x" * 201, "a\nb", "é")
    tags = (["a=1"], ["a"], ["a=x=y", "b="], ["=1"], ["a=1.5", "a=true"], ["a=1e400"], ["x" * 201])
    tokens = (
        *(
            "--lr 0.1 --fast",
            "--lr=0.1",
            "lr=0.1",
            "-b 32",
            "-b32",
            "--layers 64 64 10 x",
            "--a --b c=d",
            "--a b",
            "-- --x 1",
        ),
        *(
            "--n 5 --n 6",
            "--n=1 --n=2 --n=x",
            "+a=1",
            "+++a=1",
            "--a -5 -3",
            "--a -x",
            "--a=",
            "=1",
            "5 6",
            "-5",
            "--9=1",
            "-é=1",
        ),
        *(
            "--x 00012345678901234567",
            "--x 1234567890123456789",
            "--x 123456789012345678",
            "--x 1e999",
            "--x +.5",
            "--x 5.",
            "--x ٣",
        ),
    )
    assert_table(
        "names",
        [
            *(answered(labels.is_name, name) for name in names),
            *(answered(labels.is_tag, name) for name in names),
            *(answered(labels.checked_name, name) for name in names[:6]),
            *(answered(labels.read_tags, words) for words in tags),
            *(answered(labels.checked_tags, tag) for tag in values_of_tags),
            *(answered(parameters.read, text.split(" ")) for text in tokens),
            answered(parameters.read, ["--text", "a b=c", "--more", "d=e"]),
            *(
                answered(parameters.typed, text)
                for text in ("True", "FALSE", "yes", "1_0", "1.", ".", "-0", "+7", "1e5", "0x1")
            ),
        ],
    )


def test_secrets_in_text() -> None:
    secrets = (
        "hunter2!",
        "abcd",
        "abcde",
        "123.5",
        "1234567890",
        "12345678.90e",
        "https://ann:pässword@host/path?token=longvalue1",
    )
    redactor = redact.Redactor(secrets, "/home/ann")
    texts = (
        *(
            "a hunter2! b",
            "hunter2%21",
            "aHVudGVyMiE=",
            "68756e74657232 21",
            "abcd abcde abcdef",
            "123.5 1234567890",
            "longvalue1 token",
        ),
        *(
            "password=x y",
            "--api-key  abc rest",
            "PASSWORD: 'a b' c",
            '"token": "abc", "b": 1',
            "Authorization: Bearer abc.def/ghi",
            "bearer short",
        ),
        *(
            "-----BEGIN KEY-----\nabc\n-----END KEY-----\nafter",
            "-----BEGIN A-----abc",
            "AKIA" + "A" * 16,
            "AKIA" + "A" * 15,
            "ghp_" + "a" * 20,
        ),
        *(
            "/home/ann",
            "/home/ann/x",
            "/home/annex",
            "at /home/ann, and",
            "x" * 1000,
            "x" * 1001,
            "hf_" + "b" * 19,
            "hf_" + "b" * 20,
            "keys=1",
            "lr=0.1",
        ),
    )
    names = (
        "PWD",
        "OLDPWD",
        "DB_PWD",
        "password",
        "passwordless",
        "apiKey",
        "api-key",
        "sasToken",
        "token1",
        "monkey",
        "KEY",
        "x_key",
        "keyword",
        "auth",
        "author",
    )
    value = {"password": "x", "token": 5, "items": ["abcde", 1, None], "home": {"abcde": "/home/ann/x"}}
    lines_ = (["--lr", "0.1", "-x=5", "--a=", "-", "--", "-5", "file.txt", 7],)
    assert_table(
        "secrets",
        [
            *(answered(redactor.text, text) for text in texts),
            *(answered(redact.Redactor([], home).text, "/ a /b") for home in ("", "/", "/b")),
            *(answered(redact.is_secret_name, name) for name in names),
            answered(redactor.value, value),
            *(answered(redact.words, line) for line in lines_),
        ],
    )


def test_names_and_values_from_elsewhere() -> None:
    names = (
        "",
        ".",
        "..",
        "a",
        "a/b",
        "a\0b",
        "x" * 255,
        "x" * 256,
        "é" * 127,
        "é" * 128,
        b"a",
        b"a/b",
        5,
        "\ud800",
        "a\\b:c",
        "...",
    )
    paths = ("a/b", "/a", "a//b", "a/../b", "a/b/", "/".join(["abc"] * 1000), "/".join(["abc"] * 1001))
    guids = (
        "3bf5de88-dbb3-8d8f-e850-96118358cff0",
        "3BF5DE88-DBB3-8D8F-E850-96118358CFF0",
        "3bf5de88dbb38d8fe85096118358cff0",
        "3bf5de88-dbb3-8d8f-e850-96118358cfg0",
        5,
    )
    texts = (
        *(
            '{"a": [1, 2.5, null, "b"]}',
            "NaN",
            "[1e400, -Infinity]",
            str(2**63 - 1),
            str(2**63),
            str(-(2**63)),
            str(-(2**63) - 1),
            " 1",
            "1 2",
            "",
        ),
        *(
            '"\\ud800"',
            '"\\udc80"',
            '"\\ud83d\\ude00"',
            "[" * 100 + "]" * 100,
            "[" * 101 + "]" * 101,
            "[" * 99 + "{}" + "]" * 99,
            "9" * 4000,
            "9" * 4001,
        ),
    )
    wholes = ("0", "12", "-1", "", "²", "9" * 18, "9" * 19)
    rows = [
        *(answered(untrusted.component, name) for name in names),
        *(answered(untrusted.relative, path) for path in paths),
        answered(untrusted.below, "/top", "a/b"),
        *(answered(untrusted.guid, text) for text in guids),
        *(
            answered(untrusted.hexadecimal, text, length)
            for text, length in (("ab", 2), ("ab", 3), ("", 0), ("AB", 2), ("ag", 2), (5, 1))
        ),
        *(answered(untrusted.loads, text.encode()) for text in texts),
        *(answered(untrusted.whole_number, text) for text in wholes),
        answered(untrusted.whole_number, "123", 2),
        *(answered(json_text.loads, text) for text in texts[:10]),
        *(
            answered(json_text.dumps, value)
            for value in ({"b": 1, "a": [None, True, 1.5, "é"]}, NAN, INFINITE, {1: 2}, {2, 3}, "\ud800")
        ),
        answered(json_text.dumps, {"b": 1, "a": 2}, sort_keys=True),
    ]
    assert_table("untrusted", [row if len(row) < 300 else f"{row[:150]} ... {row[-150:]}" for row in rows])


def test_answers_of_a_target() -> None:
    kinds: tuple[Any, ...] = ({}, [], "text", 5, -1, 2**63 - 1, 2**63, 1.5, True, None, ["a"], ["a", 1], [{}], [{}, 1])
    functions = (answers.text, answers.optional_text, answers.number, answers.table, answers.rows, answers.texts)
    hello = {"protocol": wire.PROTOCOL, "store": "a" * 32, "host": "box"}
    hellos: tuple[Any, ...] = (
        *(
            hello,
            [],
            {},
            {**hello, "protocol": True},
            {**hello, "protocol": 99},
            {**hello, "store": "x"},
            {**hello, "fit": {"a": 1}},
        ),
        *({**hello, "fit": []}, {**hello, "python": 3}),
    )
    codes = ("store-full", "a" * 40, "a" * 41, "Bad", "", 5, None)
    assert_table(
        "answers",
        [
            *(
                f"{function.__name__} {answered(function, {'key': kind}, 'key', 'box')}"
                for function in functions
                for kind in kinds
            ),
            *(answered(answers.check_hello, document, "box") for document in hellos),
            *(answered(answers.error_code, {"error_code": code}) for code in codes),
        ],
    )


PLAN = {"uid": "u", "run_id": "r", "argv": ["python", "train.py"], "tree": "t"}


def test_keys_of_a_plan() -> None:
    full = {
        "v": 2,
        "run_number": 7,
        "attempt": "a2",
        "env": ["A=1"],
        "links": [{"name": "l", "target": "/t"}],
        "timeout": 5,
        "grace": 1.5,
        "data": [{"name": "d", "tree": "x"}, {"name": "e", "path": "/p", "shared": "/s"}],
        "keep": {"limit": 1, "ignore": ["*.pt"]},
        "environment": {"key": "k", "prefix": "/p"},
        "idle": {"command": "off"},
        "interpreter": {},
        "spark": {"x": 1},
        "capture": False,
        "container": {"engine": "docker", "program": "/usr/bin/docker", "image_id": "i", "python": "python3"},
        "gpu": {"count": "all"},
        "python": "py",
        "max_log": 10,
        "keep_work": True,
        "scalars": True,
    }
    odd: tuple[Any, ...] = (
        *(
            {"uid": None},
            {"uid": 5},
            {"argv": []},
            {"argv": None},
            {"argv": ["a", 5]},
            {"run_number": 1.5},
            {"run_number": -1},
            {"run_number": True},
        ),
        *(
            {"grace": "x"},
            {"grace": 1e300},
            {"grace": 9.9e299},
            {"timeout": -0.1},
            {"env": "A"},
            {"links": [5]},
            {"links": [{}]},
            {"data": {}},
        ),
        *(
            {"keep": []},
            {"keep": {"limit": "x"}},
            {"container": {}},
            {"gpu": 5},
            {"gpu": {"count": "two"}},
            {"gpu": {"count": 2.0}},
            {"capture": 0},
        ),
        *(
            {"keep_work": 1},
            {"spark": []},
            {"idle": {}},
            {"idle": {"command": "x", "minutes": 0}},
            {"environment": {"key": "k"}},
            {"v": 0},
        ),
    )
    rows = [f"{change}: {_plan({**PLAN, **change})}" for change in ({}, full, *odd)]
    sources: tuple[Any, ...] = ({}, {"memory": 5}, [], None, "x" * 100)
    rows += [answered(_memory, source) for source in sources]
    assert_table("plans", rows)


def _memory(source: object) -> float:
    return gpu_request(source).memory


def _plan(source: object) -> str:
    try:
        return json.dumps(_fields(Plan(source)), sort_keys=True, default=repr)
    except PlanError as error:
        return str(error)


def _fields(value: object) -> object:
    if isinstance(value, list):
        return [_fields(item) for item in value]
    names = [name for name in getattr(value, "__slots__", ()) if name != "source"]
    return {name: _fields(getattr(value, name)) for name in names} if names else value


def test_outcomes_and_states() -> None:
    codes, reasons = (
        (0, 1, 77, 139, -9, -11, -64, -15),
        ("", "canceled", "canceled: by ann", "timeout", "guardian-died", "gpu-idle: no work", "other reason"),
    )
    events: list[list[dict[str, object]]] = [
        [{"type": kind} for kind in kinds]
        for kinds in product(("accepted", "queued", "started", "stopping", "exited", "x"), repeat=2)
    ]
    events += [
        [{"type": "started"}, {"type": "closed", "outcome": word}, {"type": "exited"}]
        for word in ("completed", "failed", "canceled", "lost", "odd", None)
    ]
    assert_table(
        "outcomes",
        [
            *(answered(outcome.judge, code, reason, "2 h") for code in codes for reason in reasons),
            *(
                answered(outcome.judge, code, "", "", "the engine died", lost=lost)
                for code in codes
                for lost in (False, True)
            ),
            *(f"{[tuple(event.values()) for event in row]}: {lifecycle.state_of(row)}" for row in events),
        ],
    )


CARDS = [
    {"uuid": "GPU-aa1", "index": 0, "name": "NVIDIA H200", "memory_total": 150e9},
    {"uuid": "GPU-aa2", "index": 1, "name": "NVIDIA L4", "memory_total": 24e9},
    {"uuid": "GPU-b", "index": 2, "name": None, "memory_total": None, "trouble": "Xid 79"},
    {"uuid": "GPU-c", "index": 3, "name": "NVIDIA H200", "memory_total": 150e9, "mig": True},
    {"uuid": "", "index": 4, "name": "x"},
]


def _indices(cards: list[dict[str, object]]) -> list[object]:
    return [card["index"] for card in cards]


def _impossible(cards: list[dict[str, object]], request: dict[str, object]) -> str:
    return matching.impossible(cards, gpu_request(request))


def test_cards_that_serve_a_request() -> None:
    requests: tuple[Any, ...] = (
        {},
        {"count": 1},
        {"count": 2},
        {"count": 3},
        {"count": "all"},
        {"name": "l4"},
        {"count": 2, "name": "H2"},
        {"memory": 24e9},
        {"memory": 24e9 + 1},
        {"memory": 2e11},
        {"name": "v100", "memory": 1e9},
    )
    settings = (None, "", "0", "1,0", "0,0", "0,9,1", "GPU-aa", "GPU-aa1", "GPU-b, 0", "aa1", "-1", "２")
    samples: tuple[Any, ...] = (
        [],
        [(1_000_000, 50)],
        [(1_000_000, 100), (3_000_000, 50), (5_000_001, 100), (5_000_001, 10), (4_000_000, 7), (6_000_000, 100)],
    )
    unknown = gpu_model.card(name=None)
    known = gpu_model.card(
        name="L4",
        major=8,
        minor=9,
        memory_clock_mhz=6251,
        pci="0000:01:00.0",
        memory_total=24 * 1024**3,
        memory_free=5 * 10**9,
    )
    assert_table(
        "cards",
        [
            *(
                f"{request}: {_indices(matching.fitting(CARDS, gpu_request(request)))} {_impossible(CARDS, request)}"
                for request in requests
            ),
            f"none: {matching.impossible([], gpu_request({}))}",
            *(f"{setting}: {[card['index'] for card in matching.visible(CARDS, setting)]}" for setting in settings),
            *(answered(gpu_model.add_samples, 0, rows) for rows in samples),
            *(answered(gpu_model.five_lines, card) for card in (unknown, known)),
            answered(gpu_model.pci, 1, 2, 31),
            answered(gpu_model.pci, 0x10000, 255, 0),
            answered(gpu_model.nothing, "none", "no driver"),
        ],
    )


def test_csv_of_queries() -> None:
    rows: tuple[Any, ...] = (
        *(
            [],
            {},
            [None],
            [1, "a"],
            [[1, None, True], ["=1+1", "-5", "+x"]],
            [{"a": 1}, {"b": 2.5, "a": None}],
            {"a": [1, {"b": 2}], "c": "x,y"},
        ),
        *(
            ["\t=1", "\n+1", " =2", "\u200b@a", "＝1", "＋1", "a\x0bb", 'q"q', "a\rb", "'", "\x1b[1m"],
            -5,
            "-5",
            1e300,
            NAN,
        ),
    )
    queries = (
        "a",
        "a[0]",
        "@",
        "*.b",
        "a[?b > `1`].c",
        "length(@)",
        "[@, @]",
        "{x: a, y: @}",
        "sort(a)",
        "",
        "a.",
        "a ~ b",
        "a b",
        "join(a)",
        "join('-', a)",
        "&a",
        "abs('x')",
        "'" + "x" * 9998 + "'",
        "'" + "x" * 9999 + "'",
    )
    data = {"a": [{"b": 1, "c": 2}, {"b": 3, "c": 4}], "t": "text"}
    assert_table(
        "queries",
        [
            *(answered(csv_table.as_csv, row) for row in rows),
            *(answered(csv_table.as_csv, row, isatty=True) for row in rows[6:8]),
            *(answered(csv_table.as_csv, rows[5], columns) for columns in ([], ["b"], ["b", "z"])),
            *(answered(lambda query: search(query, data), query)[-400:] for query in queries),
            answered(lambda query: search(query, {"a": ["x", "y"]}), "join('-', a)"),
            answered(lambda query: search(query, {"a": [3, 1, 2]}), "sort(a)"),
        ],
    )


def _series(numbers: list[object], steps: list[int] | None = None, *, own: bool = False) -> Series:
    return Series("a", steps or list(range(len(numbers))), list(range(len(numbers))), numbers, own)  # type: ignore[arg-type]


def test_values_of_metrics() -> None:
    names = (
        "loss",
        "val_loss",
        "TestError",
        "accuracy",
        "AUCScore",
        "lr",
        "epoch",
        "F1",
        "latency_ms",
        "preferred_acc",
        "map50",
        "",
        "time",
        "RMSEval",
    )
    logged: tuple[Any, ...] = (
        *([1.0, 2.0], [1, 2, 3], [1, None], [None, None], [1, "a"], [True, 1], [1.0], [], 5, "x"),
        *(
            {"type": "image", "file": "1-2-3.png", "width": 1, "height": 2, "sha256": "a"},
            {"type": "image", "file": "../1-2-3.png", "width": 1, "height": 2, "sha256": "a"},
        ),
        *(
            {"type": "image", "file": "1-2-3.jpg", "width": 1.5, "height": 2, "sha256": "a"},
            {"type": "image", "file": "1-2-3.jpg", "width": 1, "height": 2, "sha256": "b"},
        ),
        *(
            {"type": "table", "columns": ["a", 1], "rows": [[1], [2]]},
            {"type": "table", "columns": "a", "rows": []},
            {"type": "table", "columns": [], "rows": [1]},
        ),
        *(
            {"type": "table", "columns": ["a"], "rows": [[1]] * 100},
            {"type": "table", "columns": ["a"], "rows": [[1]] * 101},
            [{"type": "table", "rows": [[1]] * 101}],
        ),
    )
    lines_ = (
        b'{"name": "a", "value": 1}\n{"name": "b"}\n{"value": "\\ud800"}\nnot json\n{"value": '
        + str(2**1023).encode()
        + b'}\n{"value": '
        + str(2**1022).encode()
        + b"}\n[1]\n"
        + b'{"value": '
        + b"[" * 99
        + b"]" * 99
        + b'}\n{"value": '
        + b"[" * 100
        + b"]" * 100
        + b'}\n{"value": 5}'
    )
    starts = [0, *(at + 1 for at, byte in enumerate(lines_) if byte == 10), 3]
    reader = lines.LineReader(lines_)
    notes = b'{"tag": "a", "value": 1}\n{"tag": "b", "value": [1]}\n{"tag": "c", "value": true}\n'
    notes += b'{"tag": "a", "value": "x"}\n{"tag": "d", "value": 1}\n{"tag": "e", "value": 2}'
    short = _series([float((x * 37) % 11) for x in range(30)])
    mixed = _series([1, None, "x", 7.5, NAN, True, -3, INFINITE, 2, 9, 0, 4])
    earlier, later = _series([1, 2, 3, 4], [0, 5, 10, 15], own=True), _series([9, 8], [10, 12], own=True)
    assert_table(
        "metrics",
        [
            *(f"{name}: less {less_is_better(name)}, best {has_best(name)}" for name in names),
            *(f"spread {values.spread(_series([value]))}" for value in logged[:8]),
            f"spread {values.spread(_series([[1.0, 2.0], [3.0, 4.0]]))}",
            *(
                f"image {answered(values.image, value)[-200:]}; table {str(values.table(value))[-200:]}"
                for value in logged[8:]
            ),
            *(answered(values.brief, value)[-300:] for value in logged[8:]),
            *(f"{at}: {str(reader.value(at))[:60]} missing {reader.missing}" for at in starts),
            *(answered(lines.notes, notes, kind, most)[-150:] for kind in ("tag", "param") for most in (0, 1, 2, 9)),
            *(
                f"{parts}: {list(downsample.places(series, parts))}"
                for series in (short, mixed)
                for parts in (1, 2, 3, 7, 8, 20)
            ),
            f"{continued([{'a': earlier}, {'a': later, 'b': short}])['a']}",
            f"{continued([{'a': earlier}, {'a': _series([9, 8])}])['a']}",
        ],
    )


def test_names_in_archives() -> None:
    run, digest = "runs/" + "a" * 32, "objects/ab/" + "c" * 62
    names = (
        *(
            archive_names.NOTE,
            f"{run}/run.json",
            f"{run}/a1/log",
            f"{run}/a0/log",
            f"{run}/a10000/log",
            f"{run}/a9999/log",
            f"{run}/a1/metrics/x",
            f"{run}/a1/metrics/x/y",
        ),
        *(
            f"{run}/a1/outputs/x/y",
            f"{run}/a1/outputs/",
            f"{run}/a1/other",
            digest,
            digest + "d",
            digest.upper(),
            "../x",
            "/x",
            "",
            f"{run}/a1/outputs/a.",
            f"{run}/a1/outputs/a\\b",
        ),
        *(
            f"{run}/a1/outputs/a\x07",
            f"{run}/a1/outputs/\ud800",
            f"{run}/a1/gpu/x",
            f"{run}/git.diff",
            "runs/x/run.json",
        ),
    )
    clashes: tuple[Any, ...] = (
        ["a", "A"],
        ["é", "e\u0301"],
        ["a", "a/b"],
        ["a/b/c", "a"],
        ["a/b", "a/c"],
        ["x", "a/b/c", "a/b"],
        [],
    )
    assert_table(
        "archives",
        [
            *(answered(archive_names.name_problem, name) for name in names),
            *(answered(archive_names.is_run_file, name.removeprefix(f"{run}/")) for name in names),
            *(f"{row}: {list(archive_names.clashes(row))} {archive_names.clash(row)}" for row in clashes),
        ],
    )


def test_conditions_as_trees() -> None:
    wheres = (
        *(
            "a = 1",
            "a == 1.5 and b <> 'x''y' or not c",
            "not (a in (1, 'x', true) or b not like 'x%')",
            "a is null and b is not null",
            'a ~ "x*"',
            "`a b` >= -1e3",
        ),
        *(
            "",
            "a",
            "a =",
            "a = b",
            "a = null",
            "a = `x`",
            "a in ()",
            "a in (1",
            "a is",
            "a is not 1",
            "a like 5",
            "= 1",
            "and = 1",
            "a = 1 b",
            "a = 1 and",
            "(a = 1",
            "a = 1)",
            "a ! 1",
        ),
        *(
            "a = '",
            "a = 1x",
            "a = +",
            "5a = 1",
            "a = 123456789012345678",
            "a = 1234567890123456789",
            "a = 1e999",
            "a like '" + "x" * 200 + "'",
            "a like '" + "x" * 201 + "'",
        ),
        *(
            "not " * 20 + "a = 1",
            "not " * 21 + "a = 1",
            "(" * 20 + "a = 1" + ")" * 20,
            "(" * 21 + "a = 1" + ")" * 21,
            " or ".join(["a = 1"] * 200),
            " or ".join(["a = 1"] * 201),
        ),
        *(
            "a in (" + ",".join("1" * 400) + ")",
            "a in (" + ",".join("1" * 401) + ")",
            "a = '" + "x" * 3994 + "'",
            "a = '" + "x" * 3995 + "'",
            "x" * 100 + " = 1 and 日本 = é ? 1" + " " * 80 + ".",
        ),
    )
    lists: tuple[Any, ...] = (
        "a",
        "a,-b",
        "-a b , c",
        '`a,b`,-"c"',
        "",
        "a,,b",
        "-",
        "a,`b",
        ",".join("a" * 16),
        ",".join("a" * 17),
        "x" * 4000,
        "x" * 4001,
    )
    rows = [
        *(answered(lambda text: grammar.read_where(text)[1], text) for text in wheres),
        *(answered(lambda text: grammar.read_sort(text)[1], text) for text in lists),
        *(answered(lambda text: grammar.read_names("--columns", text)[1], text) for text in lists),
    ]
    assert_table("conditions", [row if len(row) < 1500 else f"{row[:300]} ... {row[-900:]}" for row in rows])
