"""A laptop that sleeps for an hour: its processes stand still, its clock jumps, and what runs elsewhere goes on."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from conftest import eventually
from holdfast.store.home import Home
from holdfast.web.history import History
from holdfast.web.live import Live
from web.client import Server, answering
from web.test_browser import CHROMIUM, browser
from web.tunnel import Tunnel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from conftest import Desk

__all__ = ["browser"]  # the fixture
LINES = 6
SCRIPT = f"import sys\nfor n in range({LINES}):\n    print('line', n, flush=True)\n    open(sys.argv[1]).read()\n"
FAKETIME = next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)


@pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: chromium is not installed")
@pytest.mark.skipif(FAKETIME is None, reason="NOT TESTED: libfaketime sets the clock")
@pytest.mark.parametrize("is_cut", [True, False], ids=["forwarded", "here"])
def test_pages_continue_after_an_hour_of_sleep(desk: Desk, browser: Browser, tmp_path: Path, is_cut: bool) -> None:
    """With the server elsewhere, behind ``ssh -L``, or on the laptop too; the run is elsewhere and goes on."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    desk.script(SCRIPT, "lines.py")
    assert desk.submit("--no-wait", "lines.py", str(gate)).code == 0
    uid = desk.record("last")["uid"]
    before = dict(desk.env)
    # A suspended machine's own time stands still; the time of day does not.
    desk.env.update(LD_PRELOAD=FAKETIME or "", FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1")
    desk.env["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
    server = Server(desk, "--socket")
    desk.env.clear()
    desk.env.update(before)
    context = browser.new_context()
    try:
        with Tunnel(server.path) as tunnel:
            site = f"http://{server.name}:{tunnel.port}"
            log, run, grid = (context.new_page() for _ in range(3))
            _open(log, f"{site}/runs/{uid}/log", server.code)
            run.goto(f"{site}/runs/{uid}")
            grid.goto(f"{site}/runs")
            for page in (log, run, grid):
                page.evaluate("window.isSamePage = true")
            log.wait_for_selector("#log >> text=line 0")
            gate.write_text("go")
            log.wait_for_selector("#log >> text=line 1")
            count = int(grid.locator("#total b").inner_text())
            with _asleep([server.process.pid, answering(server), *_browser_processes()]):
                clock.write_text("+3600")
                if is_cut:
                    tunnel.cut()
                written = desk.attempt("last") / "log"
                for number in range(1, LINES):
                    eventually(lambda number=number: f"line {number}".encode() in written.read_bytes())  # type: ignore[misc]
                    gate.write_text("go")
                assert desk.wait_for_end("last")["status"] == "Completed"
                assert desk.submit("train.py", "--lr", "0.3").code == 0
            for page in (log, run, grid) if is_cut else ():
                expect(page.locator("#connection")).to_have_text("not connected; trying again", timeout=30_000)
            tunnel.heal()
            for page in (log, run, grid):
                expect(page.locator("#connection")).to_have_text("", timeout=60_000)
            log.wait_for_selector(f"#log >> text=line {LINES - 1}")
            lines = [line.split("\n")[-1].strip()[-6:] for line in log.locator("#log div").all_inner_texts()]
            assert lines == [f"line {number}" for number in range(LINES)]
            expect(run.locator("#status")).to_contain_text("Completed", timeout=60_000)
            expect(grid.locator("#total b")).to_have_text(str(count + 1), timeout=60_000)
            numbers = grid.locator("#grid tbody td:nth-child(2)").all_inner_texts()
            assert len(numbers) == len(set(numbers)) == count + 1
            assert all(page.evaluate("window.isSamePage") for page in (log, run, grid))
    finally:
        context.close()
        assert server.stop() == 0


def _open(page: Page, address: str, code: str) -> None:
    page.goto(address)
    page.locator("#code").fill(code)
    page.locator("button").click()


@contextmanager
def _asleep(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in pids:
            eventually(lambda pid=pid: _state(pid) in "TZ")  # type: ignore[misc]
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


def _state(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2]


def _browser_processes() -> list[int]:
    """The browser of this process, from the top down."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(int(entry.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = parents.get(waiting.pop(0), [])
        waiting += below
        found += [pid for pid in below if "chrom" in Path(f"/proc/{pid}/comm").read_text()]
    assert len(found) > 2
    return found


def test_browser_that_reads_nothing_is_told_to_fetch_what_it_misses(desk: Desk) -> None:
    """More events than are kept for one that sleeps: the last is not lost, and none is told that follows on a gap."""

    home = Home(str(desk.home), "0" * 32)
    history = History(home)

    async def told() -> list[dict[str, object]]:
        live = Live(home, history)
        stream = live.stream(frozenset({"log:x"}), lambda: False)
        first = [await anext(stream)]
        for number in range(2500):
            live.tell("log:x", number=number)
        while b'"number": 2499' not in first[-1].encode():
            first.append(await anext(stream))
        await stream.aclose()  # type: ignore[attr-defined]
        return [json.loads(text[text.index("{") :]) for text in first]

    with ThreadPoolExecutor(1) as pool:  # the browser of the other tests has an event loop in this thread
        events = pool.submit(lambda: asyncio.run(told())).result()
    history.close()
    assert len(events) < 1500
    numbers = [-1 if event["topic"] == "hello" else event["number"] for event in events]
    for before, after in itertools.pairwise(numbers):
        assert before == -1 or after == before + 1  # type: ignore[operator]
    assert numbers.count(-1) > 1
