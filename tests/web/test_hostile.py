"""What runs and projects can contain is shown as text: payloads in every place, damaged and extreme runs."""

from __future__ import annotations

import html
import itertools
import json
import os
import re
import shutil
import subprocess
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from conftest import Desk
from gpuruns import HandRun, receipt, write_series
from web.client import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# 12 ways out of a text times 5 programs: 60 payloads.
WAYS = (
    "{}",
    '">{}',
    "'>{}",
    "</title>{}",
    "</textarea>{}",
    "</script>{}",
    "</style>{}",
    "--><!-- -->{}",
    "]]>{}",
    "\x1b]8;;http://evil.example\x1b\\{}",
    "\u202e{}",
    "{{{{7*7}}}}{}",
)
PROGRAMS = (
    "<script>window.broken=1</script>",
    "<img src=x onerror=window.broken=1>",
    "<svg/onload=window.broken=1>",
    "<a href=javascript:window.broken=1>x</a>",
    "<iframe srcdoc='<script>parent.broken=1</script>'></iframe>",
)
PAYLOADS = [way.format(program) for way, program in itertools.product(WAYS, PROGRAMS)]
ACTIVE = re.compile(
    r"<(script(?! src=\"/static/)|img(?! class=\"tile\")|svg/|iframe srcdoc|a href=javascript)", re.IGNORECASE
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, Server]]:
    """A project of which every text is a payload, and one run of it."""
    desk = Desk(tmp_path_factory.mktemp("hostile"))
    texts = json.dumps(PAYLOADS)
    desk.script(
        "import holdfast, os, sys\n"
        f"texts = {texts}\n"
        "for number, text in enumerate(texts):\n"
        "    print(text)\n"
        "    holdfast.log(text[:200], number)\n"
        "    holdfast.log(text[:200], number + 1)\n"
        "os.makedirs('outputs', exist_ok=True)\n"
        "for number, text in enumerate(texts):\n"
        "    open(f'outputs/{number}' + text.replace('/', '_').replace(chr(27), '')[:150], 'w').write(text)\n"
        "raise SystemExit(texts[0])\n"
    )
    (desk.project / "README.md").write_text("\n".join(PAYLOADS))
    (desk.project / PAYLOADS[1].replace("/", "_")).write_text(PAYLOADS[0])
    tags = [word for number, text in enumerate(PAYLOADS) for word in ("--tag", f"t{number}={text}")]
    assert desk.submit("--name", PAYLOADS[0][:100], *tags, "train.py", *PAYLOADS).code == 1
    lines = "".join(f"  - {json.dumps(text)}\n" for text in PAYLOADS)
    (desk.project / "old").mkdir()
    (desk.project / "old" / "conda.yaml").write_text(f"dependencies:\n{lines}")
    server = Server(desk, "--port", "0").sign_in()
    yield desk, server
    server.stop()


def _addresses(server: Server) -> dict[str, str]:
    uid = server.get("/rows.json?where=run_number=1").json["rows"][0]["uid"]
    project = next(row["id"] for row in server.get("/projects.json").json if row["runs"])
    names = re.findall(r'href="(/runs/[^"]*/outputs\?name=[^"]+)"', server.get(f"/runs/{uid}").text)
    assert len(names) > 50
    view = f"where={quote(PAYLOADS[1])}&columns={quote(PAYLOADS[2])}&axis={quote(PAYLOADS[3])}"
    return {
        "runs": "/runs",
        "filter": f"/runs?chart=points&{view}",
        "run": f"/runs/{uid}",
        "log": f"/runs/{uid}/log",
        "code": f"/runs/{uid}/code",
        "jobs": "/jobs",
        "projects": "/projects",
        "dashboard": f"/projects/{project}",
        "files": f"/projects/{project}/files",
        "dependencies": f"/projects/{project}/files?file=old/conda.yaml",
        "dialog": f"/projects/{project}/run?script=train.py&config={quote(PAYLOADS[1])}&env={quote(PAYLOADS[4])}",
        "targets": f"/targets?project={quote(PAYLOADS[1])}",
        "compare": f"/compare?run={uid}&run={uid}&run={quote(PAYLOADS[0])}",
        "nowhere": f"/{quote(PAYLOADS[0])}",
        "output": html.unescape(names[0]),
    }


def test_payloads_are_text_on_every_page(hostile: tuple[Desk, Server]) -> None:
    _, server = hostile
    assert len(PAYLOADS) == 60
    for name, address in _addresses(server).items():
        answer = server.get(address)
        assert answer.status in (200, 400, 404), name
        assert ACTIVE.findall(answer.text) == [], name
        assert "\x1b" not in answer.text
        assert "\u202e" not in answer.text or name in ("dialog",), name
        assert answer.headers["content-type"].startswith("text/html"), name


def test_oracle_of_payloads_finds_a_planted_one() -> None:
    for text in PROGRAMS:
        assert ACTIVE.search(f"<p>{text}</p>"), text


