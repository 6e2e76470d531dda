"""How long the Runs page takes in a browser until its rows can be used, cold, and how much it loads.

``python bench/runs_page.py [--runs 10000] [--full] [--keep FOLDER]`` makes the runs of ``bench/history.py``. It prints
medians of cold browsers; jumps are to rows all over the grid.
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
from pathlib import Path
from typing import TYPE_CHECKING, cast

from history import store
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright._impl._api_structures import SetCookieParam
    from playwright.sync_api import Browser, Response

ROUNDS = 5
_HEAP = "performance.memory ? performance.memory.usedJSHeapSize : 0"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--full", action="store_true", help="100,000 runs too")
    parser.add_argument("--keep", help="a folder for the stores, used again if it is there")
    options = parser.parse_args()
    print(f"{'runs':>8}{'usable s':>10}{'jump ms':>9}{'requests':>10}{'script kB':>11}{'heap MB':>9}{'server MB':>11}")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-web-") as scratch:
        for count in (options.runs, *((100_000,) if options.full else ())):
            folder = Path(options.keep or scratch)
            measure(store(folder, count).path, str(folder / "project"), count)
    return 0


def measure(home: str, project: str, count: int) -> None:
    env = {**os.environ, "HOLDFAST_HOME": home}
    command: list[str | Path] = [Path(sys.executable).with_name("holdfast"), "ui", "--no-open", "--port", "0"]
    with subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(2)]
        address, code = (line.split()[1] for line in lines)
        try:
            with sync_playwright() as playwright:
                path = shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
                show(browser, address, code, count, server.pid)
        finally:
            server.terminate()


def _note_into(answers: list[tuple[str, int]]) -> Callable[[Response], None]:
    return lambda answer: answers.append((answer.url, len(answer.body())))


def show(browser: Browser, address: str, code: str, count: int, pid: int) -> None:
    usable, jumps, requests, scripts, heap = [], [], 0, 0, 0.0
    cookies = None
    for _ in range(ROUNDS + 1):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        if cookies is not None:
            context.add_cookies(cast("list[SetCookieParam]", cookies))
        page = context.new_page()
        if cookies is None:
            page.goto(address)
            page.get_by_label("Sign-in code").fill(code)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/runs")
            cookies = context.cookies()
            context.close()
            continue
        answers: list[tuple[str, int]] = []
        page.on("response", _note_into(answers))
        began = time.perf_counter()
        page.goto(f"{address}runs", wait_until="commit")
        page.wait_for_selector("html[data-ready] #grid tbody tr:nth-child(30)")
        usable.append(time.perf_counter() - began)
        requests = len(answers)
        scripts = sum(size for url, size in answers if url.endswith(".js"))
        heap = float(page.evaluate(_HEAP)) / 1e6
        for part in (0.7, 0.2, 0.95):
            row = int(count * part)
            began = time.perf_counter()
            page.evaluate(f"document.getElementById('grid').scrollTop = {row * 26}")
            page.wait_for_selector(f'#grid tr[aria-rowindex="{row + 2}"]')
            jumps.append(time.perf_counter() - began)
        context.close()
    memory = re.search(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())
    server_mb = int(memory[1]) / 1e3 if memory else 0.0
    cells = (statistics.median(usable), statistics.median(jumps) * 1e3, requests, scripts / 1e3, heap, server_mb)
    print(
        f"{count:>8,}{cells[0]:>10.2f}{cells[1]:>9.0f}{cells[2]:>10}{cells[3]:>11.1f}{cells[4]:>9.1f}{cells[5]:>11.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
