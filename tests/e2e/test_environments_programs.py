"""On this machine programs of packages run when something is to be built; and damaged notes cost a build at most."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.runner.machine import environment
from lab.source import write_program
from managed import index, manage

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk


def test_commands_that_only_look_run_no_program_of_a_package(desk: Desk) -> None:
    manage(desk)
    write_program(desk.project / "packages", "hidden")
    (desk.project / "requirements.txt").write_text("--no-index\n./packages/hidden-1.0.tar.gz\n")
    desk.script("import hidden; print('built on', hidden.BUILT_ON)")
    mark = desk.user_home / "hidden-was-built"
    preflight = desk.submit("--preflight", "train.py")
    assert preflight.code == 0, preflight
    assert "determined at submission: requirements.txt:2: hidden has no wheel" in preflight.text
    for words in (("submit", "-c", "local", "--dry-run", "train.py"), ("env", "show"), ("check",), ("env", "list")):
        assert desk.holdfast(*words).code == 0, words
    verified = desk.holdfast("env", "verify")
    assert (verified.code, "requirements.txt:2" in verified.err) == (65, True), verified
    assert not mark.exists()
    result = desk.submit("train.py")
    assert result.code == 0, result
    assert "built on " in result.text
    assert mark.exists()


def test_damaged_notes_of_environments_are_made_again(desk: Desk) -> None:
    manage(desk)
    wheels = (index().path / "files").as_uri()
    (desk.project / "requirements.txt").write_text(f"--no-index\n--find-links {wheels}\ntinypip==1.1\n")
    desk.script("import tinypip; print(tinypip.WHOLE)")
    assert "1.1\n" in desk.submit("train.py").text
    (solved,) = (desk.home / "solved").iterdir()
    (built,) = (desk.home / "envs").iterdir()
    for path in (solved, built / "holdfast-environment.json", built / "holdfast-manifest.json"):
        content = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(content[: len(content) // 2])
        if path.name == "holdfast-manifest.json":
            verified = desk.holdfast("env", "verify", "-o", "json")
            assert verified.json == [{"file": path.name, "what": "changed"}], verified
        assert "1.1\n" in desk.submit("train.py").text, path


@pytest.mark.parametrize("damage", ["cut", "gone", "note"])
def test_tools_that_were_cut_short_are_installed_again(tmp_path: Path, damage: str) -> None:
    tools = tmp_path / "tools"
    (tools / "bin").mkdir(parents=True)
    for name in ("python", "uv"):
        (tools / "bin" / name).write_bytes(b"x" * 1000)
    assert environment._has_tools(os.fsencode(tools)), "as older versions installed them"
    environment._note_sizes(os.fsencode(tools))
    assert environment._has_tools(os.fsencode(tools))
    if damage == "gone":
        (tools / "bin" / "uv").unlink()
    else:
        os.truncate(tools / ("bin/uv" if damage == "cut" else "holdfast-sizes.json"), 10)
    assert not environment._has_tools(os.fsencode(tools))
