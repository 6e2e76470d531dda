"""Projects, Run dialog, Files, Outputs, Compare, Targets and Settings."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from holdfast.web import languages, servers

if TYPE_CHECKING:
    from conftest import Desk
    from web.client import Server

WEB = Path(servers.__file__).parent


@pytest.fixture(scope="module")
def project(server: Server) -> str:
    rows = server.get("/projects.json").json
    return str(next(row["id"] for row in rows if row["runs"]))


def test_new_project_from_the_gallery_and_added_folder(desk: Desk, server: Server) -> None:
    assert "digits" in server.get("/projects").text
    made = server.post("/new-project", {"template": "blank", "name": "fresh", "parent": str(desk.user_home)})
    assert made.status == 303
    assert (desk.user_home / "fresh" / ".holdfast-project").exists()
    assert "fresh" in server.get(made.headers["location"]).text
    again = server.post("/new-project", {"template": "blank", "name": "fresh", "parent": str(desk.user_home)})
    assert again.status == 400
    assert server.post("/new-project", {"template": "blank", "name": "../x", "parent": "/tmp"}).status == 400
    assert server.post("/add-folder", {"folder": "/no/such"}).status == 400


def test_plan_is_shown_before_one_run_starts(desk: Desk, server: Server, project: str) -> None:
    desk.script("print('planned')\n", "planned.py")
    page = server.get(f"/projects/{project}/run?script=planned.py&config=local&arguments=--lr+3").text
    assert "planned.py --lr 3" in page
    ticket = re.search(r'name="ticket" value="([^"]+)"', page)
    assert ticket
    before = server.get("/rows.json").json["total"]
    fields = {"script": "planned.py", "config": "local", "arguments": "--lr 3", "ticket": ticket[1]}
    first, second = (server.post(f"/projects/{project}/submit", fields) for _ in range(2))
    assert first.status == 303
    assert first.headers["location"] == second.headers["location"]
    assert desk.wait_for_end("last")["status"] == "Completed"
    assert server.get("/rows.json").json["total"] == before + 1
    desk.script("print('changed')\n", "planned.py")
    assert "+print(" in server.get(f"/projects/{project}/run?script=planned.py&config=local").text
    assert "adds a machine" in server.get(f"/projects/{project}/run?script=absent.py&config=nowhere").text


def test_file_is_saved_only_if_unchanged_and_keeps_mode_and_line_endings(
    desk: Desk, server: Server, project: str
) -> None:
    path = desk.project / "notes.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    path.chmod(0o750)
    page = server.get(f"/projects/{project}/files?file=notes.txt").text
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', page)
    assert digest
    fields = {"file": "notes.txt", "content": "one\r\nthree\r\n", "digest": digest[1]}
    assert server.post(f"/projects/{project}/save", fields).status == 303
    assert path.read_bytes() == b"one\r\nthree\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert server.post(f"/projects/{project}/save", fields).status == 400  # it has changed since it was read
    assert path.read_bytes() == b"one\r\nthree\r\n"


def test_files_outside_the_project_and_links_are_refused(desk: Desk, server: Server, project: str) -> None:
    secret = desk.user_home / "secret.txt"
    secret.write_text("secret")
    (desk.project / "link.txt").symlink_to(secret)
    (desk.project / "linked").symlink_to(desk.user_home)
    os.mkfifo(desk.project / "pipe.txt")
    for name in ("../user/secret.txt", str(secret), "link.txt", "linked/secret.txt", "a/../../x", "pipe.txt", "\0"):
        answer = server.ask("GET", f"/projects/{project}/files?file={quote(name, safe='')}")
        assert answer.status == 400, name
        assert b"secret" not in answer.body.replace(b"secret.txt", b"")
        answer = server.post(f"/projects/{project}/save", {"file": name, "content": "x", "digest": "0"})
        assert answer.status == 400, name
    assert secret.read_text() == "secret"
    assert server.ask("GET", f"/projects/{project}/files?folder=linked").status == 400
    assert server.ask("GET", f"/projects/{project}/files?folder=gone").status == 404


def test_outputs_are_inert_by_page_and_by_address(server: Server, uid: str) -> None:
    for name in ("outputs/page.html", "outputs/picture.svg", "outputs/table.csv"):
        raw = server.get(f"/runs/{uid}/file?name={name}")
        assert raw.status == 200
        assert raw.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert "allow-scripts" not in raw.headers["content-security-policy"]
        assert raw.headers["x-content-type-options"] == "nosniff"
    assert 'sandbox=""' in server.get(f"/runs/{uid}/outputs?name=outputs/page.html").text
    assert "<td" in server.get(f"/runs/{uid}/outputs?name=outputs/table.csv").text
    for name in ("../run.json", "outputs/../../run.json", "/etc/passwd", "outputs/absent"):
        assert server.get(f"/runs/{uid}/file?name={name}").status == 404


def test_compare_shows_differences_and_writes_one_file(desk: Desk, server: Server, uid: str) -> None:
    query = f"run={uid}&run={desk.record('2')['uid']}"
    page = server.get(f"/compare?{query}").text
    assert 'class="mono differs">0.2' in page
    assert (
        server.get(f"/compare.json?{query}").json == desk.holdfast("compare", "-r", "1", "-r", "2", "-o", "json").json
    )
    assert b"<!doctype html>" in server.get(f"/compare.html?{query}").body
    assert server.get(f"/compare?run={uid}").status == 400


def test_target_is_tested(server: Server, project: str) -> None:
    assert "local" in [row["name"] for row in server.get("/targets.json").json]
    answer = server.post(f"/projects/{project}/targets/local/check", {})
    assert answer.status == 200
    assert "✓" in answer.text


def test_settings_change_theme_language_and_values(server: Server) -> None:
    assert server.post("/settings/save", {"theme": "dark", "language": "de"}).status == 303
    page = server.get("/settings").text
    assert 'data-theme="dark"' in page
    assert "Einstellungen" in page
    assert server.post("/settings/save", {"setting": "keepTrash", "value": "3d"}).status == 303
    assert {"setting": "keepTrash", "value": "3d"}.items() <= server.get("/settings.json").json[6].items()
    assert server.post("/settings/save", {"setting": "keepTrash", "value": "soon"}).status == 400
    assert server.post("/settings/save", {"theme": "system", "language": ""}).status == 303
    assert 'lang="ja"' in server.get("/runs", **{"Accept-Language": "ja,en;q=0.5"}).text


def test_catalogues_have_every_message_and_no_other() -> None:
    sources = [*WEB.glob("templates/*.html")]
    used = {match for path in sources for match in re.findall(r"""_\((?:"([^"]+)"|'([^']+)')\)""", path.read_text())}
    messages = {first or second for first, second in used} | set(_titles())
    assert len(messages) > 80
    for language in languages.NAMES:
        if language != "en":
            known = set(languages.catalogue(language))
            assert messages - known == set(), language
            assert known - messages == set(), language


def _titles() -> list[str]:
    from holdfast.web.pages.runs import TITLES

    return list(TITLES.values())
