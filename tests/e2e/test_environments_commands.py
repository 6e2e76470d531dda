"""``holdfast env ...`` and the shell of a managed project."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import managed
from conftest import HOLDFAST, eventually
from lab.server import serve
from managed import environments, manage, prepared, requirements, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk
    from lab.server import Server

GUIDE = Path(__file__).resolve().parent.parent / "corpus" / "environments" / "guide"


@pytest.fixture
def index() -> Iterator[Server]:
    with serve(managed.index().path) as server:
        yield server


def test_a_lock_is_written_used_and_said_to_be_outdated(desk: Desk, index: Server) -> None:
    manage(desk)
    desk.script("import tinypip; print(tinypip.WHOLE)\n")
    requirements(desk, index.url, "tinypip<1.1")
    assert desk.holdfast("env", "lock").code == 0
    lock = desk.project / "aml_config" / "local.lock"
    assert "tinypip==1.0" in lock.read_text()
    for remembered in (desk.home / "solved").iterdir():
        remembered.unlink()
    first = desk.submit("train.py")
    assert "1.0" in first.text
    assert "no longer matches" not in first.err
    assert list((desk.home / "solved").iterdir()) == [], "it was solved again"
    requirements(desk, index.url, "tinypip")
    second = desk.submit("train.py")
    assert "1.1" in second.text
    assert "aml_config/local.lock no longer matches requirements.txt; holdfast env lock -c local" in second.err
    assert desk.holdfast("env", "lock").code == 0
    assert "no longer matches" not in desk.submit("train.py").err


def test_what_is_there_is_said_to_be_there(desk: Desk, index: Server) -> None:
    """With the time that it took to see that, not with the times of the first build."""
    manage(desk)
    requirements(desk, index.url, "tinypip")
    first = prepared(desk)
    assert {"solve_s", "download_s", "link_s", "compile_s"} <= set(first)
    index.paths.clear()
    started = time.monotonic()
    again = desk.holdfast("experiment", "prepare", "-c", "local")
    assert again.json == {
        "environment": first["environment"],
        "source": "requirements.txt",
        "already_there": True,
        "check_s": again.json["check_s"],
    }
    assert 0 < again.json["check_s"] < time.monotonic() - started
    assert f"already built: environment {first['environment']}, checked in {again.json['check_s']:.3f} s" in again.err
    assert index.paths == []


def test_a_damaged_lock_is_refused(desk: Desk, index: Server) -> None:
    manage(desk)
    desk.script("")
    requirements(desk, index.url, "tinypip")
    (desk.project / "aml_config" / "local.lock").write_text("{}\n")
    refused = desk.submit("train.py")
    assert refused.code == 65
    assert "holdfast env lock" in refused.err
    assert desk.holdfast("env", "lock").code == 0
    assert desk.submit("train.py").code == 0


def test_what_is_added_keeps_comments(desk: Desk, index: Server) -> None:
    manage(desk)
    file = desk.project / "aml_config" / "conda_dependencies.yml"
    simple = managed.index().simple(index.url)
    text = f"# ours\ndependencies:\n- pip:\n  - --index-url {simple}\n  - tinydep  # needed\n# the end\n"
    file.write_text(text)
    added = desk.holdfast("env", "add", "tinypip==1.0", "-c", "local")
    assert added.code == 0, shown(added)
    assert file.read_text() == text.replace("# needed\n", "# needed\n  - tinypip==1.0\n")
    desk.script("import tinypip; print('with', tinypip.WHOLE)\n")
    assert "with 1.0" in desk.submit("train.py").text
    assert desk.holdfast("env", "add", "not a package!").code == 2


def added(desk: Desk, *packages: str) -> str:
    result = desk.holdfast("env", "add", *packages)
    assert result.code == 0, shown(result)
    return result.err


def test_adding_a_declared_package_changes_its_line_or_nothing(desk: Desk) -> None:
    manage(desk)
    file = desk.project / "requirements.txt"
    file.write_text("--pre\nTorch  # for training\nnumpy>=1.20\n")
    assert added(desk, "torch") == "requirements.txt:2: Torch is declared already; nothing to add\n"
    assert added(desk, "torch==2.1") == "requirements.txt:2: torch==2.1 (was Torch)\n"
    assert added(desk, "torch") == "requirements.txt:2: torch==2.1 is declared already; nothing to add\n"
    assert added(desk, "numpy==1.26", "tinypip").splitlines() == [
        "requirements.txt:3: numpy==1.26 (was numpy>=1.20)",
        "requirements.txt: tinypip",
    ]
    assert file.read_text() == "--pre\ntorch==2.1  # for training\nnumpy==1.26\ntinypip\n"
    assert desk.holdfast("env", "add", "tinydep", "tinydep==1").code == 2


def test_a_first_package_makes_the_file(desk: Desk) -> None:
    manage(desk)
    assert desk.holdfast("env", "add", "tinypip", "tinydep").code == 0
    assert (desk.project / "requirements.txt").read_text() == "tinypip\ntinydep\n"


@pytest.mark.parametrize("file", sorted(GUIDE.glob("*/*.yml")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_files_of_the_guide_are_refused_or_fixed(desk: Desk, file: Path) -> None:
    """What they name has been retired; after ``env fix`` nothing in them is."""
    manage(desk)
    declared = desk.project / "aml_config" / "conda_dependencies.yml"
    declared.write_bytes(file.read_bytes())
    before = desk.holdfast("env", "show", "-o", "json")
    fixed = desk.holdfast("env", "fix")
    assert fixed.code == 0, shown(fixed)
    changed = declared.read_bytes() != file.read_bytes()
    assert changed or before.code == 0
    assert changed == fixed.text.startswith("---")
    after = desk.holdfast("env", "show", "-o", "json")
    assert after.code == 0, shown(after)
    again = desk.holdfast("env", "fix")
    assert "nothing to fix" in again.err, again.text


def test_a_changed_file_is_found(desk: Desk, index: Server) -> None:
    manage(desk)
    requirements(desk, index.url, "tinypip")
    prefix = desk.home / "envs" / prepared(desk)["environment"]
    assert desk.holdfast("env", "verify", "-o", "json").json == []
    (module,) = prefix.glob("lib/*/site-packages/tinypip.py")
    assert module.stat().st_mode & 0o222 == 0
    os.chmod(module, 0o644)
    module.write_text("WHOLE = 'changed'\n")
    os.chmod(module.parent, 0o755)
    (module.parent / "extra.py").touch()
    found = desk.holdfast("env", "verify", "-o", "json")
    assert found.code == 74
    place = module.parent.relative_to(prefix)
    assert found.json == [
        {"file": f"{place}/tinypip.py", "what": "changed"},
        {"file": f"{place}/extra.py", "what": "extra"},
    ]


def test_one_in_use_is_never_pruned(desk: Desk, index: Server) -> None:
    manage(desk)
    fifo = desk.project.parent / "go"
    os.mkfifo(fifo)
    desk.script(f"import tinypip; print(open({str(fifo)!r}).read())\n")
    requirements(desk, index.url, "tinypip==1.0")
    assert desk.submit("--no-wait", "train.py").code == 0
    eventually(lambda: any(event["type"] == "started" for event in desk.events()))
    (used,) = (row["key"] for row in environments(desk))
    requirements(desk, index.url, "tinypip==1.1")
    idle = prepared(desk)["environment"]
    would = desk.holdfast("env", "prune", "--keep", "0", "--dry-run", "-o", "json").json
    assert [row["key"] for row in would] == [idle]
    assert len(environments(desk)) == 2
    assert desk.holdfast("env", "prune", "--keep", "0").code == 0
    assert [(row["key"], row["in_use"]) for row in environments(desk)] == [(used, True)]
    fifo.write_text("on it goes")
    assert desk.wait_for_end()["status"] == "Completed"
    assert desk.holdfast("env", "prune", "--max-size", "1KB").code == 0
    assert environments(desk) == []


def test_pip_in_the_shell_edits_the_file(desk: Desk, index: Server) -> None:
    manage(desk)
    requirements(desk, index.url, "tinypip")
    early = desk.holdfast("shell", "pip", "list")
    assert early.code == 2
    assert "holdfast experiment prepare" in early.err
    key = prepared(desk)["environment"]
    python = desk.holdfast("shell", "python", "-c", "import sys, tinypip; print(sys.prefix)")
    assert python.text.strip() == f"{desk.home}/envs/{key}", python.err
    added = desk.holdfast("shell", "pip", "install", "-U", "tinydep")
    assert added.code == 0, added.err
    assert "holdfast experiment prepare" in added.err
    assert (desk.project / "requirements.txt").read_text().endswith("tinypip\ntinydep\n")
    prepared(desk)
    assert "tinydep" in desk.holdfast("shell", "pip", "list").text
    refused = desk.holdfast("shell", "pip", "uninstall", "tinydep")
    assert refused.code == 2
    assert "managed by Holdfast" in refused.err
    assert desk.holdfast("shell", "pip", "install", "-r", "other.txt").code == 2


@pytest.mark.parametrize(("command", "expected"), [("show", "tensorflow-gpu"), ("fix", "+- python=3.6\n")])
def test_declaration_for_a_container_is_read_without_any_connection(desk: Desk, command: str, expected: str) -> None:
    if shutil.which("strace") is None:
        pytest.skip("NOT TESTED: there is no strace here")
    (desk.project / "aml_config").mkdir()
    lines = ["channels:", "- conda-forge", "dependencies:", "- python=3.5.2", "- pip:", "  - tensorflow-gpu==1.4.0", ""]
    (desk.project / "aml_config" / "conda_dependencies.yml").write_text("\n".join(lines))
    trace = desk.project.parent / "trace"
    traced = ["strace", "-f", "-qq", "-e", "trace=network,execve", "-o", str(trace), str(HOLDFAST)]
    done = desk.holdfast(*traced[1:], "env", command, "-c", "docker", command=traced[0])
    assert done.code == 0, done
    assert expected in done.text
    calls = re.findall(r"^\d+ +(\w+)\((.*)", trace.read_text(), re.M)
    assert "execve" in {name for name, _ in calls}
    assert [call for call in calls if call[0] in ("connect", "sendto", "sendmsg", "sendmmsg")] == []
    assert [call for call in calls if call[0] == "execve" and "docker" in call[1].partition(",")[0]] == []
