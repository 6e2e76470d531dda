"""What the web workbench takes while nothing happens: a store of 100,000 runs, 50 of them open, and 20 tabs.

``python bench/web_idle.py [--runs 100000] [--open 50] [--tabs 20] [--seconds 60] [--keep FOLDER]``. Processor time is
in per cent of one core: of the server, and of the processes in which the browser runs pages, divided by the tabs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from history import store
from playwright.sync_api import sync_playwright
from workbench import Place, memory_mb, processor_seconds, server, sign_in, signed_in

if TYPE_CHECKING:
    from playwright.sync_api import Page

WAITING = "import sys\nprint('waits', flush=True)\nopen(sys.argv[1]).read()\n"
READY = {"runs": "html[data-ready] #grid tbody tr", "log": "#log[data-ready] div", "jobs": "table tbody tr"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--open", type=int, default=50)
    parser.add_argument("--tabs", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--keep", help="a folder for the store, used again if it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-web-") as scratch:
        folder = Path(options.keep or scratch)
        home = store(folder, options.runs).path
        place = Place(folder / "project", {**os.environ, "HOLDFAST_HOME": home})
        gate = Path(scratch, "gate")
        os.mkfifo(gate)
        (place.project / "waiting.py").write_text(WAITING)
        words = ("submit", "-c", "local", "--no-wait", "-o", "json", "waiting.py", str(gate))
        uids = [str(json.loads(place.run(*words))["uid"]) for _ in range(options.open)]
        try:
            measure(place, uids, options.tabs, options.seconds)
        finally:
            with open(os.open(gate, os.O_RDWR | os.O_NONBLOCK), "wb"):
                pass  # every reader gets an end of file
    return 0


def measure(place: Place, uids: list[str], tabs: int, seconds: int) -> None:
    with server(place) as (base, code, pid), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = signed_in(browser, sign_in(browser, base, code))
        pages = [context.new_page() for _ in range(tabs)]
        for number, page in enumerate(pages):
            show(page, base, uids[number % len(uids)], tuple(READY)[number % len(READY)])
        pages[0].wait_for_timeout(20_000)  # until what opening has caused is over
        renderers = [process for process in _descendants() if _is_renderer(process)]
        before = processor_seconds(pid), sum(map(processor_seconds, renderers))
        pages[0].wait_for_timeout(seconds * 1000)
        after = processor_seconds(pid), sum(map(processor_seconds, renderers))
        of_server, of_pages = ((late - early) / seconds * 100 for early, late in zip(before, after, strict=True))
        print(
            f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {len(uids)} open runs, {tabs} tabs, {seconds} s"
        )
        print(f"server         {of_server:.2f} % of a core, {memory_mb(pid):.0f} MB")
        print(f"a page         {of_pages / tabs:.2f} % of a core ({len(renderers)} processes for {tabs} tabs)")
        context.close()


def show(page: Page, base: str, uid: str, kind: str) -> None:
    page.goto(f"{base}runs/{uid}/log" if kind == "log" else f"{base}{kind}")
    page.wait_for_selector(READY[kind])


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        found += below
    return found


def _is_renderer(pid: int) -> bool:
    """Whether it is a process in which the browser runs pages."""
    try:
        return b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
