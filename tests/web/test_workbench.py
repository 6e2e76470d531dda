"""Projects, Run dialog, Files, Outputs, Compare, Targets and Settings."""

from __future__ import annotations

import html
import json
import os
import re
import socket
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from holdfast.web import languages, routes, servers
from holdfast.web.pages.compare import side_by_side

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


def test_pages_of_a_project_have_json_twins(desk: Desk, server: Server, project: str, uid: str) -> None:
    """Shaped as the command line prints the same."""
    base = f"/projects/{project}"
    dashboard = server.get(f"{base}.json").json
    assert (dashboard["project"]["id"], "train.py" in dashboard["scripts"]) == (project, True)
    assert dashboard["latest"][0] == server.get("/runs.json?limit=1").json[0]
    plan = server.get(f"{base}/run.json?script=train.py&config=local&arguments=--lr+0.1").json
    words = ("submit", "--dry-run", "-c", "local", "-o", "json", "train.py", "--lr", "0.1")
    printed = desk.holdfast(*words).json
    assert plan.keys() - printed.keys() == {"since_last_run"}
    for name in ("argv", "target", "files", "bytes", "tree"):
        assert plan[name] == printed[name], name
    assert plan["since_last_run"]["same_code"] in (True, False)
    assert server.get(f"{base}/run.json?script=absent.py&config=nowhere").status == 400
    (desk.project / "aml_config").mkdir(exist_ok=True)
    wrong = desk.project / "aml_config" / "wrong.compute"
    wrong.write_text("type: remote\nusernam: ada\naddress: gpu1\n")
    files = server.get(f"{base}/files.json?folder=aml_config&file=aml_config/wrong.compute").json
    assert files["text"]["content"] == wrong.read_text()
    assert {"address": "gpu1"}.items() <= {row["name"]: row["value"] for row in files["fields"]}.items()
    found = [row for row in desk.holdfast("check", "-o", "json").json if "wrong" in row["file"]]
    assert files["findings"] == [row for row in found if "trust" not in row["hint"]]
    assert files["findings"] != []
    wrong.unlink()
    code = server.get(f"/runs/{uid}/code.json?file=train.py").json
    assert code["lines"] == (desk.project / "train.py").read_text().splitlines()
    assert "train.py" in server.get(f"/runs/{uid}/code.json").json["names"]
    assert server.get(f"/runs/{uid}/outputs.json?name=outputs/table.csv").json["table"] == [["a", "b"], ["1", "2"]]
    assert {"keys": "?", "what": "Help"} in server.get("/help.json").json["shortcuts"]


def test_every_page_has_a_json_twin() -> None:
    paths = {page.path for page in routes.ROUTES if not page.post}
    no_page = {"/", "/static/{name}", "/events", "/runs.csv", "/compare.html"}  # and parts of a page
    no_page |= {"/runs/{uid}/log.txt", "/runs/{uid}/picture", "/runs/{uid}/file"}
    pages = {path for path in paths - no_page if not path.endswith(".json")}
    assert {path for path in pages if f"{path}.json" not in paths} == set()


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


def test_changed_lines_are_put_side_by_side() -> None:
    lines = ["--- a/x", "+++ b/x", "@@ -1,3 +1,4 @@", " same", "-old", "-gone", "+new", " end", "+added"]
    assert side_by_side(lines)[3:] == [
        ("same", "same", "same"),
        ("changed", "old", "new"),
        ("changed", "gone", ""),
        ("same", "end", "end"),
        ("changed", "", "added"),
    ]


def test_pictures_are_known_by_step(desk: Desk, server: Server) -> None:
    script = "import holdfast\nfrom PIL import Image\n"
    script += "for step in (0, 5):\n    holdfast.log_image('sample', Image.new('RGB', (9, 6 + step)), step=step)\n"
    desk.script(script, "pictures.py")
    assert desk.submit("pictures.py").code == 0
    run = desk.record("last")["uid"]
    page = html.unescape(server.get(f"/runs/{run}").text)
    assert '"steps": [0, 5]' in page
    picture = server.get(f"/runs/{run}/picture?name=sample&at=1")
    assert (picture.headers["content-type"], picture.body[:4]) == ("image/png", b"\x89PNG")
    assert picture.headers["content-security-policy"].startswith("sandbox")
    for query in ("name=sample&at=2", "name=absent&at=0", "name=sample&at=-1x"):
        assert server.get(f"/runs/{run}/picture?{query}").status in (200, 404)
    assert server.get(f"/runs/{run}/picture?name=sample&at=9").status == 404


