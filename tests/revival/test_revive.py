"""Twelve old projects through ``holdfast revive``: what is found, what is replaced, and which scripts run."""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from holdfast.engine.revival import fixes
from holdfast.errors import ConfigError

from .old_projects import PROJECTS, make

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk


SAVE_AND_DIE = """
import os, signal, sys
from holdfast.runner.store.files import WholeFile
with WholeFile(sys.argv[1], 0o666, keep_mode=True) as target:
    target.write(b"half")
    target.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


class After(NamedTuple):
    """What is expected: files that change, scripts with exit code, and some metric."""

    changes: set[str]
    results: dict[str, int]
    metric: tuple[str, object] | None = ("Accuracy", 0.96)


CONDA = "aml_config/conda_dependencies.yml"
EXPECTED = {
    "json-era": After({"aml_config/local.runconfig"}, {"iris_sklearn.py": 0}),
    "windows-lines": After({CONDA}, {"train.py": 0}),
    "no-framework": After(set(), {"train.py": 0}),
    "dead-pins": After({CONDA}, {"train.py": 0}),
    "cntk-wheel": After({CONDA, "aml_config/dsvm.compute"}, {"mnist.py": 0}),
    "tensorflow-1": After({CONDA}, {"tf_mnist.py": 1}, None),
    "dataprep": After(set(), {"train.py": 0}, ("petal", 4.5)),
    "az-sweep": After(set(), {"job.py": 1, "run.py": 0}, None),
    "moved-modules": After({"train.py"}, {"train.py": 0}),
    "spark-file": After({"aml_config/spark_dependencies.yml"}, {"train.py": 0}),
    "placeholders": After(set(), {"code/02_modeling/Main.py": 0}, ("Accuracy", 0.5)),
    "python-2": After(set(), {"<img src=x onerror=alert(1)>.py": 3}),
}
WRITTEN = {
    "json-era": (
        "aml_config/local.runconfig",
        PROJECTS["json-era"]["aml_config/local.runconfig"].replace("Local", "local"),
    ),
    "windows-lines": (
        CONDA,
        "name: project_environment\r\ndependencies:\r\n  - python=3.6\r\n  # kept\r\n  - scikit-learn\r\n",
    ),
    "dead-pins": (
        CONDA,
        (
            "channels:\n- menpo  # for opencv\n- conda-forge\ndependencies:\n- python=3.6\n- pip:\n"
            "  - pillow\n  - scikit-learn\n"
        ),
    ),
    "cntk-wheel": (CONDA, "dependencies:\n  - python=3.6\n  - pip: \n    # the Linux build\n    - cntk-gpu==2.5.1\n"),
    "tensorflow-1": (
        CONDA,
        "dependencies:\n  - python=3.6\n  # newest\n  - pip:\n    - tensorflow-gpu==1.15.5\n",
    ),
    "spark-file": (
        "aml_config/spark_dependencies.yml",
        PROJECTS["spark-file"]["aml_config/spark_dependencies.yml"].replace(
            "https://dl.bintray.com/spark-packages/maven", "https://repos.spark-packages.org"
        ),
    ),
}


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def revive(desk: Desk, *words: str) -> dict[str, Any]:
    result = desk.holdfast("revive", *words, "-o", "json", cwd=desk.user_home)
    assert result.text.startswith("{"), result.err
    found: dict[str, Any] = result.json
    return found


def test_there_are_twelve() -> None:
    assert len(PROJECTS) == 12
    assert set(PROJECTS) == set(EXPECTED)


@pytest.mark.parametrize("name", PROJECTS)
def test_old_project_is_run_in_a_copy_and_left_as_it_was(desk: Desk, tmp_path: Path, name: str) -> None:
    root = make(tmp_path, name)
    before = contents(root)
    report = revive(desk, "--run", "--env", "none", "--html", str(tmp_path / "page.html"), str(root))
    assert contents(root) == before
    expected = EXPECTED[name]
    assert {change["file"] for change in report["changes"]} == expected.changes
    assert {result["script"]: result["code"] for result in report["results"]} == expected.results
    metrics = [pair for result in report["results"] for pair in result["metrics"].items()]
    assert expected.metric is None or expected.metric in metrics
    page = (tmp_path / "page.html").read_text()
    assert all(escape(script) in page for script in expected.results)
    assert "<img" not in page
    assert "<script" not in page


@pytest.mark.parametrize("name", WRITTEN)
def test_write_changes_only_what_is_withdrawn(tmp_path: Path, name: str) -> None:
    root = make(tmp_path, name)
    before = contents(root)
    changes, _ = fixes.changes(str(root))
    fixes.write(str(root), changes)
    file, text = WRITTEN[name]
    assert (root / file).read_bytes().decode() == text
    assert {name for name, data in contents(root).items() if before.get(name) != data} == EXPECTED[name].changes
    assert fixes.changes(str(root)) == ([], [])


def test_write_is_needed_to_change_a_project(desk: Desk, tmp_path: Path) -> None:
    root = make(tmp_path, "tensorflow-1")
    file, text = WRITTEN["tensorflow-1"]
    assert revive(desk, "--write", str(root))["changes"][0]["file"] == file
    assert (root / file).read_text() == text


def test_check_fix_shows_the_diff_and_writes_it(desk: Desk, tmp_path: Path) -> None:
    root = make(tmp_path, "moved-modules")
    before = sorted(os.listdir(root))
    killed = desk.python(SAVE_AND_DIE, str(root / "train.py"))
    assert (killed.code, len(os.listdir(root))) == (-9, len(before) + 1)
    seen = desk.holdfast("check", "-p", str(root))
    assert "train.py:1:1: warning: pandas.tools.plotting no longer exists since pandas 0.25" in seen.text
    fixed = desk.holdfast("check", "--fix", "-p", str(root))
    assert "-from pandas.tools.plotting import scatter_matrix" in fixed.text
    assert "+from pandas.plotting import scatter_matrix" in fixed.text
    assert "1 file changed" in fixed.err
    assert "no findings" in desk.holdfast("check", "-p", str(root)).text
    assert sorted(os.listdir(root)) == before  # also what a killed --fix left


def test_findings_of_spark_files_clusters_and_scripts(desk: Desk, tmp_path: Path) -> None:
    rows = revive(desk, str(make(tmp_path, "spark-file")))["findings"]
    places = {(row["file"], row["line"]) for row in rows}
    assert ("aml_config/spark_dependencies.yml", 5) in places
    assert any("HDInsight" in row["message"] for row in rows)
    assert any("mmlspark" in row["message"] for row in rows)
    rows = revive(desk, str(make(tmp_path, "python-2")))["findings"]
    assert [row["line"] for row in rows if row["file"] == "old.py"] == [1]


def test_links_and_pipes_of_a_hostile_project_are_not_followed(desk: Desk, tmp_path: Path) -> None:
    root = make(tmp_path, "no-framework")
    secret = tmp_path / "secret.txt"
    secret.write_text("do not read")
    (root / "secret.txt").symlink_to(secret)
    os.mkfifo(root / "pipe.py")
    (root / "train.py").write_text("import os\nprint(os.listdir('.'))\nassert not os.path.lexists('secret.txt')\n")
    report = revive(desk, "--run", "--env", "none", str(root))
    assert [result["code"] for result in report["results"]] == [0]


def test_folder_that_does_not_exist_is_refused(desk: Desk) -> None:
    result = desk.holdfast("revive", "nowhere")
    assert result.code != 0
    assert "git clone" in result.err


def test_check_names_the_image_that_fix_writes(desk: Desk, tmp_path: Path) -> None:
    root = make(tmp_path, "tensorflow-1")
    (root / "aml_config" / "vm.compute").write_text(
        "type: localdocker\nbaseDockerImage: microsoft/mmlspark:plus-gpu-0.7.91\nnvidiaDocker: true\n"
    )
    said = desk.holdfast("check", "-p", str(root)).text
    desk.holdfast("check", "--fix", "-p", str(root))
    written = (root / "aml_config" / "vm.compute").read_text().splitlines()[1]
    assert f"write {written}, or an image of your own" in said
    assert "tensorflow:1.15.5-gpu" in written


def test_file_and_a_link_to_it_are_changed_once(desk: Desk, tmp_path: Path) -> None:
    root = make(tmp_path, "moved-modules")
    (root / "also.py").symlink_to("train.py")
    fixed = desk.holdfast("check", "--fix", "-p", str(root))
    assert fixed.code == 0, fixed.err
    assert "1 file changed" in fixed.err
    assert (root / "also.py").is_symlink()
    assert "from pandas.plotting" in (root / "train.py").read_text()


def test_nothing_is_written_if_one_file_changed_meanwhile(tmp_path: Path) -> None:
    root = make(tmp_path, "dead-pins")
    (root / "old.py").write_text("from sklearn.externals import joblib\n")
    changes, _ = fixes.changes(str(root))
    (root / changes[-1].file).write_text("changed\n")
    before = contents(root)
    with pytest.raises(ConfigError, match="has just changed"):
        fixes.write(str(root), changes)
    assert len(changes) == 2
    assert contents(root) == before


def test_script_that_is_no_text_gets_no_advice_about_python_2(desk: Desk, tmp_path: Path) -> None:
    root = make(tmp_path, "no-framework")
    (root / "wide.py").write_text("print(1)\n", encoding="utf-16")
    (root / "deep.py").write_text("-" * 200_000 + "1\n")
    said = desk.holdfast("check", "-p", str(root)).text
    assert "wide.py: warning: Python 3 cannot parse this script" in said
    assert "save the script as UTF-8 text" in said
    assert "deep.py: warning: Python 3 cannot parse this script: it is nested too deeply" in said


@pytest.mark.parametrize("folder", ["/", "~"])
def test_folder_that_holds_the_home_directory_is_no_old_project(desk: Desk, folder: str) -> None:
    folder = str(desk.user_home) if folder == "~" else folder
    result = desk.holdfast("revive", folder)
    assert result.code == 65
    assert "it holds your home directory" in result.err


@pytest.mark.parametrize("words", [("check",), ("history", "list"), ("env", "show", "-c", "local")])
def test_project_folder_that_is_not_there_is_refused(desk: Desk, tmp_path: Path, words: tuple[str, ...]) -> None:
    result = desk.holdfast(*words, "-p", str(tmp_path / "absent"))
    assert result.code == 2
    assert result.err.startswith("ERROR: no such folder")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--run", "--timeout", "soon"), "'soon' is not a duration"),
        (("--run", "--env", "other"), "'other'"),
        (("--run", "--html", "absent/page.html"), "the page cannot be written"),
        (("--html", "page.html"), "--html is for --run"),
        (("--timeout", "5m"), "--timeout is for --run"),
    ],
)
def test_wrong_options_are_refused_before_a_script_runs(
    desk: Desk, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    root = make(tmp_path, "no-framework")
    result = desk.holdfast("revive", *words, str(root), cwd=desk.user_home)
    assert result.code in (2, 65)
    assert message in result.err.splitlines()[0]
    assert desk.holdfast("history", "list", "-o", "json", "-p", str(root)).json == []


def test_reason_of_a_failed_script_is_printed(desk: Desk, tmp_path: Path) -> None:
    root = make(tmp_path, "no-framework")
    (root / "train.py").write_text("print(1)\nimport no_such_module\n")
    result = desk.holdfast("revive", "--run", "--env", "none", str(root), cwd=desk.user_home)
    assert result.code == 1
    assert "train.py: exit code 1" in result.err
    assert "    ModuleNotFoundError: No module named 'no_such_module'\n" in result.err
