"""Shortcuts of the keyboard, and what open pages do when their server ends, in a real Chromium."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from web.client import Server, answering
from web.test_browser import CHROMIUM, browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from conftest import Desk

__all__ = ["browser"]  # the fixture
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: chromium is not installed")
GATED = "import sys\nfor n in range(4):\n    print('line', n, flush=True)\n    n < 3 and open(sys.argv[1]).read()\n"


def test_shortcuts_lead_from_a_run_to_compare_and_help(desk: Desk, browser: Browser) -> None:
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


def test_twenty_pages_continue_after_the_server_was_killed(desk: Desk, browser: Browser) -> None:
    """Its sessions and address stay: what happened meanwhile is shown, once, without a reload."""
    server = Server(desk, "--port", "0")
    gate = desk.user_home / "gate-killed"
    os.mkfifo(gate)
    desk.script(GATED, "gated.py")
    try:
        page = _opened(browser, server, "en")
        assert desk.submit("--no-wait", "gated.py", str(gate)).code == 0
        uid = desk.record("last")["uid"]
        pages = [page, *(page.context.new_page() for _ in range(19))]
        for tab in pages:
            tab.goto(f"http://{server.host}/runs/{uid}/log")
            tab.wait_for_selector("#log >> text=line 0")
            tab.evaluate("window.isSamePage = true")
        for number in range(1, 4):
            os.kill(answering(server), signal.SIGKILL)
            gate.write_text("go")
            for tab in pages:
                tab.wait_for_selector(f"#log >> text=line {number}")
        assert desk.wait_for_end("last")["status"] == "Completed"
        for tab in pages:
            lines = tab.locator("#log div").all_inner_texts()
            assert [line.split("\n")[-1].strip()[-6:] for line in lines] == [f"line {number}" for number in range(4)]
            assert tab.evaluate("window.isSamePage")
            expect(tab.locator("#connection")).to_have_text("")
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


def _opened(browser: Browser, server: Server, language: str) -> Page:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale=language)
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.goto(f"http://{server.host}/projects")
    page.locator("#code").fill(server.code)
    page.locator("button").click()
    page.wait_for_url("**/projects")
    return page
