"""The guide's way in a real Chromium, by mouse in each language and by keyboard alone.

It leads from a sample project to a run in a container on an attached machine, compared, downloaded and restored.

The server runs on the laptop of the lab, as ``holdfast ui --socket``; the browser reaches it as through ``ssh -L``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from playwright.sync_api import expect

from enginelab import Docker
from holdfast.amlconfig.types import DEFAULT_IMAGE
from holdfast.web import languages
from ssh.conftest import PASSWORD, Laptop
from sshlab import Lab, Unavailable
from web.client import Server
from web.hands import Keyboard, Mouse
from web.test_browser import CHROMIUM, browser
from web.tunnel import Tunnel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Locator, Page

    from sshlab import Host, User

__all__ = ["browser"]  # the fixture
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: chromium is not installed")
LINES = 30
# With --gate it does not end until there is a file beside it.
GATED = f"""
import os, sys
import holdfast
for number in range({LINES}):
    print("line", number, flush=True)
    holdfast.log("loss", 1 / (number + 1))
while "--gate" in sys.argv and not os.path.exists("go"):
    pass
open("outputs/note.txt", "w").write("edited")
"""


class Box(NamedTuple):
    """A machine with Docker and an account on it."""

    host: Host
    user: User


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    try:
        with Lab(("gpu1",)) as lab, Docker(lab["gpu1"]) as docker:
            docker.run("tag", "base:py", DEFAULT_IMAGE)
            yield Box(lab["gpu1"], lab["gpu1"].user("ada", password=PASSWORD))
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def laptop(box: Box, tmp_path: Path) -> Iterator[Laptop]:
    (tmp_path / "desk").mkdir()
    laptop = Laptop(tmp_path / "desk", box.host.lab.client(tmp_path / "home"))
    yield laptop
    laptop.close_connections()
    laptop.client.close()


class Person:
    """One person in one language at one browser; ``hand`` is the mouse or the keyboard."""

    def __init__(self, context: BrowserContext, site: str, language: str, *, has_mouse: bool) -> None:
        self.context, self.site, self.language, self.has_mouse = context, site, language, has_mouse
        self.page = context.new_page()
        self.look_at(self.page)

    def look_at(self, page: Page) -> None:
        page.set_default_timeout(60_000)
        page.bring_to_front()
        self.page = page
        self.hand: Mouse | Keyboard = Mouse() if self.has_mouse else Keyboard(page)

    def word(self, text: str) -> str:
        return languages.translate(self.language, text)

    def menu(self, name: str) -> None:
        self.hand.press(self.page.get_by_role("navigation").get_by_role("link", name=self.word(name), exact=True))

    def link(self, name: str) -> Locator:
        return self.page.get_by_role("link", name=self.word(name), exact=True)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=self.word(name), exact=True)

    def field(self, name: str) -> Locator:
        return self.page.get_by_label(self.word(name), exact=True)

    def write(self, name: str, text: str) -> None:
        self.hand.write(self.field(name), text)


WAYS = [*(pytest.param(True, language, id=f"mouse-{language}") for language in languages.NAMES)]
WAYS.append(pytest.param(False, "en", id="keyboard"))


@pytest.mark.parametrize(("has_mouse", "language"), WAYS)
def test_sample_becomes_a_run_in_a_container_of_an_attached_machine(
    box: Box, laptop: Laptop, browser: Browser, has_mouse: bool, language: str
) -> None:
    name = f"journey-{language.lower()}-{'mouse' if has_mouse else 'keyboard'}"
    folder = laptop.project.parent / name
    server = Server(laptop, "--socket")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale=language)
    try:
        with Tunnel(server.path) as tunnel:
            person = Person(context, f"http://{server.name}:{tunnel.port}", language, has_mouse=has_mouse)
            _sign_in(person, server.code)
            _create(person, name, folder.parent)
            first = _run(person, "local", "--lr 1")
            _show_files(person, name)
            files = person.page
            assert not (folder / "aml_config" / "box.compute").exists()
            _attach(person, box, name)
            person.look_at(files)
            _edit(person, folder)
            second = _run_and_watch(person, box, name)
            _compare(person, first, second)
            _download(person, second)
            _restore(person, first, folder)
            assert person.page.locator("html").get_attribute("lang") == language
            assert PASSWORD.encode() not in b"".join(_contents(laptop))
    finally:
        context.close()
        server.stop()


def _sign_in(person: Person, code: str) -> None:
    person.page.goto(f"{person.site}/projects")
    person.hand.write(person.page.locator("#code"), code)
    person.hand.press(person.page.locator("button"))
    person.page.wait_for_url("**/projects")


def _create(person: Person, name: str, parent: Path) -> None:
    tile = person.page.locator(".tiles li", has=person.page.locator('input[value="blank"][name="template"]'))
    person.hand.write(tile.get_by_label(person.word("Name"), exact=True), name)
    person.hand.write(tile.get_by_label(person.word("In folder")), str(parent))
    person.hand.press(tile.get_by_role("button", name=person.word("Create")))
    person.page.wait_for_url(re.compile(r"/projects/[0-9a-f-]+$"))


def _run(person: Person, target: str, arguments: str) -> str:
    """From the run bar over the plan to the page of the run, whose state is followed without a reload."""
    _start(person, target, arguments)
    expect(person.page.locator("#status")).to_contain_text("Completed", timeout=60_000)
    return person.page.url.rpartition("/")[2]


def _start(person: Person, target: str, arguments: str) -> None:
    person.hand.choose(person.field("Run configuration"), target)
    person.write("Arguments", arguments)
    person.hand.press(person.page.get_by_role("button", name=f"{person.word('Run')} …"))
    person.page.locator("#preflight[data-ready]").wait_for()
    assert person.page.locator("#preflight .bad").count() == 0, person.page.locator("#preflight").inner_text()
    person.hand.press_twice(person.page.locator("#start button"))
    person.page.wait_for_url(re.compile(r"/runs/[0-9a-f]{32}$"))


def _show_project(person: Person, name: str) -> None:
    person.menu("Projects")
    person.hand.press(person.page.get_by_role("link", name=name, exact=True))
    person.page.wait_for_url(re.compile(r"/projects/[0-9a-f-]+$"))


def _show_files(person: Person, name: str) -> None:
    _show_project(person, name)
    person.hand.press(person.link("File View"))
    person.hand.press(person.page.get_by_role("link", name="aml_config/"))
    person.page.get_by_role("link", name="local.compute", exact=True).wait_for()


def _attach(person: Person, box: Box, name: str) -> None:
    """In another tab, with the password once; then it is tested by itself, and prepared."""
    person.look_at(person.context.new_page())
    person.page.goto(f"{person.site}/projects")
    person.menu("Targets")
    person.hand.choose(person.field("Project"), name)
    person.hand.choose(person.field("Kind"), "remotedocker")
    person.write("Address", f"ada@{box.host.hostname}")
    person.write("Name", "box")
    person.hand.press(person.button("Show its host key"))
    expect(person.page.locator("form[action='/attach']")).to_contain_text(box.host.fingerprint("ed25519"))
    person.write("Password", PASSWORD)
    person.hand.press(person.button("The key is right: attach"))
    steps = person.page.locator("#targets td li")
    for step in ("host key", "login", "python"):
        expect(steps.filter(has_text=re.compile(f"✓ {step}:"))).to_be_visible(timeout=60_000)
    row = person.page.locator("#targets tr", has=person.page.get_by_role("cell", name="box", exact=True))
    person.hand.press(row.get_by_role("button", name=person.word("Prepare")))
    expect(steps.filter(has_text="exit code 0")).to_be_visible(timeout=120_000)


def _edit(person: Person, folder: Path) -> None:
    """Refresh shows what attaching has written; then a value in the form, and the script as text."""
    person.hand.press(person.link("Refresh"))
    person.hand.press(person.page.get_by_role("link", name="box.compute", exact=True))
    person.write("nativeSharedDirectory", "~/.azureml/share/journey/")
    person.hand.press(person.button("Save the form"))
    expect(person.page.get_by_text(person.word("Saved."))).to_be_visible()
    assert "share/journey/" in (folder / "aml_config" / "box.compute").read_text()
    person.hand.press(person.page.get_by_role("link", name="../", exact=True))
    person.hand.press(person.page.get_by_role("link", name="train.py", exact=True))
    person.hand.write(person.page.locator("#file-text"), GATED)
    person.hand.press(person.button("Save"))
    expect(person.page.get_by_text(person.word("Saved."))).to_be_visible()
    assert (folder / "train.py").read_text() == GATED


def _run_and_watch(person: Person, box: Box, name: str) -> str:
    """All lines appear in the log while the run is open; then it is let go on, and the page says that it ended."""
    _show_project(person, name)
    _start(person, "box", "--gate")
    uid = person.page.url.rpartition("/")[2]
    person.hand.press(person.page.get_by_role("main").get_by_role("link", name=person.word("Log"), exact=True))
    lines = person.page.locator("#log div")
    expect(lines).to_have_count(LINES, timeout=120_000)
    person.menu("Jobs")
    person.hand.press(person.page.locator(f'a[href="/runs/{uid}"]'))
    expect(person.page.locator("#status")).to_contain_text("Running")
    expect(person.page.locator("#head")).to_contain_text("train.py · box")
    box.user.path(f".holdfast/runs/{uid}/a1/workspace/above/work/go").touch()
    expect(person.page.locator("#status")).to_contain_text("Completed", timeout=60_000)
    person.page.wait_for_selector("#charts .chart")
    return uid


def _compare(person: Person, first: str, second: str) -> None:
    person.menu("Runs")
    for uid in (first, second):
        person.hand.press(person.page.locator(f'input[value="{uid}"]'))
    person.hand.press(person.button("Compare"))
    expect(person.page.locator("td.differs", has_text="--gate").first).to_be_visible()
    expect(person.page.locator(".two td", has_text="holdfast.log").first).to_be_visible()


def _download(person: Person, uid: str) -> None:
    person.hand.press(person.page.locator(f'thead a[href="/runs/{uid}"]'))
    person.hand.press(person.page.get_by_role("button", name=f"{person.word('Fetch')} outputs/note.txt"))
    with person.page.expect_download() as download:
        person.hand.press(person.link("Download"))
    assert download.value.path().read_text() == "edited"


def _restore(person: Person, uid: str, folder: Path) -> None:
    person.menu("Runs")
    person.hand.press(person.page.locator(f'#grid a[href="/runs/{uid}"]'))
    person.hand.press(person.link("Code"))
    person.hand.press(person.button("Restore the project to this run"))
    expect(person.page.get_by_text(person.word("Restored."))).to_be_visible()
    assert "Replace this with your own training" in (folder / "train.py").read_text()


def _contents(laptop: Laptop) -> Iterator[bytes]:
    """Everything that the laptop has on its disks."""
    for top in (laptop.project.parent, laptop.home):
        for path in top.rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield path.read_bytes()
    yield json.dumps(laptop.env).encode()