def test_get_changes_nothing(hostile: tuple[Desk, Server]) -> None:
    desk, server = hostile
    addresses = list(_addresses(server).values())  # the index is made by now
    before = _contents(desk)
    uid = server.get("/rows.json").json["rows"][0]["uid"]
    project = next(row["id"] for row in server.get("/projects.json").json if row["runs"])
    twins = [f"/projects/{project}{page}.json" for page in ("", "/run", "/files")]
    twins += [f"/runs/{server.get('/rows.json').json['rows'][0]['uid']}/code.json", "/help.json"]
    twins += ["/runs.json", "/runs.csv", "/names.json", "/points.json?axis=duration", "/jobs.json", "/settings.json"]
    for address in (*addresses, *twins, f"/runs/{uid}.json", f"/runs/{uid}/curves.json", f"/runs/{uid}/log.json"):
        for headers in ({}, {"Purpose": "prefetch", "Sec-Purpose": "prefetch"}):
            assert server.get(address, **headers).status < 500, address
    for address in ("/labels", "/views", "/attach", f"/runs/{uid}/cancel", f"/runs/{uid}/restore"):
        assert server.get(f"{address}?hidden=1&confirm=1&runs={uid}&name=x").status == 405
    assert _contents(desk) == before


def _contents(desk: Desk) -> dict[str, bytes]:
    """All files of the project and the store but caches and the index, which are made again from the rest."""
    result = {}
    for top in (desk.project, desk.home):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if not re.search(r"/store/(cache|index\.sqlite|ui/servers|locks)", path) and os.path.isfile(path):
                    with open(path, "rb") as source:
                        result[path] = source.read()
    assert len(result) > 20
    return result


def test_damaged_and_extreme_runs_have_pages(hostile: tuple[Desk, Server]) -> None:
    desk, server = hostile
    total = server.get("/rows.json").json["total"]
    hand = HandRun(desk)
    values = [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 0.0]
    many = {f"m{at}": [1.0] for at in range(12_000)}
    write_series(hand.attempt / "metrics", {"loss": values, "n" * 10_000: [1.0], **many})
    hand.end(**receipt())
    run = hand.record["uid"]
    page = server.get(f"/runs/{run}")
    assert page.status == 200
    assert len(page.body) < 2_000_000
    curves = server.get(f"/runs/{run}/curves.json").json
    assert curves["total"] >= 9_999
    assert "more than 10000 metrics; the others are not shown" in page.text
    assert curves["curves"][0]["values"] == [None, None, None, 1e308, -1e308, 5e-324, 0.0]
    folder = desk.home / "runs"
    for number, content in enumerate((b"", b"{torn", b'{"v": 99}', b"[" * 100_000, b"\xff" * 50)):
        broken = folder / f"{number:032x}"
        shutil.copytree(folder / desk.record("1")["uid"], broken)
        (broken / "run.json").write_bytes(content)
    shown = server.get("/runs").text
    assert server.get("/rows.json").json["total"] == total + 6
    assert shown.count("Damaged") >= 5
    for number in range(5):
        answer = server.get(f"/runs/{number:032x}")
        assert answer.status in (200, 400), number
        assert "Damaged" in answer.text or "run.json" in answer.text, number


def test_deep_json_and_huge_forms_are_refused_while_others_are_answered(hostile: tuple[Desk, Server]) -> None:
    _, server = hostile
    deep = b"[" * 1_000_000
    sent = {"Content-Type": "application/json", "Origin": f"http://{server.host}"}
    assert server.ask("POST", "/labels", sent, deep).status == 415
    form = {**sent, "Content-Type": "application/x-www-form-urlencoded"}
    assert server.ask("POST", "/labels", form, b"a=1&" * 100_000).status == 400
    assert server.ask("POST", "/views", form, b"name=x&view=" + deep).status in (303, 400)
    slow = server.connect()
    slow.sendall(f"POST /labels HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 5000000\r\n\r\n".encode())
    stopped = threading.Event()

    def drip() -> None:
        while not stopped.wait(0.2):
            try:
                slow.sendall(b"x")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        began = time.monotonic()
        assert server.get("/settings").status == 200
        assert time.monotonic() - began < 5  # far less on an idle machine
    finally:
        stopped.set()
        thread.join()
        slow.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: a network namespace needs root")
def test_pages_need_no_network(hostile: tuple[Desk, Server], tmp_path: Path) -> None:
    """A server without any network device answers every page: nothing is asked elsewhere."""
    desk, other = hostile
    addresses = _addresses(other)
    wrapper = tmp_path / "holdfast"
    wrapper.write_text(f'#!/bin/sh\nexec unshare -n -- {desk.command} "$@"\n')
    wrapper.chmod(0o755)
    alone = Desk.__new__(Desk)
    alone.__dict__.update({**desk.__dict__, "command": str(wrapper)})
    server = Server(alone, "--socket").sign_in()
    try:
        devices = subprocess.run(
            ["nsenter", "-t", str(server.process.pid), "-n", "cat", "/proc/net/dev"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert [line.split(":")[0].strip() for line in devices.splitlines()[2:]] == ["lo"]
        for name, address in addresses.items():
            assert server.get(address).status < 500, name
    finally:
        server.stop()
