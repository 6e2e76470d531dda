"""How long the page of runs takes in a browser until its rows can be used, cold, beside peers.

``python bench/runs_page.py [--runs 10000] [--full] [--keep FOLDER] [--only NAMES] [--share 1.0]`` makes the runs of
``bench/history.py``, and runs with as many parameters and metrics for the trackers of ``bench/web_peers.py``, which are
installed into .tools/peers on first use. All are opened in turn, each time in a new context of one browser. Medians,
and ratios to our page of ``--runs`` runs; jumps are to rows all over the grid. The second table says when parts of a
page were done; the bare page has as many bytes as ours and nothing in it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from history import store
from playwright.sync_api import sync_playwright
from web_peers import PEERS, served, written
from workbench import answering, memory_mb, processor_seconds, sign_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright._impl._api_structures import SetCookieParam
    from playwright.sync_api import Browser, Page, Response
    from web_peers import Peer

ROUNDS = 5
_HEAP = "performance.memory ? performance.memory.usedJSHeapSize : 0"
# Milliseconds since the navigation began.
_PARTS = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return [page.requestStart, page.responseStart, page.responseEnd, paint ? paint.startTime : NaN,
    page.domContentLoadedEventEnd];
}"""
PARTS = ("asked", "answered", "received", "painted", "scripts")
_BARE = """
import http.server, sys
page = b"<!doctype html><title>bare</title><p id=ready>ready</p><!--" + b"x" * int(sys.argv[1]) + b"-->"
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = page if self.path == "/" else b""
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        return
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Subject:
    """A server whose page of runs is opened: ``ready`` is what is there when its rows or charts can be used."""

    def __init__(self, name: str, runs: int, address: str, ready: str, pid: int, cookies: Any = None) -> None:
        self.name, self.runs, self.address, self.ready = name, runs, address, ready
        self.pid, self.cookies = pid, cookies
        self.usable: list[float] = []
        self.parts: list[list[float]] = []
        self.jumps: list[float] = []
        self.spent: list[float] = []
        self.requests = self.scripts = 0
        self.foreign = 0
        self.heap = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--full", action="store_true", help="100,000 runs too")
    parser.add_argument("--keep", help="a folder for the stores, used again if it is there")
    parser.add_argument("--only", default=None, help="names of peers, comma-separated; empty for none")
    parser.add_argument("--share", type=float, default=1.0, help="of the runs of peers; for a short try")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-web-") as scratch, ExitStack() as stack:
        folder = Path(options.keep or scratch)
        playwright = stack.enter_context(sync_playwright())
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        counts = (options.runs, *((100_000,) if options.full else ()))
        subjects = [stack.enter_context(holdfast(browser, folder, count)) for count in counts]
        subjects.append(stack.enter_context(bare(page_size(browser, subjects[0]))))
        for peer in PEERS:
            if options.only is None or peer.name.lower() in options.only.lower().split(","):
                subject = stack.enter_context(tracker(peer, folder, int(peer.runs * options.share)))
                subjects += [subject] if subject else []
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        for _ in range(ROUNDS):
            for subject in subjects:
                show(browser, subject)
        report(subjects)
    return 0


def page_size(browser: Browser, subject: Subject) -> int:
    context = browser.new_context()
    context.add_cookies(cast("list[SetCookieParam]", subject.cookies))
    answer = context.new_page().goto(subject.address)
    assert answer is not None
    size = len(answer.body())
    context.close()
    return size


@contextmanager
def holdfast(browser: Browser, folder: Path, count: int) -> Iterator[Subject]:
    env = {**os.environ, "HOLDFAST_HOME": store(folder, count).path}
    command: list[str | Path] = [Path(sys.executable).with_name("holdfast"), "ui", "--no-open", "--port", "0"]
    with subprocess.Popen(command, cwd=folder / "project", env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address, code = (server.stdout.readline().split()[1] for _ in range(2))
        try:
            cookies = sign_in(browser, address, code)
            ready = "html[data-ready] #grid tbody tr:nth-child(30)"
            yield Subject("Holdfast", count, f"{address}runs", ready, answering(server.pid), cookies)
        finally:
            server.terminate()


@contextmanager
def bare(size: int) -> Iterator[Subject]:
    """A page of as many bytes with nothing in it, from a server that does nothing: what the browser itself takes."""
    command = [sys.executable, "-c", _BARE, str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield Subject("bare page", 0, f"http://127.0.0.1:{int(server.stdout.readline())}/", "#ready", server.pid)
        finally:
            server.terminate()


@contextmanager
def tracker(peer: Peer, folder: Path, count: int) -> Iterator[Subject | None]:
    place = written(peer, folder, count)
    if place is None:
        yield None
        return
    with served(peer, place) as (address, pid):
        yield Subject(peer.name, count, address, peer.ready.format(last=count - 1), pid)


def show(browser: Browser, subject: Subject) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    if subject.cookies is not None:
        context.add_cookies(cast("list[SetCookieParam]", subject.cookies))
    page = context.new_page()
    answers: list[tuple[str, int]] = []
    page.on("response", _note_into(answers))
    before = processor_seconds(subject.pid)
    began = time.perf_counter()
    page.goto(subject.address, wait_until="commit")
    page.wait_for_selector(subject.ready, timeout=120_000)
    subject.usable.append(time.perf_counter() - began)
    subject.spent.append(processor_seconds(subject.pid) - before)
    subject.parts.append([float(value) if value is not None else float("nan") for value in page.evaluate(_PARTS)])
    subject.requests = len(answers)
    subject.scripts = sum(size for url, size in answers if re.search(r"\.m?js($|\?)", url))
    own = subject.address.split("/")[2]
    subject.foreign = len({url.split("/")[2] for url, _ in answers if url.startswith("http")} - {own})
    subject.heap = float(page.evaluate(_HEAP)) / 1e6
    if subject.cookies is not None:
        subject.jumps += [jump(page, int(subject.runs * part)) for part in (0.7, 0.2, 0.95)]
    context.close()


def jump(page: Page, row: int) -> float:
    began = time.perf_counter()
    page.evaluate(f"document.getElementById('grid').scrollTop = {row * 26}")
    page.wait_for_selector(f'#grid tr[aria-rowindex="{row + 2}"]')
    return time.perf_counter() - began


def _note_into(answers: list[tuple[str, int]]) -> Callable[[Response], None]:
    def note(answer: Response) -> None:
        with suppress(Exception):  # a body that is gone with its page
            answers.append((answer.url, len(answer.body())))

    return note


def report(subjects: list[Subject]) -> None:
    titles = ("runs", "usable s", "ratio", "server s", "jump ms", "requests", "script kB", "heap MB", "server MB")
    print(f"{'':<12}" + "".join(f"{title:>11}" for title in titles))
    base = statistics.median(subjects[0].usable)
    for subject in subjects:
        usable = statistics.median(subject.usable)
        jumped = f"{statistics.median(subject.jumps) * 1e3:.0f}" if subject.jumps else ""
        cells: tuple[str, ...] = (
            f"{subject.runs:,}",
            f"{usable:.2f}",
            f"{usable / base:.2f}",
            f"{statistics.median(subject.spent):.3f}",
        )
        cells += (jumped, str(subject.requests), f"{subject.scripts / 1e3:.1f}", f"{subject.heap:.1f}")
        print(f"{subject.name:<12}" + "".join(f"{cell:>11}" for cell in (*cells, f"{memory_mb(subject.pid):.0f}")))
        if subject.foreign:
            print(f"{'':<12}{subject.foreign} foreign hosts asked")
    print(f"\n{'ms until':<12}" + "".join(f"{title:>11}" for title in (*PARTS, "usable")))
    for subject in subjects:
        parts = [statistics.median(values) for values in zip(*subject.parts, strict=True)]
        times = (*parts, statistics.median(subject.usable) * 1e3)
        print(f"{subject.name:<12}" + "".join(f"{value:>11.0f}" for value in times))


if __name__ == "__main__":
    sys.exit(main())