def test_target_is_tested_step_by_step(server: Server, project: str) -> None:
    rows = {row["name"]: row for row in server.get("/targets.json").json}
    assert rows["local"]["kind"] == "local"
    answer = server.post(f"/projects/{project}/targets/local/check", {})
    ticks = [json.loads(line) for line in answer.text.splitlines()]
    assert [tick["state"] for tick in ticks if tick["name"] == "python"] == ["ok"]
    assert server.post(f"/projects/{project}/targets/absent/check", {}).status == 400


def test_machine_that_does_not_answer_is_not_attached(desk: Desk, server: Server, project: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and never listens
        port = str(unused.getsockname()[1])
        fields = {"project": project, "kind": "remote", "address": "ada@127.0.0.1", "name": "box", "port": port}
        answer = server.post("/attach", fields)
        assert answer.status == 400
        assert "refused" in answer.text
        assert server.post("/attach", {**fields, "key": "ssh-ed25519 AAAA", "password": "x"}).status == 400
    assert server.post("/attach", {**fields, "port": "70000"}).status == 400
    assert server.post("/attach", {**fields, "kind": "local"}).status == 400
    assert not (desk.project / "aml_config" / "box.compute").exists()


def test_target_is_detached(desk: Desk, server: Server, project: str) -> None:
    path = desk.project / "aml_config" / "old.compute"
    path.parent.mkdir(exist_ok=True)
    path.write_text("type: remote\naddress: old.example\n")
    assert "old" in {row["name"] for row in server.get("/targets.json").json}
    assert server.post(f"/projects/{project}/targets/old/detach", {}).status == 303
    assert not path.exists()
    assert server.post(f"/projects/{project}/targets/old/detach", {}).status == 400


def test_target_is_prepared_and_a_run_reproduced(desk: Desk, server: Server, project: str, uid: str) -> None:
    """What the commands print, and how they ended; they ask nothing."""
    prepared = _ticks(server, f"/projects/{project}/targets/local/prepare")
    assert "interpreter unchanged" in prepared[0]["found"]
    assert (prepared[-1]["state"], prepared[-1]["found"]) == ("failed", "exit code 65")
    assert server.post(f"/projects/{project}/targets/absent/prepare", {}).status == 400
    before = server.get("/rows.json").json["total"]
    reproduced = _ticks(server, f"/runs/{uid}/reproduce")
    assert any(tick["found"].startswith("loss ") for tick in reproduced), reproduced
    assert reproduced[-1]["state"] == "ok"
    assert server.get("/rows.json").json["total"] == before + 1


def _ticks(server: Server, path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in server.post(path, {}).text.splitlines()]


def test_target_is_asked_before_a_run(desk: Desk, server: Server, project: str) -> None:
    desk.script("print('planned')\n", "planned.py")
    answer = server.post(f"/projects/{project}/preflight", {"script": "planned.py", "config": "local"}).json
    assert answer["ticks"][0]["state"] == "ok"
    assert answer["machine"]["state"] in ("none", "measured", "unmeasured")


def test_form_changes_one_value_and_nothing_else(desk: Desk, server: Server, project: str) -> None:
    path = desk.project / "aml_config" / "box.compute"
    path.parent.mkdir(exist_ok=True)
    text = "# mine\ntype: remote\naddress: gpu1.example  # the big one\nusernam: ada\n"
    path.write_text(text)
    page = server.get(f"/projects/{project}/files?file=aml_config/box.compute").text
    assert "unknown key" in page
    assert 'data-line="4"' in page
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', page)
    assert digest
    fields = {"file": "aml_config/box.compute", "digest": digest[1], "key:address": "gpu2.example", "key:port": "2222"}
    assert server.post(f"/projects/{project}/save-form", fields).status == 303
    assert path.read_text() == text.replace("gpu1", "gpu2") + "port: 2222\n"
    assert server.post(f"/projects/{project}/save-form", fields).status == 400  # the file has changed
    path.unlink()


CONDA = """# mine
channels: [conda-forge]
dependencies:
  - python=3.8  # old
  - "scipy"
  - pip:
    # needed
    - torch==2.0
    - gone
"""
REQUIREMENTS = """# first
-r other.txt
torch>=2.0  # keep
numpy==1.0 \\
  --hash=sha256:abc
scipy"""


def _form_of(server: Server, project: str, name: str, **values: str) -> int:
    files = server.get(f"/projects/{project}/files.json?file={name}").json
    fields = {f"key:{row['name']}": values.get(row["name"], row["value"]) for row in files["fields"]}
    sent = {"file": name, "digest": files["text"]["digest"], **fields}
    return server.post(f"/projects/{project}/save-form", sent).status


def test_form_of_a_conda_file_changes_removes_and_adds_packages(desk: Desk, server: Server, project: str) -> None:
    name = "aml_config/conda_dependencies.yml"
    path = desk.project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(CONDA)
    page = server.get(f"/projects/{project}/files?file={name}").text
    assert 'name="key:dependencies.pip 1" class="mono" value="torch==2.0"' in page
    changes = {"dependencies 1": "python=3.11", "dependencies.pip 1": "torch==2.4", "dependencies.pip 2": ""}
    added = {"+ dependencies": "numpy", "+ dependencies.pip": "mlflow>=2"}
    assert _form_of(server, project, name, **changes, **added) == 303
    expected = CONDA.replace("3.8", "3.11").replace('"scipy"\n', '"scipy"\n  - numpy\n').replace("2.0", "2.4")
    assert path.read_text() == expected.replace("- gone", "- mlflow>=2")
    before = path.read_text()
    for wrong in ({"channels 1": ""}, {"+ dependencies.pip": "a\nb"}):
        assert _form_of(server, project, name, **wrong) == 400
    assert path.read_text() == before
    path.unlink()


def test_form_of_a_requirements_file_keeps_options_and_comments(desk: Desk, server: Server, project: str) -> None:
    path = desk.project / "requirements.txt"
    path.write_text(REQUIREMENTS)
    names = {"3": "torch>=2.2", "6": "", "+ requirements": "pandas"}
    assert _form_of(server, project, "requirements.txt", **names) == 303
    assert path.read_text() == REQUIREMENTS.replace(">=2.0", ">=2.2").replace("scipy", "pandas\n")
    before = path.read_text()
    for wrong in ("-r /etc/passwd", "--index-url http://evil.example", "a b", "torch\n-r x"):
        assert _form_of(server, project, "requirements.txt", **{"3": wrong}) == 400, wrong
    assert path.read_text() == before
    path.unlink()


def test_code_is_shown_and_restored_and_brought_back(desk: Desk, server: Server, uid: str) -> None:
    script = desk.project / "train.py"
    before = script.read_bytes()
    page = server.get(f"/runs/{uid}/code?file=train.py&line=3").text
    assert '<span id="L3" class="hit">import holdfast' in page
    assert server.get(f"/runs/{uid}/code?file=../train.py").status == 400
    script.write_text("changed\n")
    assert "+changed" in server.get(f"/runs/{uid}/code").text
    assert server.post(f"/runs/{uid}/restore", {}).status == 400
    assert script.read_text() == "changed\n"
    done = server.post(f"/runs/{uid}/restore", {"confirm": "1"})
    assert script.read_bytes() == before
    saved = re.search(r'name="saved" value="([0-9a-f]+)"', done.text)
    assert saved
    assert server.post(f"/runs/{uid}/restore", {"confirm": "1", "saved": saved[1]}).status == 200
    assert script.read_text() == "changed\n"
    script.write_bytes(before)


def test_passport_is_a_download_that_verifies(desk: Desk, server: Server, uid: str, tmp_path: Path) -> None:
    refused = server.post(f"/runs/{uid}/passport", {})
    assert refused.status == 400
    assert "key" in refused.text
    key = desk.user_home / ".ssh" / "id_ed25519"
    key.parent.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    answer = server.post(f"/runs/{uid}/passport", {})
    assert answer.headers["content-type"] == "application/zip"
    path = tmp_path / "run.passport.zip"
    path.write_bytes(answer.body)
    assert desk.holdfast("passport", "verify", str(path)).code == 0


def test_filters_of_the_help_page_are_understood(server: Server) -> None:
    examples = re.findall(r'href="(/runs\?where=[^"]+)"', server.get("/help").text)
    assert len(examples) == 5
    for address in examples:
        page = server.get(html.unescape(address)).text
        mistakes = re.findall(r'id="mistake".*?<p>(.*?)</p>', page, re.DOTALL)
        assert mistakes == [] or "tags.dataset" in html.unescape(address), mistakes  # no run has this tag


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
    from holdfast.web.pages.settings import SHORTCUTS

    return [*TITLES.values(), *(what for _, what in SHORTCUTS)]
