"""What the pages of a run take: its log of a gigabyte, a series of a million points, and lines as they are printed.

``python bench/workbench.py [--log-bytes 1000000000] [--points 1000000] [--tabs 20]``. ``wc -l``, ``grep -F`` and
``holdfast logs -f`` run in turn with us. Medians, unless a percentile is named.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
ROUNDS = 5
LINE = b"2026-11-19 04:00:00 epoch %08d batch 0042 loss 0.123456 accuracy 0.98765432101234567 lr 0.0010 %s\n"
# Prints the time ten times a second, and how long ago it printed a line is what a page can tell.
CLOCK = """import sys, time
open(sys.argv[1]).read()
for number in range(150):
    print(f'at {time.time():.4f}', flush=True)
    time.sleep(0.1)
"""
WATCH = """() => {
  window.late = [];
  new MutationObserver((changes) => {
    const now = performance.timeOrigin + performance.now();
    for (const change of changes) for (const row of change.addedNodes) {
      const match = /at (\\d+\\.\\d+)/.exec(row.textContent || "");
      const isNew = match && !window.late.some(([stamp]) => stamp === match[1]);
      if (isNew) window.late.push([match[1], now / 1e3 - match[1]]);
    }
  }).observe(document.getElementById("log"), {childList: true, subtree: true});
}"""


class Place(NamedTuple):
    project: Path
    env: dict[str, str]

    def run(self, *words: str) -> bytes:
        done = subprocess.run([HOLDFAST, *words], cwd=self.project, env=self.env, capture_output=True, check=True)
        return done.stdout

    def submitted(self, script: str, text: str, *words: str) -> str:
        (self.project / script).write_text(text)
        out = self.run("submit", "-c", "local", "-o", "json", *words, script)
        return str(json.loads(out)["uid"])

    def attempt(self, uid: str) -> Path:
        return Path(self.env["HOLDFAST_HOME"]) / "runs" / uid / "a1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log-bytes", type=int, default=1_000_000_000)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--tabs", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-web-") as folder:
        project = Path(folder, "project")
        project.mkdir()
        place = Place(project, {**os.environ, "HOLDFAST_HOME": str(Path(folder, "store"))})
        big = place.submitted("big.py", "print('x')\n")
        lines = write_log(place.attempt(big) / "log", options.log_bytes)
        many = place.submitted("many.py", "import holdfast\nholdfast.log('loss', 1.0)\n")
        write_series(place.attempt(many) / "metrics", options.points)
        with server(place) as (base, code, pid), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            cookies = sign_in(browser, base, code)
            measure_log(browser, cookies, f"{base}runs/{big}", str(place.attempt(big) / "log"), lines)
            measure_series(browser, cookies, f"{base}runs/{many}", options.points, pid)
            measure_lines(browser, cookies, base, place, options.tabs, pid)
    return 0


@contextmanager
def server(place: Place) -> Iterator[tuple[str, str, int]]:
    command = [HOLDFAST, "ui", "--no-open", "--port", "0"]
    with subprocess.Popen(command, cwd=place.project, env=place.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address, code = (process.stdout.readline().split()[1] for _ in range(2))
        try:
            yield address, code, answering(process.pid)
        finally:
            process.terminate()


def answering(pid: int) -> int:
    """The process that answers; its parent waits, and starts another one if it is killed."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def sign_in(browser: Browser, base: str, code: str) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(base)
    page.get_by_label("Sign-in code").fill(code)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/runs")
    cookies = context.cookies()
    context.close()
    return cookies


def signed_in(browser: Browser, cookies: Any) -> BrowserContext:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies(cookies)
    return context


def write_log(path: Path, size: int) -> int:
    count = size // len(LINE % (0, b"......"))
    with open(path, "wb") as target:
        for first in range(0, count, 100_000):
            numbers = range(first, min(count, first + 100_000))
            target.write(
                b"".join(LINE % (number, b"needle" if number == count - 10 else b"......") for number in numbers)
            )
    return count


