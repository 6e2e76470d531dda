"""What a project declares is what its runs get: from an index, from a channel, once per content."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import managed
from builder.wheels import write_wheel
from conftest import HOLDFAST
from lab.server import serve
from managed import builds, conda_file, environments, lend_packages, manage, prepared, requirements, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk
    from lab.server import Server

SAYS = "import sys, tinypip; print('in', sys.prefix, 'with', tinypip.WHOLE)\n"


@pytest.fixture
def index() -> Iterator[Server]:
    with serve(managed.index().path) as server:
        yield server


def test_a_run_has_what_requirements_ask_for(desk: Desk, index: Server) -> None:
    manage(desk)
    desk.script(SAYS)
    requirements(desk, index.url, "tinydep")
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    (row,) = environments(desk)
    assert f"in {desk.home}/envs/{row['key']} with 1.1" in result.text
    assert row["packages"] == 2
    words = desk.holdfast("history", "info", "-a", "control_log").text
    assert f"environment {row['key']} from 'requirements.txt': the first declaration found" in words


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_a_python_from_a_channel_runs_the_script(desk: Desk, scheme: str) -> None:
    manage(desk)
    lend_packages(desk)
    desk.script("import sys, tinynum; print('in', sys.base_prefix, 'with', tinynum.WHOLE)\n")
    with serve(managed.channel().path) as server:
        conda_file(desk, server.url if scheme == "http" else managed.channel().file_url, "python", "tinynum=1")
        result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    (row,) = environments(desk)
    assert f"in {desk.home}/envs/{row['key']} with 1.1" in result.text


def test_second_submit_needs_no_network(desk: Desk, index: Server) -> None:
    manage(desk)
    desk.script(SAYS)
    requirements(desk, index.url, "tinypip==1.0")
    ledger = prepared(desk)
    assert ledger["packages"] == 1
    assert ledger["bytes"] > 0
    index.paths.clear()
    assert "with 1.0" in desk.submit("train.py").text
    alone = ["unshare", "--net", "--", str(HOLDFAST), "submit", "-c", "local", "train.py"]
    if (
        shutil.which("unshare")
        and subprocess.run([*alone[:3], "true"], capture_output=True, check=False).returncode == 0
    ):
        said = subprocess.run(alone, cwd=desk.project, env=desk.env, capture_output=True, text=True, check=True)
        assert "with 1.0" in said.stdout
    assert index.paths == []


def test_comments_and_order_are_no_other_environment(desk: Desk, index: Server) -> None:
    manage(desk)
    requirements(desk, index.url, "tinypip", "tinydep")
    first = prepared(desk)["environment"]
    index.paths.clear()
    requirements(desk, index.url, "# what we need", "tinydep", "", "TinyPip  # and this")
    assert prepared(desk)["environment"] == first
    requirements(desk, index.url, "tinydep")
    assert prepared(desk)["environment"] == first, "another question with the same answer"
    requirements(desk, index.url, "tinypip<1.1", "tinydep")
    assert prepared(desk)["environment"] != first
    assert len(environments(desk)) == 2


@pytest.mark.parametrize("first", ["prepare", "submit"])
def test_files_of_the_project_are_installed(desk: Desk, first: str) -> None:
    """Built from the project's own folder or from a run's copy of it."""
    manage(desk)
    desk.script("import direct, linked; print(direct.FROM, linked.FROM)\n")
    write_wheel(desk.project / "wheels", "linked", "1.0", {"linked.py": "FROM = 'a folder'\n"})
    write_wheel(desk.project / "more", "direct", "1.0", {"direct.py": "FROM = 'a path and'\n"})
    lines = ["--no-index", "-f wheels", "linked", "more/direct-1.0-py3-none-any.whl", ""]
    (desk.project / "requirements.txt").write_text("\n".join(lines))
    if first == "prepare":
        assert prepared(desk)["packages"] == 2
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    assert "a path and a folder" in result.text
    assert builds(desk) == 1


@pytest.mark.parametrize("first", ["prepare", "submit"])
def test_an_own_package_is_the_runs_own_copy(desk: Desk, index: Server, first: str) -> None:
    manage(desk)
    desk.script("import sys, mine; print(mine.__file__, mine.SAYS)\n")
    package = desk.script("SAYS = 'before'\n", "src/mine/__init__.py")
    (desk.project / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\ndependencies = ["tinypip"]\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[[tool.uv.index]]\nurl = "{managed.index().simple(index.url)}"\ndefault = true\n'
    )
    desk.script(BACKEND, "backend.py")
    if first == "prepare":
        assert prepared(desk)["packages"] == 1
    before = desk.submit("train.py")
    assert before.code == 0, shown(before)
    assert f"{desk.attempt()}/workspace/above/work/src/mine/__init__.py before" in before.text
    package.write_text("SAYS = 'after'\n")
    second = desk.submit("train.py")
    assert f"{desk.attempt()}/workspace/above/work/src/mine/__init__.py after" in second.text
    assert len(environments(desk)) == 1


def test_a_script_with_a_header(desk: Desk, index: Server) -> None:
    manage(desk)
    simple = managed.index().simple(index.url)
    header = f'# /// script\n# dependencies = ["tinypip==1.0"]\n# [tool.uv]\n# index-url = "{simple}"\n# ///\n'
    desk.script(header + SAYS)
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    assert "with 1.0" in result.text
    assert "from 'train.py'" in desk.holdfast("history", "info", "-a", "control_log").text


def test_nothing_declared_and_nothing_managed(desk: Desk, index: Server) -> None:
    """Old projects bring a conda file that the original never read for local runs."""
    manage(desk)
    requirements(desk, index.url, "tinypip")
    (desk.project / "aml_config" / "local.compute").write_text("type: local\npythonLocation: python\n")
    desk.script("import sys; print('in', sys.prefix)\n")
    assert "/envs/" not in desk.submit("train.py").text
    assert "unchanged" in desk.holdfast("history", "info", "-a", "control_log").text
    refused = desk.holdfast("experiment", "prepare", "-c", "local")
    assert refused.code == 65
    assert "environment: project" in refused.err
    assert index.paths == []


@pytest.mark.timeout(240)
def test_the_tools_are_installed_when_they_are_needed(desk: Desk, index: Server) -> None:
    """The one test that pays for it."""
    manage(desk, tools=False)
    desk.script(SAYS)
    requirements(desk, index.url, "tinypip")
    result = desk.submit("train.py", env=managed.pip_variables())
    assert result.code == 0, shown(result)
    assert builds(desk) == 1
    (tools,) = (path for path in (desk.home / "builder").iterdir() if path.is_dir())
    subprocess.run([tools / "bin" / "python", "-c", "import rattler"], check=True)
    assert (tools / "bin" / "uv").exists()


BACKEND = '''
"""The smallest build backend that can install a src folder as editable."""
import os, zipfile

def get_requires_for_build_editable(config_settings=None):
    return []

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    files = {
        "mine.pth": os.path.join(os.getcwd(), "src") + "\\n",
        "mine-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n",
        "mine-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files["mine-1.dist-info/RECORD"] = "".join("%s,,\\n" % name for name in [*files, "mine-1.dist-info/RECORD"])
    with zipfile.ZipFile(os.path.join(wheel_directory, "mine-1-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "mine-1-py3-none-any.whl"
'''
