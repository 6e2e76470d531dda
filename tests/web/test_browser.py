"""The pages in a real Chromium: one server and one browser for all tests."""

from __future__ import annotations

import http.server
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect, sync_playwright

from conftest import eventually
from web.client import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

    from conftest import Desk

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
SCREENSHOTS = os.environ.get("HOLDFAST_SCREENSHOTS")  # a folder to write them to
FAULTS = """async (options) => (await axe.run(options)).violations.flatMap((rule) =>
    rule.nodes.map((node) => `${rule.id} ${node.html.slice(0, 120)}`))"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
NEXT_FRAME = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
ALL_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]}
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
READY = {
    "run": "#charts[data-drawn]",
    "compare": "#charts[data-drawn]",
    "log": "#log[data-ready]",
    "charts": "#points[data-ready='2']",
    "parallel": "#points[data-ready='2']",
    "run-dialog": "#preflight[data-ready]",
}
DEPENDENCIES = "channels: [conda-forge]\ndependencies:\n  - python=3.8  # old\n  - pip:\n    - torch==2.0\n"
# The texts that each canvas has now, with their places.
DRAWN_TEXTS = """(() => {
  const texts = new Map();
  const type = CanvasRenderingContext2D.prototype;
  const {fillText, clearRect} = type;
  const {getContext} = HTMLCanvasElement.prototype;
  HTMLCanvasElement.prototype.getContext = function (...given) {
    texts.set(this, []);
    return getContext.apply(this, given);
  };
  type.clearRect = function (...given) { texts.set(this.canvas, []); return clearRect.apply(this, given); };
  type.fillText = function (text, x, y, ...rest) {
    const size = this.measureText(text);
    const at = this.getTransform().transformPoint(new DOMPoint(x, y));
    if (String(text).trim()) texts.get(this.canvas).push({
      text: String(text), left: at.x - size.actualBoundingBoxLeft, right: at.x + size.actualBoundingBoxRight,
      top: at.y - size.actualBoundingBoxAscent, bottom: at.y + size.actualBoundingBoxDescent});
    return fillText.call(this, text, x, y, ...rest);
  };
  window.drawnTexts = () => [...texts].flatMap(([canvas, of], number) =>
    canvas.isConnected ? of.map((text) => ({...text, canvas: number})) : []);
})()"""
PAYLOADS = (
    "<script>window.broken=1</script>",
    "<img src=x onerror=window.broken=1>",
    '"><svg onload=window.broken=1>',
    "' onmouseover='window.broken=1",
    "javascript:window.broken=1",
    "{{7*7}}<iframe srcdoc='<script>parent.broken=1</script>'>",
    "</textarea><script>window.broken=1</script>",
    "</title><script>window.broken=1</script>",
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: chromium is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # No name but those below localhost is resolved: a page that asks another host fails.
        options = [
            "--no-sandbox",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1",
        ]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def signed_in(desk: Desk, browser: Browser) -> Iterator[tuple[Server, BrowserContext]]:
    """Signed in as a person does it: by the code, in the form that the first page shows."""
    desk.script(f"for text in {PAYLOADS!r}:\n    print(text)\n", "hostile.py")
    tags = [word for number, text in enumerate(PAYLOADS) for word in ("--tag", f"t{number}={text}")]
    assert desk.submit("--name", PAYLOADS[0], *tags, "hostile.py", *PAYLOADS).code == 0
    server = Server(desk, "--port", "0")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=False)
    page = context.new_page()
    page.goto(f"http://{server.host}/runs")
    page.get_by_label("Sign-in code").fill(server.code)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/runs")
    page.close()
    server.cookie = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in context.cookies())
    yield server, context
    context.close()
    server.stop()


def _problems_of(page: Page) -> list[str]:
    """Errors of its console and its scripts, and dialogs, as they come."""
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    return problems


class Visit:
    """One tab, with what its console said."""

    def __init__(self, signed_in: tuple[Server, BrowserContext], path: str) -> None:
        server, context = signed_in
        self.page: Page = context.new_page()
        self.problems = _problems_of(self.page)
        self.page.goto(f"http://{server.host}{path}")

    def close(self, *, allowed: str = "\0") -> None:
        broken = self.page.evaluate("window.broken === undefined")
        self.page.close()
        assert broken, "a payload ran"
        assert [text for text in self.problems if allowed not in text] == []


def _screens(server: Server) -> dict[str, str]:
    uids = [row["uid"] for row in server.get("/rows.json").json["rows"]]
    project = server.get("/projects.json").json[0]["id"]
    first = next(uid for uid in uids if server.get(f"/runs/{uid}.json").json["arguments"] == ["--lr", "0.1"])
    second = next(uid for uid in uids if server.get(f"/runs/{uid}.json").json["arguments"] == ["--lr", "0.2"])
    return {
        "projects": "/projects",
        "dashboard": f"/projects/{project}",
        "run-dialog": f"/projects/{project}/run?script=train.py&config=local",
        "files": f"/projects/{project}/files?file=train.py",
        "targets": "/targets",
        "jobs": "/jobs",
        "runs": "/runs",
        "charts": "/runs?chart=points&axis=params.lr&axis=metrics.loss",
        "parallel": "/runs?chart=parallel&axis=params.lr&axis=metrics.loss&axis=metrics.accuracy",
        "run": f"/runs/{first}",
        "code": f"/runs/{first}/code?file=train.py&line=4",
        "log": f"/runs/{first}/log",
        "compare": f"/compare?run={first}&run={second}",
        "output": f"/runs/{first}/outputs?name=outputs/table.csv",
        "settings": "/settings",
        "help": "/help",
        "dependencies": f"/projects/{project}/files?folder=aml_config&file=aml_config/conda_dependencies.yml",
        "form": f"/projects/{project}/files?folder=aml_config&file=aml_config/box.compute",
    }


def test_screens_have_no_axe_faults_overflow_or_console_errors(
    desk: Desk, signed_in: tuple[Server, BrowserContext], browser: Browser
) -> None:
    server, _ = signed_in
    (desk.project / "aml_config").mkdir(exist_ok=True)
    (desk.project / "aml_config" / "box.compute").write_text("# mine\ntype: remote\nusernam: ada\naddress: gpu1\n")
    (desk.project / "aml_config" / "conda_dependencies.yml").write_text(DEPENDENCIES)
    faults = []
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme="light", bypass_csp=True, reduced_motion="reduce"
    )
    name, _, value = server.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": f"http://{server.host}"}])
    for screen, path in _screens(server).items():
        visit = Visit((server, context), path)
        page = visit.page
        if screen in READY:
            page.wait_for_selector(READY[screen])
        page.add_script_tag(path=str(AXE))
        faults += [f"{screen}: {fault}" for fault in page.evaluate(FAULTS, ALL_RULES)]
        _take(page, screen, "light")
        page.emulate_media(color_scheme="dark")
        faults += [f"{screen} dark: {fault}" for fault in page.evaluate(FAULTS, COLOURS)]
        _take(page, screen, "dark")
        page.emulate_media(color_scheme="light", forced_colors="active")
        _take(page, screen, "forced")
        page.emulate_media(forced_colors="none")
        for width in (2560, 320):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(NEXT_FRAME)  # what watches sizes has been told
            _take(page, screen, str(width))
            wide = page.evaluate(OVERFLOW)
            faults += [f"{screen} overflows at {width} px by {wide}"] if wide > 0 else []
        faults += [f"{screen} at 320 px: {fault}" for fault in page.evaluate(FAULTS, ALL_RULES)]
        visit.close()
    context.close()
    assert not faults, "\n".join(faults)


def test_texts_of_charts_do_not_overlap(signed_in: tuple[Server, BrowserContext], browser: Browser) -> None:
    server, _ = signed_in
    context = browser.new_context(viewport={"width": 320, "height": 900})
    context.add_init_script(DRAWN_TEXTS)
    name, _, value = server.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": f"http://{server.host}"}])
    five = "&axis=".join(("params.lr", "metrics.loss", "metrics.accuracy", "duration", "run_number"))
    pages = {**_screens(server), "five axes": f"/runs?chart=parallel&axis={five}"}
    faults = []
    for screen in ("charts", "parallel", "five axes", "run", "compare"):
        page = context.new_page()
        page.goto(f"http://{server.host}{pages[screen]}")
        page.wait_for_selector(READY.get(screen, "#points[data-ready='2']"))
        for width in (320, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(NEXT_FRAME)
            texts = page.evaluate("window.drawnTexts()")
            assert len(texts) > 5, screen
            faults += [f"{screen} at {width} px: {pair}" for pair in _overlapping(texts)]
        page.close()
    context.close()
    assert not faults, "\n".join(faults)


def _overlapping(texts: list[dict[str, Any]]) -> list[str]:
    return [
        f"{one['text']} and {other['text']}"
        for number, one in enumerate(texts)
        for other in texts[:number]
        if one["canvas"] == other["canvas"]
        and min(one["right"], other["right"]) - max(one["left"], other["left"]) > 1
        and min(one["bottom"], other["bottom"]) - max(one["top"], other["top"]) > 1
    ]


def test_overlapping_texts_are_found(browser: Browser) -> None:
    page = browser.new_page()
    page.add_init_script(DRAWN_TEXTS)
    page.goto("data:text/html,<canvas></canvas>")
    page.evaluate("window.pen = document.querySelector('canvas').getContext('2d')")
    page.evaluate("pen.fillText('loss', 0, 20), pen.fillText('loss', 60, 20)")
    assert _overlapping(page.evaluate("window.drawnTexts()")) == []
    page.evaluate("pen.fillText('accuracy', 20, 24)")
    assert len(_overlapping(page.evaluate("window.drawnTexts()"))) == 1
    page.close()


def test_planted_faults_are_found(browser: Browser) -> None:
    """What finds the faults of our pages finds one in a page that has them."""
    page = browser.new_page()
    problems = _problems_of(page)
    page.set_content("<html><body><img src='data:,x'><p style='color:#ccc;background:#fff'>faint</p></body></html>")
    page.add_script_tag(path=str(AXE))
    found = "\n".join(page.evaluate(FAULTS, ALL_RULES))
    for rule in ("image-alt", "color-contrast", "html-has-lang"):
        assert rule in found
    assert page.evaluate(OVERFLOW) <= 0
    assert problems == []
    page.set_content("<div style='width:9000px'>wide</div><script>console.error('said'); absent()</script>")
    assert page.evaluate(OVERFLOW) > 5000
    assert len(problems) == 2
    page.close()


def _take(page: Page, screen: str, variant: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=f"{SCREENSHOTS}/{screen}-{variant}.png")


def test_runs_page_shows_thirty_rows_and_ten_columns(signed_in: tuple[Server, BrowserContext]) -> None:
    visit = Visit(signed_in, "/runs")
    box = visit.page.locator("#grid").bounding_box()
    assert box
    assert (box["height"] - 26) // 26 >= 30
    assert visit.page.locator("#grid th").count() == 11  # the first selects
    fits = visit.page.evaluate(
        "document.getElementById('grid').scrollWidth <= document.getElementById('grid').clientWidth + 1"
    )
    assert fits
    visit.close()


def test_new_run_appears_without_reloading(desk: Desk, signed_in: tuple[Server, BrowserContext]) -> None:
    visits = [Visit(signed_in, "/runs") for _ in range(20)]  # more than a browser has connections to one host
    counts = [int(visit.page.locator("#total b").inner_text()) for visit in visits]
    desk.script("print('live')\n", "live.py")
    assert desk.submit("live.py").code == 0
    for visit, count in zip(visits, counts, strict=True):
        expect(visit.page.locator("#total b")).to_have_text(str(count + 1))
        visit.page.wait_for_selector("text=live.py")
    for visit in visits:
        visit.close()


def test_log_follows_and_shows_every_line_once(desk: Desk, signed_in: tuple[Server, BrowserContext]) -> None:
    gate = desk.user_home / "gate"
    os.mkfifo(gate)
    script = (
        "import sys\nfor number in range(3):\n    print('line', number, flush=True)\n    open(sys.argv[1]).read()\n"
    )
    desk.script(script, "slow.py")
    assert desk.submit("--no-wait", "slow.py", str(gate)).code == 0
    uid = desk.record("last")["uid"]
    visit = Visit(signed_in, f"/runs/{uid}/log")
    for number in range(3):
        visit.page.wait_for_selector(f"#log >> text=line {number}")
        gate.write_text("go")
    eventually(lambda: desk.record("last")["status"] == "Completed")
    lines = visit.page.locator("#log div").all_inner_texts()
    assert [line.split("\n")[-1].strip()[-6:] for line in lines] == ["line 0", "line 1", "line 2"]
    visit.close()


def test_page_of_a_run_follows_it(desk: Desk, signed_in: tuple[Server, BrowserContext]) -> None:
    """State, metrics, outputs and curves appear as the run goes on, without a reload."""
    gate = desk.user_home / "gate-run"
    os.mkfifo(gate)
    script = "import sys, holdfast\nopen(sys.argv[1]).read()\nfor n in range(5):\n    holdfast.log('loss', n)\n"
    desk.script(script, "watched.py")
    assert desk.submit("--no-wait", "watched.py", str(gate)).code == 0
    visit = Visit(signed_in, f"/runs/{desk.record('last')['uid']}")
    expect(visit.page.locator("#curves")).to_be_hidden()
    visit.page.evaluate("window.isSamePage = true")
    gate.write_text("go")
    expect(visit.page.locator("#status")).to_contain_text("Completed", timeout=20_000)
    expect(visit.page.locator("#facts")).to_contain_text("loss", timeout=20_000)
    visit.page.wait_for_selector("#charts .chart")
    assert visit.page.evaluate("window.isSamePage")
    visit.close()


def test_search_and_jump_in_the_log(signed_in: tuple[Server, BrowserContext]) -> None:
    server, _ = signed_in
    uid = server.get("/rows.json").json["rows"][-1]["uid"]
    visit = Visit(signed_in, f"/runs/{uid}/log")
    visit.page.get_by_label("Search").fill("done")
    visit.page.get_by_label("Search").press("Enter")
    visit.page.wait_for_selector("#log .hit >> text=done")
    assert "1 / 1" in visit.page.locator("#found").inner_text()
    visit.close()


def test_keyboard_reaches_a_run_and_compare(signed_in: tuple[Server, BrowserContext]) -> None:
    visit = Visit(signed_in, "/runs")
    boxes = visit.page.locator("#grid tbody input")
    boxes.nth(0).focus()
    visit.page.keyboard.press("Space")
    boxes.nth(1).focus()
    visit.page.keyboard.press("Space")
    visit.page.get_by_role("button", name="Compare").press("Enter")
    visit.page.wait_for_url("**/compare?*")
    visit.close()


def test_active_outputs_do_not_run_framed_or_by_address(signed_in: tuple[Server, BrowserContext]) -> None:
    server, _ = signed_in
    uid = server.get("/rows.json").json["rows"][-1]["uid"]
    for name in ("outputs/page.html", "outputs/picture.svg"):
        for path in (f"/runs/{uid}/outputs?name={name}", f"/runs/{uid}/file?name={name}"):
            visit = Visit(signed_in, path)
            assert visit.page.title() != "broken"
            assert path.startswith(f"/runs/{uid}/outputs") or visit.page.evaluate("self.origin") == "null"
            visit.close(allowed="sandboxed")


def test_other_servers_of_this_machine_get_no_cookie(signed_in: tuple[Server, BrowserContext]) -> None:
    _, context = signed_in
    received: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.headers.get("Cookie") or "")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        page = context.new_page()
        for host in ("127.0.0.1", "localhost"):
            page.goto(f"http://{host}:{other.server_port}/")
        page.close()
        other.shutdown()
    assert received
    assert set(received) == {""}
