"""The way of a person through the pages in a real Chromium: by mouse in each language, and by keyboard alone."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from conftest import eventually
from holdfast.web import languages
from web.client import Server
from web.test_browser import CHROMIUM, browser

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

    from conftest import Desk

__all__ = ["browser"]  # the fixture
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: chromium is not installed")
GATED = "import sys\nfor n in range(4):\n    print('line', n, flush=True)\n    n < 3 and open(sys.argv[1]).read()\n"
SCRIPT = "import sys\nprint('rate', sys.argv[1:])\nopen('result.txt', 'w').write('done')\n"


@pytest.mark.parametrize("language", languages.NAMES if os.environ.get("CI") else ("en", "ja"))
def test_sample_project_is_run_edited_compared_and_restored_by_mouse(
    desk: Desk, browser: Browser, language: str
) -> None:
    """The guide's way on this machine, with the words that the pages have in this language."""

    def word(text: str) -> str:
        return languages.translate(language, text)

    server = Server(desk, "--port", "0")
    try:
        page = _opened(browser, server, language)
        _create(page, word, f"journey-{language}", str(desk.user_home))
        folder = desk.user_home / f"journey-{language}"
        (folder / "train.py").write_text(SCRIPT)
        first = _run(page, word, "--lr 1")
        page.get_by_role("link", name="result.txt").click()
        with page.expect_download() as download:
            page.get_by_role("link", name=word("Download")).click()
        assert download.value.path().read_text() == "done"
        page.get_by_role("navigation").get_by_role("link", name=word("Projects"), exact=True).click()
        page.get_by_role("link", name=folder.name, exact=True).click()
        page.get_by_role("link", name=word("File View")).click()
        page.get_by_role("link", name="train.py", exact=True).click()
        (folder / "new.txt").write_text("new")
        page.get_by_role("link", name=word("Refresh")).click()
        expect(page.get_by_role("link", name="new.txt")).to_be_visible()
        page.locator("#file-text").fill(SCRIPT.replace("rate", "changed"))
        page.get_by_role("button", name=word("Save"), exact=True).click()
        expect(page.get_by_text(word("Saved."))).to_be_visible()
        assert "changed" in (folder / "train.py").read_text()
        page.get_by_role("heading").get_by_role("link", name=folder.name).click()
        second = _run(page, word, "--lr 2")
        page.goto(f"http://{server.host}/runs")
        for uid in (first, second):
            page.locator(f'input[value="{uid}"]').check()
        page.get_by_role("button", name=word("Compare")).click()
        expect(page.locator("td.differs", has_text="2").first).to_be_visible()
        expect(page.locator(".two td", has_text="changed")).to_be_visible()
        page.goto(f"http://{server.host}/runs/{first}/code")
        page.get_by_role("button", name=word("Restore the project to this run")).click()
        expect(page.get_by_text(word("Restored."))).to_be_visible()
        assert (folder / "train.py").read_text() == SCRIPT
        assert page.locator("html").get_attribute("lang") == language
        page.context.close()
    finally:
        server.stop()


def test_run_is_started_and_compared_by_keyboard_alone(desk: Desk, browser: Browser) -> None:
    server = Server(desk, "--port", "0")
    try:
        page = _opened(browser, server, "en")
        _tab_to(page, desk.project.name)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/projects/[0-9a-f-]+$"))
        _tab_to(page, "Run …")
        page.keyboard.press("Enter")
        page.locator("#preflight[data-ready]").wait_for()
        _tab_to(page, "Run")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/runs/[0-9a-f]{32}$"))
        page.keyboard.press("g")
        page.keyboard.press("r")
        page.wait_for_url("**/runs")
        page.locator("#grid tbody tr").nth(2).wait_for()
        for key in ("j", "x", "j", "x", "c"):
            page.keyboard.press(key)
        page.wait_for_url("**/compare?*")
        assert page.url.count("run=") == 2
        page.keyboard.press("?")
        page.wait_for_url("**/help")
        page.context.close()
    finally:
        server.stop()