def write_series(folder: Path, count: int) -> None:
    """A flat series with one peak of one point, in the format of docs/formats.md."""
    for file in folder.iterdir():
        file.unlink()
    now = time.time_ns()
    (folder / "1-1.jsonl").write_text('{"name": "loss"}\n')
    record = struct.Struct("<QqQd")
    with open(folder / "1-1.m", "wb") as target:
        target.write(struct.pack("<8sIIQQQ24x", b"hfmetric", 1, record.size, 1, 1, now))
        for step in range(count):
            target.write(record.pack(0, step, now + step * 1_000_000, 1000.0 if step == count // 3 else 0.5))


def timed(function: Callable[[], object]) -> float:
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        function()
        rounds.append(time.perf_counter() - began)
    return statistics.median(rounds)


def measure_log(browser: Browser, cookies: Any, run: str, path: str, lines: int) -> None:
    context = signed_in(browser, cookies)
    page = context.new_page()

    def shown() -> None:
        page.goto(f"{run}/log")
        page.wait_for_selector("#log[data-ready] div:last-child")

    shown()
    took = timed(shown)
    print(f"log of {os.path.getsize(path) / 1e9:.2f} GB, {lines:,} lines")
    print(f"  page shows its end      {took:.2f} s")
    fetch = "async (address) => (await (await fetch(address)).json()).size || 0"

    def ask(query: str) -> object:
        return page.evaluate(fetch, f"{run}/{query}")

    print(f"  jump to a byte          {timed(lambda: ask('log.json?at=654321000')):.2f} s")
    wc = timed(lambda: subprocess.run(["wc", "-l", path], check=True, stdout=subprocess.DEVNULL))
    began = time.perf_counter()
    ask(f"log.json?line={lines - 5}")
    first = time.perf_counter() - began
    again = timed(lambda: ask(f"log.json?line={lines - 7}"))
    print(f"  jump to a line number   {first:.2f} s, then {again:.2f} s; wc -l {wc:.2f} s")
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    grep = timed(lambda: subprocess.run(["grep", "-F", "needle", path], check=True, stdout=subprocess.DEVNULL, env=env))
    print(f"  search all of it        {timed(lambda: ask('search.json?text=needle')):.2f} s; grep -F {grep:.2f} s")
    context.close()


def measure_series(browser: Browser, cookies: Any, run: str, count: int, pid: int) -> None:
    def drawn() -> None:
        context = signed_in(browser, cookies)
        page = context.new_page()
        page.goto(run)
        page.wait_for_selector("#charts[data-drawn]")
        context.close()

    before = processor_seconds(pid)
    took = timed(drawn)
    spent = (processor_seconds(pid) - before) / ROUNDS
    context = signed_in(browser, cookies)
    page = context.new_page()
    page.goto(run)
    greatest = "async (address) => Math.max(...(await (await fetch(address)).json()).curves[0].values)"
    where = "async (address) => { const [one] = (await (await fetch(address)).json()).curves; "
    where += "return one.seconds[one.values.indexOf(1000)] }"
    second = page.evaluate(where, f"{run}/curves.json")
    peaks = []
    for part in (1, 2, 4, 16, 64, 1024):
        width = count / 1000 / part
        start = max(0.0, second - width / 2)
        peaks.append(page.evaluate(greatest, f"{run}/curves.json?start={start}&end={start + width}"))
    context.close()
    print(f"series of {count:,} points  {took:.2f} s until drawn, cold; {spent:.2f} s of the server's processor time")
    print(f"  its peak is seen at     {peaks.count(1000)} of {len(peaks)} zooms")


def measure_lines(browser: Browser, cookies: Any, base: str, place: Place, tabs: int, pid: int) -> None:
    (place.project / "clock.py").write_text(CLOCK)
    gate = f"{place.env['HOLDFAST_HOME']}.gate"
    os.mkfifo(gate)
    uid = json.loads(place.run("submit", "-c", "local", "--no-wait", "-o", "json", "clock.py", gate))["uid"]
    context = signed_in(browser, cookies)
    pages = []
    for _ in range(tabs):
        page = context.new_page()
        page.goto(f"{base}runs/{uid}/log")
        page.evaluate(WATCH)
        pages.append(page)
    late: list[float] = []
    follower = threading.Thread(target=follow, args=(place, uid, late))
    follower.start()
    Path(gate).write_text("go")
    follower.join()
    pages[-1].wait_for_timeout(1000)
    seen = [value for page in pages for _, value in page.evaluate("window.late") if value < 5]
    print(
        f"line printed until visible, {tabs} tabs: p50 {percentile(seen, 50):.3f} s, p95 {percentile(seen, 95):.3f} s"
    )
    print(f"                       logs -f: p50 {percentile(late, 50):.3f} s, p95 {percentile(late, 95):.3f} s")
    before = processor_seconds(pid)
    pages[-1].wait_for_timeout(10_000)
    idle = (processor_seconds(pid) - before) * 10
    print(f"server with {tabs} idle tabs: {idle:.2f} % of a core, {memory_mb(pid):.0f} MB")
    context.close()


def follow(place: Place, uid: str, late: list[float]) -> None:
    command = [HOLDFAST, "logs", "-f", "-r", uid]
    with subprocess.Popen(command, cwd=place.project, env=place.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        began = time.time()
        for line in process.stdout:
            stamp = float(line.split()[1]) if line.startswith("at ") else 0.0
            if stamp > began:
                late.append(time.time() - stamp)


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1] if len(values) > 1 else float("nan")


def processor_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1e3


if __name__ == "__main__":
    sys.exit(main())
