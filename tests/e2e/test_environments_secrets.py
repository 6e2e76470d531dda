"""Passwords, signatures and tokens in addresses open doors and leave no trace: not in the store, not on the screen."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

import managed
from builder.wheels import write_wheel
from lab.server import Fault, serve
from lab.source import write_repository
from managed import conda_file, everything, manage, requirements, shown

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk, Result

CANARY = "c4n4ry5ecret"


@pytest.fixture(autouse=True)
def _managed(desk: Desk) -> None:
    """What a project's own file says, its copies say too; here those files do not go into a run."""
    manage(desk)
    (desk.project / ".amlignore").write_text("requirements.txt\naml_config/conda_dependencies.yml\n")


def every_command(desk: Desk) -> list[Result]:
    """All that has to do with the environment, from nothing to a run in it."""
    said = [desk.holdfast("experiment", "prepare"), desk.submit("train.py"), desk.holdfast("env", "show")]
    said += [desk.holdfast("env", "lock"), desk.holdfast("history", "info"), desk.holdfast("env", "list")]
    said += [desk.holdfast("env", "verify"), desk.holdfast("history", "info", "-a", "control_log")]
    assert [result.code for result in said] == [0] * len(said), "\n".join(map(shown, said))
    return said


def assert_nowhere(desk: Desk, said: list[Result]) -> None:
    assert CANARY not in "\n".join(map(shown, said))
    assert CANARY not in (desk.project / "aml_config" / "local.lock").read_text()
    assert CANARY not in everything(desk)


def test_the_password_of_an_index(desk: Desk) -> None:
    desk.script("import tinydep\n")
    with serve(managed.index().path) as server:
        server.password = f"ada:{CANARY}"
        requirements(desk, server.with_password(), "tinydep")
        assert_nowhere(desk, every_command(desk))


def test_the_signature_of_a_wheel(desk: Desk) -> None:
    desk.script("import tinypip\n")
    with serve(managed.index().path) as server:
        server.signature = f"sig={CANARY}"
        address = f"{server.url}/files/tinypip-1.1-py3-none-any.whl?sv=1&sig={CANARY}"
        requirements(desk, server.url, f"tinypip @ {address}")
        assert_nowhere(desk, every_command(desk))


def test_the_signature_of_a_page_with_links(desk: Desk, tmp_path: Path) -> None:
    desk.script("import linked\n")
    wheel = write_wheel(tmp_path / "site" / "files", "linked", "1.0", {"linked.py": ""})
    page = f'<a href="{wheel.name}?sig={CANARY}">{wheel.name}</a>'
    (tmp_path / "site" / "files" / "page.html").write_text(page)
    with serve(tmp_path / "site") as server:
        server.signature = f"sig={CANARY}"
        text = f"--no-index\n-f {server.url}/files/page.html?sig={CANARY}\nlinked\n"
        (desk.project / "requirements.txt").write_text(text)
        assert_nowhere(desk, every_command(desk))


@pytest.mark.parametrize("kind", ["password", "password, whole index", "token"])
def test_the_password_of_a_channel(desk: Desk, tmp_path: Path, kind: str) -> None:
    desk.script("import tinynum\n")
    site = tmp_path / "site"
    channel = site / "t" / CANARY if kind == "token" else site
    shutil.copytree(managed.channel().path, channel)
    for shards in channel.glob("*/repodata_shards*") if "whole" in kind else ():
        shards.unlink()
    with serve(site) as server:
        server.password = "" if kind == "token" else f"ada:{CANARY}"
        conda_file(desk, f"{server.url}/t/{CANARY}" if kind == "token" else server.with_password(), "python", "tinynum")
        assert_nowhere(desk, every_command(desk))


def test_the_password_of_a_repository(desk: Desk, tmp_path: Path) -> None:
    desk.script("import tinygit\n")
    repository = write_repository(tmp_path / "tinygit", "tinygit", "")
    with serve(repository.path / ".git") as server:
        server.password = f"ada:{CANARY}"
        (desk.project / "requirements.txt").write_text(f"--no-index\ntinygit @ git+{server.with_password()}/@main\n")
        said = every_command(desk)
        assert re.search(r"/@[0-9a-f]{40}", (desk.project / "aml_config" / "local.lock").read_text())
        assert_nowhere(desk, said)


def test_failures_tell_no_password(desk: Desk) -> None:
    desk.script("import tinydep\n")
    with serve(managed.index().path) as server:
        server.password = f"ada:{CANARY}"
        server.faults["/simple/tinydep/"] = Fault(status=500)
        requirements(desk, server.with_password(), "tinydep")
        at_the_index = desk.submit("train.py")
        server.faults.clear()
        assert desk.holdfast("env", "lock").code == 0
        server.faults["/files/tinydep-0.5-py3-none-any.whl"] = Fault(status=500)
        at_the_file = desk.submit("train.py")
    with serve(managed.channel().path) as server:
        server.password = f"ada:{CANARY}"
        for name in ("repodata_shards.msgpack.zst", "repodata.json.zst", "repodata.json"):
            server.faults[f"/noarch/{name}"] = Fault(status=500)
        conda_file(desk, server.with_password(), "python", "tinynum")
        at_the_channel = desk.submit("train.py")
    failed = [at_the_index, at_the_file, at_the_channel]
    assert ["500" in shown(result) for result in failed] == [True] * 3, "\n".join(map(shown, failed))
    assert_nowhere(desk, failed)
