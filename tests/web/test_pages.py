"""Runs, Run, Log and Jobs: what they show, their JSON twins, and bad input."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

import seeds
from conftest import eventually
from gpuruns import HandRun, receipt, write_series
from holdfast.web import log_window
from security.replay import WAYS, changed_text, paths

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk
    from web.client import Server

HOSTILE = ("run.json", "client.jsonl", "a1/plan.json", "a1/outputs.jsonl", "a1/events.jsonl")
FIELDS = int(os.environ.get("HOLDFAST_FUZZ_PAGES", "60"))


def test_runs_page_shows_rows_and_true_count(server: Server, uid: str) -> None:
    page = server.get("/runs").text
    assert "<b>2</b> runs" in page
    assert f'href="/runs/{uid}"' in page
    assert "metrics.loss" in page
    assert "<b>1</b> runs" in server.get("/runs?where=params.lr+%3E+0.15").text


def test_filter_shows_its_error_in_place(server: Server) -> None:
    answer = server.get("/runs?where=loss+%3C+and")
    assert answer.status == 200
    assert 'id="mistake"' in answer.text
    assert "^" in answer.text
    assert server.get("/rows.json?where=%27").status == 400


@pytest.mark.parametrize("name", ["where", "sort", "columns"])
def test_injected_text_is_data(server: Server, name: str) -> None:
    for text in (
        "1; DROP TABLE runs",
        "' OR 1=1 --",
        "x' UNION SELECT uid FROM runs --",
        "`a`; --",
        "\x00",
        "a" * 9000,
    ):
        assert server.ask("GET", f"/rows.json?{name}={quote(text)}").status in (200, 400)
    assert server.get("/rows.json").json["total"] == 2


def test_json_twins_are_shaped_like_the_command_line(desk: Desk, server: Server, uid: str) -> None:
    listed = desk.holdfast("history", "list", "-A", "-o", "json").json
    assert server.get("/runs.json").json == listed
    columns = desk.holdfast("history", "list", "-A", "--columns", "run_number,loss", "-o", "json").json
    assert server.get("/runs.json?columns=run_number,loss").json == columns
    record = server.get(f"/runs/{uid}.json").json
    info = desk.holdfast("history", "info", "-r", "1", "-o", "json").json
    assert {name: record[name] for name in ("status", "loss", "tags", "ledger", "attempts")} == {
        name: info[name] for name in ("status", "loss", "tags", "ledger", "attempts")
    }


def test_run_page_and_curves(server: Server, uid: str) -> None:
    page = server.get(f"/runs/{uid}").text
    for text in ("--lr 0.1", "Completed", "outputs/page.html", "accuracy", "<rect"):
        assert text in page
    curves = server.get(f"/runs/{uid}/curves.json").json
    assert [curve["name"] for curve in curves["curves"]] == ["loss", "accuracy"]
    assert curves["curves"][0]["values"][0] == 1
    part = server.get(f"/runs/{uid}/curves.json?name=loss&start=1e9&end=2e9").json["curves"][0]
    assert part["points"] <= 1
    for odd in ("inf", "-inf", "nan", "1e308", "-1e308", "x"):
        assert server.get(f"/runs/{uid}/curves.json?start={odd}&end={odd}").status == 200
    assert server.get("/runs/" + "0" * 32).status == 400
    assert server.get("/runs/..%2f..%2fetc").status == 404


def test_charts_get_numbers_of_every_run_of_the_view(server: Server) -> None:
    data = server.get("/points.json?axis=metrics.loss&axis=params.lr&axis=script_name").json
    assert (data["total"], len(data["uids"])) == (2, 2)
    assert data["columns"] == [[0.05, 0.05], [0.2, 0.1], [None, None]]
    assert {"duration", "metrics.loss", "params.lr"} <= set(server.get("/names.json").json)
    assert server.get("/points.json?where=params.lr+%3E+0.15&axis=params.lr").json["columns"] == [[0.2]]
    assert server.get("/points.json?axis=" + "`" * 3).status in (200, 400)


def test_several_runs_are_tagged_archived_and_exported(server: Server, uid: str) -> None:
    other = next(row["uid"] for row in server.get("/rows.json").json["rows"] if row["uid"] != uid)
    view = {"runs": f"{uid},{other}", "view": "where=params.lr+%3E+0&sort=run_number"}
    tagged = server.post("/labels", {**view, "tags": "good size=3"})
    assert tagged.headers["location"].startswith("/runs?where=params.lr+%3E+0")
    assert [server.get(f"/runs/{run}.json").json["tags"]["size"] for run in (uid, other)] == [3, 3]
    assert server.post("/labels", {"runs": "../x", "hidden": "1"}).status == 400
    server.post("/labels", {"runs": other, "hidden": "1"})
    assert server.get("/rows.json").json["total"] == 1
    server.post("/labels", {"runs": other, "hidden": "0"})
    csv = server.get(f"/runs.csv?columns=run_number,loss&run={uid}").text
    assert csv.splitlines() == ["run_number,loss", "1,0.05"]
    assert len(server.get("/runs.csv").text.splitlines()) == 3


def test_views_are_kept_under_a_name(server: Server) -> None:
    view = "where=loss+%3C+1&columns=run_number%2Closs&pinned=2"
    assert server.post("/views", {"name": "best <b>", "view": view}).status == 303
    page = server.get("/runs").text
    assert "best &lt;b&gt;" in page
    assert "columns=run_number%2Closs" in page
    assert server.post("/views", {"name": " ", "view": view}).status == 400
    assert server.post("/views", {"name": "best <b>", "view": "", "remove": "1"}).status == 303
    assert "best &lt;b&gt;" not in server.get("/runs").text


def test_time_axis_has_events_idle_times_and_log_lines(desk: Desk, server: Server) -> None:
    hand = HandRun(desk)
    hand.add("gpu_context", uuid="GPU-1", index=0, pid=4711, program="python", after_s=1.5)
    text = "".join(f"line {second}\n" for second in range(60))
    sizes = [float(len("".join(f"line {at}\n" for at in range(second + 1)))) for second in range(60)]
    busy = [5.0 if 20 <= second < 40 else 90.0 for second in range(60)]
    write_series(hand.attempt / "gpu", {"gpu0.busy": busy, "cpu.busy": busy, "log.bytes": sizes})
    hand.log(text)
    hand.end(**receipt())
    run = hand.record["uid"]
    curves = server.get(f"/runs/{run}/curves.json").json
    assert [lane["name"] for lane in curves["lanes"]] == ["gpu0.busy"]
    assert {"gpu_context", "exited"} <= {event["type"] for event in curves["events"]}
    assert len(curves["idle"]) == 1
    begin, end = curves["idle"][0]
    assert end - begin == pytest.approx(20, abs=0.01)
    zero = begin - 20
    lines = server.get(f"/runs/{run}/log.json?second={zero + 30}&count=40").json["lines"]
    assert lines[-1][1] == [["", "line 30"]]
    assert server.get(f"/runs/{run}/log.json?second=nan").status == 200
    other = next(row["uid"] for row in server.get("/rows.json").json["rows"] if row["uid"] != run)
    assert server.get(f"/runs/{other}/log.json?second=1").status == 404
    desk.holdfast("history", "delete", "-r", "last", "--yes")


def test_log_by_byte_and_line_and_search(server: Server, uid: str) -> None:
    base = f"/runs/{uid}"
    text = server.get(f"{base}/log.txt")
    assert text.body.startswith(b"begin --lr 0.1\n")
    assert "sandbox" in text.headers["content-security-policy"]
    lines = server.get(f"{base}/log.json?at=0").json
    assert lines["lines"][0] == [0, [["", "begin --lr 0.1"]]]
    assert lines["lines"][1][1][0] == ["fg-green", "done"]
    assert "\\u202e" in lines["lines"][1][1][1][1]
    assert server.get(f"{base}/log.json?line=2").json["start"] == 15
    assert server.get(f"{base}/search.json?text=done").json["matches"] == [20]
    assert server.get(f"{base}/search.json?text=").status == 400


def test_damaged_run_is_shown_and_hides_no_other(desk: Desk, server: Server) -> None:
    done = desk.submit("train.py")
    assert done.code == 0
    broken = desk.record("last")["uid"]
    (desk.home / "runs" / broken / "run.json").write_text("{torn")
    desk.holdfast("history", "list")
    eventually(lambda: "Damaged" in server.get("/runs").text)
    assert server.get("/rows.json").json["total"] == 3
    assert "Damaged" in server.get(f"/runs/{broken}").text
    os.rename(desk.home / "runs" / broken, desk.home / "gone")
    eventually(lambda: server.get("/rows.json").json["total"] == 2)


def test_no_field_of_an_untrusted_run_breaks_a_page(desk: Desk, server: Server, uid: str) -> None:
    """As a target or an archive may have sent it."""
    rng = random.Random(seeds.seed())
    folder = desk.home / "runs" / uid
    whole = {name: (folder / name).read_text() for name in HOSTILE}
    cases = [
        (name, number, path, way)
        for name, text in whole.items()
        for number, line in enumerate(text.splitlines())
        for path in paths(json.loads(line))
        for way in WAYS
    ]
    other = desk.record("2")["uid"]
    pages = ["", ".json", "/curves.json", "/log", "/log.json", "/outputs?name=outputs/page.html"]
    routes = [*(f"/runs/{uid}{page}" for page in pages), f"/compare?run={uid}&run={other}", "/projects"]
    try:
        for name, number, path, way in rng.sample(cases, FIELDS):
            lines = whole[name].splitlines()
            lines[number] = changed_text(json.loads(lines[number]), path, way)
            (folder / name).write_bytes("\n".join([*lines, ""]).encode("utf-8", "surrogatepass"))
            for route in routes:
                assert server.get(route).status < 500, (name, number, path, way, route)
            (folder / name).write_text(whole[name])
    finally:
        for name, text in whole.items():
            (folder / name).write_text(text)


def test_new_run_is_told_to_listening_pages(desk: Desk, server: Server) -> None:
    with server.connect() as connection:
        topics = ",".join([*(f"log:{number:032x}" for number in range(40)), "runs"])  # of many tabs
        head = f"GET /events?topics={topics} HTTP/1.1\r\nHost: {server.host}\r\nCookie: {server.cookie}\r\n\r\n"
        connection.sendall(head.encode())
        reader = connection.makefile("rb")
        _news(reader, "hello")
        process = desk.start("submit", "-c", "local", "train.py")
        assert _news(reader, "runs")["version"] > 0
        assert process.wait(60) == 0
        process.communicate()


def test_printed_line_reaches_a_listening_page(desk: Desk, server: Server) -> None:
    desk.script("import sys, time\nprint('first', flush=True)\nopen(sys.argv[1]).read()\nprint('second')\n", "slow.py")
    gate = desk.user_home / "gate"
    os.mkfifo(gate)
    assert desk.submit("--no-wait", "slow.py", str(gate)).code == 0
    uid = desk.record("last")["uid"]
    assert uid in server.get("/jobs").text
    with server.connect() as connection:
        head = f"GET /events?topics=log:{uid} HTTP/1.1\r\nHost: {server.host}\r\nCookie: {server.cookie}\r\n\r\n"
        connection.sendall(head.encode())
        reader = connection.makefile("rb")
        while _news(reader, f"log:{uid}")["size"] < len("first\n"):
            continue
        gate.write_text("go")
        while _news(reader, f"log:{uid}")["size"] < len("first\nsecond\n"):
            continue
    assert [line[1][0][1] for line in server.get(f"/runs/{uid}/log.json?at=6").json["lines"]] == ["second"]


def test_cancel_ends_a_run(desk: Desk, server: Server) -> None:
    desk.script("import time\ntime.sleep(1000)\n", "long.py")
    assert desk.submit("--no-wait", "long.py").code == 0
    uid = desk.record("last")["uid"]
    assert server.post(f"/runs/{uid}/cancel", {}).status == 303
    assert desk.wait_for_end("last")["status"] == "Canceled"


def test_windows_of_a_large_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [b"line %d %s" % (number, b"x" * (number % 50)) for number in range(200_000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    whole = path.read_bytes()
    for number in (1, 2, 777, 150_000, 200_000):
        offset = log_window.byte_of_line(str(path), number)
        assert whole[offset:].startswith(lines[number - 1] + b"\n")
        assert log_window.at_byte(str(path), offset, 100).lines[0][0] == offset
    end = log_window.at_byte(str(path), -1, 1000)
    assert end.end == end.size == len(whole)
    before = log_window.before_byte(str(path), end.start, 1000)
    assert before.end == end.start
    found, following = log_window.search(str(path), "line 19999", 0, 5)
    assert [whole[at : at + 10] for at in found] == [b"line 19999"] * 5
    rest, last = log_window.search(str(path), "line 19999", following or 0, 50)
    assert len(found) + len(rest) == 11
    assert last is None


def test_log_lines_look_as_on_a_terminal() -> None:
    data = b"10%\r20%\r100%\nab\bc\n\x1b]52;c;aGk=\x07safe\x1b[2J\x1b[31mred\nstill\x1b[0m plain\n" + b"z" * 20_000
    lines = log_window.shown(data, 0)
    texts = ["".join(text for _, text in pieces) for _, pieces in lines]
    assert texts[:4] == ["100%", "ac", "safered", "still plain"]
    assert lines[3][1][0] == ("fg-red", "still")
    assert texts[4].endswith("3616 more bytes")


def _news(reader: object, topic: str) -> dict[str, Any]:
    for line in reader:  # type: ignore[attr-defined]
        if line.startswith(b"data: "):
            news: dict[str, Any] = json.loads(line[6:])
            if news["topic"] == topic:
                return news
    raise AssertionError("the stream ended")
