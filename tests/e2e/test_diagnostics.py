"""``holdfast diagnostics``: its content, the confirmation before it is written, and that it has no secrets."""

from __future__ import annotations

import base64
import json
import os
import pty
import stat
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST
from holdfast.runner.store.jsonl import sealed

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

COMPUTE = """# the password is canary-comment
type: remotedocker
address: canary-address.example.org
username: canary-user
password: "canary-password"
port: 2222
startCommand: curl -H 'Authorization: Bearer canary-start' https://canary-host/x?sig=canary-query
dockerArguments:
  - --env=X=canary-docker
"""
RUNCONFIG = """Target: local
EnvironmentVariables:
  PLAIN: canary-plain
  "API_KEY": 'canary-api'
ArgumentVector:
  - canary-argument
nvidiaDocker: canary-instead-of-truth and more
"""
VARIABLES = {
    "MY_TOKEN": "canary-token-in-variable",
    "DB_PASSWORD": "canary/with odd+signs&",
    "HOLDFAST_SECRET_THING": "canary-ours",
    "PIP_INDEX_URL": "https://ada:canary-index@example.org/simple",
}
SCRIPT = """
import os, sys
print("token is", os.environ["MY_TOKEN"])
print("https://ada:canary-printed@example.org/x password=canary-assigned")
print("known again:", sys.argv[2])
"""


@pytest.fixture
def troubled(desk: Desk) -> Desk:
    """A desk with a secret in every place where people put them."""
    folder = desk.project / "aml_config"
    folder.mkdir()
    (folder / "box.compute").write_text(COMPUTE)
    (folder / "box.runconfig").write_text(RUNCONFIG)
    desk.env.update(VARIABLES)
    desk.holdfast("config", "onEnd", "https://hooks.example.org/canary-hook?x=canary-hook-query")
    desk.script(SCRIPT)
    words = ("--api-key", "canary-argument-value", "canary-positional", "--url=https://u:canary-url@example.org")
    done = desk.submit("-e", "MY_TOKEN", "train.py", *words)
    assert done.code == 0, done.err
    attempt = desk.attempt()
    lines = ["index https://ada:canary-built@packages.test/simple", "canary-argument-value came again", "canary-start"]
    lines += [base64.b64encode(b"canary-token-in-variable").decode(), "canary%2Fwith%20odd%2Bsigns%26"]
    (attempt / "environment.log").write_text("\n".join(lines) + "\n")
    (desk.home / "cache" / "solve.log").write_text("https://example.org/t/canary-conda/main\n")
    return desk


def report(desk: Desk, *words: str) -> dict[str, str]:
    path = desk.project / "report.zip"
    done = desk.holdfast("diagnostics", "--yes", "--to", str(path), *words)
    assert (done.code, done.text) == (0, f"{path}\n"), done.err
    with zipfile.ZipFile(path) as opened:
        found = {name: opened.read(name).decode() for name in opened.namelist()}
    for name in found:
        assert name in done.err, "shown before it is written"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    return found


@pytest.mark.parametrize("words", [(), ("-r", "last"), ("-r", "last", "--with-log")], ids=["plain", "run", "log"])
def test_no_secret_is_found(troubled: Desk, words: tuple[str, ...]) -> None:
    told = report(troubled, *words)
    whole = "\n".join((*told, *told.values()))
    assert [line for line in whole.splitlines() if "canary" in line.lower()] == []
    for value in VARIABLES.values():
        assert base64.b64encode(value.encode()).decode() not in whole
    assert ("run/a1/log" in told) == ("--with-log" in words)


def test_report_has_versions_variables_and_log(troubled: Desk) -> None:
    told = report(troubled, "-r", "last", "--with-log")
    about = json.loads(told["about.json"])
    assert about["holdfast"]
    assert "HOLDFAST_HOME" in about["variables"]["set"]
    assert "port: 2222" in told["project/box.compute"]
    assert "type: remotedocker" in told["project/box.compute"]
    assert "password: ***" in told["project/box.compute"]
    request = json.loads(told["run/run.json"])
    assert request["arguments"] == ["--api-key", "***", "***", "--url=***"]
    assert '"type": "closed"' in told["run/a1/events.jsonl"]
    assert "token is" in told["run/a1/log"]
    assert "index https://packages.test/simple" in told["run/a1/environment.log"]
    assert json.loads(told["run/a1/files.json"])["log"] > 0
    assert json.loads(told["settings.json"])["onEnd"] == "***"


def test_code_outputs_and_metrics_stay(desk: Desk) -> None:
    lines = ("import holdfast, os", "holdfast.log('canary', 1)", "os.makedirs('outputs')")
    desk.script("\n".join((*lines, "open('outputs/canary', 'w').write('canary')")))
    desk.submit("train.py")
    told = report(desk, "-r", "1", "--with-log")
    assert [name for name, text in told.items() if "canary" in name + text] == []


def test_it_is_the_original_s_command_too(desk: Desk) -> None:
    desk.script("print('hello')")
    desk.submit("train.py")
    done = desk.holdfast("experiment", "diagnostics", "-r", "1", "-t", "local", "--yes")
    assert (done.code, (desk.project / "diagnostics.zip").exists()) == (0, True), done.err
    assert desk.holdfast("diagnostics", "--yes").code == 2


def test_nothing_is_written_unasked(desk: Desk) -> None:
    refused = desk.holdfast("diagnostics", "--to", "d.zip")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert not (desk.project / "d.zip").exists()
    assert desk.holdfast("diagnostics", "--with-log", "--yes").code == 2


@pytest.mark.parametrize(("answer", "written"), [(b"y\n", True), (b"\n", False), (b"n\n", False)])
def test_at_a_terminal_it_asks(desk: Desk, answer: bytes, written: bool) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        command = [str(HOLDFAST), "diagnostics", "--to", "d.zip"]
        done = subprocess.run(
            command, cwd=desk.project, env=desk.env, stdin=theirs, capture_output=True, timeout=120, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)
    path: Path = desk.project / "d.zip"
    assert (done.returncode == 0, path.exists()) == (written, written), done.stderr
    assert b"about.json" in done.stderr


def test_an_argument_of_megabytes_costs_no_time(desk: Desk) -> None:
    """As an imported run may have one: a regular expression made of it took 17 seconds, and more than its length."""
    desk.script("print(1)")
    assert desk.submit("train.py").code == 0
    [file] = (desk.home / "runs").glob("*/run.json")
    request = json.loads(file.read_text())
    del request["crc"]
    file.write_bytes(sealed({**request, "arguments": ["x" * 2_000_000]}))
    before = os.times()
    assert desk.holdfast("diagnostics", "-r", "1", "--to", "report.zip", "--yes").code == 0
    assert os.times().children_user - before.children_user < 8


def test_logs_are_left_out_where_the_arguments_cannot_be_looked_for(desk: Desk, tmp_path: Path) -> None:
    desk.script("import sys; print(sys.argv[1][:50])")
    assert desk.submit("train.py", "private words " * 6_000).code == 0
    report = tmp_path / "report.zip"
    assert desk.holdfast("diagnostics", "-r", "1", "--with-log", "--to", str(report), "--yes").code == 0
    with zipfile.ZipFile(report) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    assert [name for name, text in texts.items() if b"private words" in text] == []
    assert any(text.startswith(b"omitted: ") for text in texts.values())
