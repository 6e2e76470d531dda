"""The manual as a site: it is built with no warning, holds every page, and can be searched without a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from lab import shelf
from web.test_browser import CHROMIUM, browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from conftest import Desk

__all__ = ["browser"]

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
IN_THE_WHEEL = ("src", "tools/hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "docs/holdfast.1")


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    (package,) = re.findall(r'^docs = \["(.+)"\]$', (ROOT / "pyproject.toml").read_text(), re.M)
    python = shelf.interpreter(ROOT, "manual", package)
    argv = [str(python), "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("manual") / "site"
    result = build(ROOT / "mkdocs.yml", made)
    assert result.returncode == 0, result.stderr
    assert "was left as is" not in result.stderr  # a link out of the manual
    return made


def test_every_page_is_in_the_menu_and_in_the_search(site: Path) -> None:
    menu = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    decisions = {page for page in pages if page.startswith("decisions/") and page != "decisions/README.md"}
    assert sorted(menu) == sorted(pages - decisions)
    text = (site / "search" / "search_index.js").read_text()  # a script, which a page from a file may load
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    html = {page.replace("README.md", "index.md").replace(".md", ".html") for page in pages}
    assert places == html
    assert any("HOLDFAST_CHECKPOINTS" in entry["text"] for entry in index["docs"])


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=.?(?:https?:)?//[^ >]+", page.read_text()) == [], page


@pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: chromium is not installed")
def test_search_works_in_a_page_opened_from_a_file(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.get_by_role("textbox", name="Search").fill("HOLDFAST_CHECKPOINTS")
    results = page.locator(".md-search-result__link")
    expect(results.first).to_be_visible(timeout=30_000)
    results.first.click()
    expect(page.locator("article")).to_contain_text("HOLDFAST_CHECKPOINTS")
    assert errors == []
    page.close()


def test_link_to_a_page_that_is_not_there_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[gone](gone.md)\n")
    settings, _, _ = (ROOT / "mkdocs.yml").read_text().partition("nav:\n")
    (tmp_path / "mkdocs.yml").write_text(f"{settings}nav:\n  - Start: index.md\n")
    result = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert result.returncode != 0
    assert "gone.md" in result.stderr


def test_wheel_brings_the_site_and_docs_opens_it(desk: Desk, site: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in IN_THE_WHEEL:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
    shutil.copytree(site, copy / "site")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(argv, cwd=copy, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("holdfast-*.whl")
    prefix = tmp_path / "prefix"
    zipfile.ZipFile(wheel).extractall(prefix / "lib")
    (data,) = (prefix / "lib").glob("*.data/data")
    shutil.copytree(data / "share", prefix / "share")
    program = "import sys; sys.prefix = sys.argv.pop(1); from holdfast.__main__ import main; main()"
    env = {"PYTHONPATH": str(prefix / "lib")}
    result = desk.holdfast("-c", program, str(prefix), "docs", command=sys.executable, env=env)
    assert (result.code, result.text.strip()) == (0, str(prefix / "share/doc/holdfast/site/index.html")), result