def _tab_to(page: Page, text: str) -> None:
    """Press Tab until what has the focus has this text."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").strip() == text:
            return
    raise AssertionError(f"Tab does not lead to {text!r}")


def test_pages_continue_after_the_server_was_killed(desk: Desk, browser: Browser) -> None:
    """Its session and address stay: what happened meanwhile is shown, once, without a reload."""
    server = Server(desk, "--port", "0")
    gate = desk.user_home / "gate-killed"
    os.mkfifo(gate)
    desk.script(GATED, "gated.py")
    try:
        page = _opened(browser, server, "en")
        assert desk.submit("--no-wait", "gated.py", str(gate)).code == 0
        uid = desk.record("last")["uid"]
        page.goto(f"http://{server.host}/runs/{uid}/log")
        page.wait_for_selector("#log >> text=line 0")
        page.evaluate("window.isSamePage = true")
        for number in range(1, 4):
            os.kill(_child(server), signal.SIGKILL)
            gate.write_text("go")
            page.wait_for_selector(f"#log >> text=line {number}")
        assert desk.wait_for_end("last")["status"] == "Completed"
        lines = page.locator("#log div").all_inner_texts()
        assert [line.split("\n")[-1].strip()[-6:] for line in lines] == [f"line {number}" for number in range(4)]
        assert page.evaluate("window.isSamePage")
        expect(page.locator("#connection")).to_have_text("")
        page.context.close()
    finally:
        assert server.stop() == 0


def test_page_continues_after_a_sign_in_to_the_next_server(desk: Desk, browser: Browser) -> None:
    server = Server(desk, "--port", "0")
    page = _opened(browser, server, "en")
    page.goto(f"http://{server.host}/runs")
    page.locator("#grid tbody tr").first.wait_for()
    page.evaluate("window.isSamePage = true")
    count = int(page.locator("#total b").inner_text())
    assert server.stop() == 0
    expect(page.locator("#connection")).to_have_text("not connected; trying again", timeout=20_000)
    again = Server(desk, "--port", str(server.port))
    try:
        assert again.host == server.host  # addresses stay
        link = page.get_by_role("link", name="sign in again")
        link.wait_for(timeout=20_000)
        assert desk.submit("train.py").code == 0
        with page.context.expect_page() as opened:
            link.click()
        opened.value.locator("#code").fill(again.code)
        opened.value.locator("button").click()
        expect(page.locator("#total b")).to_have_text(str(count + 1), timeout=20_000)
        expect(page.locator("#connection")).to_have_text("")
        assert page.evaluate("window.isSamePage")
        page.context.close()
    finally:
        again.stop()


def _child(server: Server) -> int:
    """The process that answers."""
    pid = server.process.pid
    path = Path(f"/proc/{pid}/task/{pid}/children")
    eventually(lambda: bool(path.read_text().split()))
    return int(path.read_text().split()[0])


def _opened(browser: Browser, server: Server, language: str) -> Page:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale=language)
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.goto(f"http://{server.host}/projects")
    page.locator("#code").fill(server.code)
    page.locator("button").click()
    page.wait_for_url("**/projects")
    return page


def _create(page: Page, word: Callable[[str], str], name: str, folder: str) -> None:
    tile = page.locator(".tiles li", has=page.locator('input[value="blank"][name="template"]'))
    tile.get_by_label(word("Name"), exact=True).fill(name)
    tile.get_by_label(word("In folder")).fill(folder)
    tile.get_by_role("button", name=word("Create")).click()
    page.wait_for_url(re.compile(r"/projects/[0-9a-f-]+$"))


def _run(page: Page, word: Callable[[str], str], arguments: str) -> str:
    """From the run bar over the plan to the page of the run; returns its uid."""
    page.locator("#arguments").fill(arguments)
    page.get_by_role("button", name=f"{word('Run')} …").click()
    page.locator("#preflight[data-ready]").wait_for()
    page.locator("#start button").dblclick()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{32}$"))
    uid = page.url.rpartition("/")[2]
    page.wait_for_function(
        "fetch(location.pathname + '.json').then((answer) => answer.json()).then((run) => run.status === 'Completed')"
    )
    page.reload()
    expect(page.locator("#status")).to_contain_text("Completed")
    return uid
