"""Every quirk of real ``aml_config`` folders, as ``holdfast check`` prints it.

``HOLDFAST_REWRITE_GOLDEN=1 pytest tests/unit/test_amlconfig_check.py`` rewrites the expected texts; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.amlconfig import read_runconfig, render
from holdfast.amlconfig.check import check_project, check_target

TESTS = Path(__file__).parents[1]
CORPUS = TESTS / "corpus"
PROJECTS = sorted(folder.name for folder in CORPUS.iterdir() if folder.is_dir())


@pytest.mark.parametrize("project", PROJECTS)
def test_findings_of_the_corpus(project: str) -> None:
    found = render(check_project(CORPUS / project))
    golden = TESTS / "golden" / "check" / f"{project}.txt"
    if os.environ.get("HOLDFAST_REWRITE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_no_golden_without_a_project() -> None:
    assert sorted(path.stem for path in (TESTS / "golden" / "check").iterdir()) == PROJECTS


def test_a_folder_without_aml_config_has_nothing_to_find(tmp_path: Path) -> None:
    assert check_project(tmp_path) == []


def test_targets_may_live_outside_the_project(tmp_path: Path) -> None:
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "aml_config" / "far.runconfig").write_text("Framework: Python\nTarget: far\n")
    assert [(finding.line, finding.column) for finding in check_project(tmp_path)] == [(2, 9)]
    assert check_project(tmp_path, known_targets={"far"}) == []


def test_a_missing_target_is_placed_where_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.runconfig"
    path.write_text("Framework:Python\nTarget:gpu\n")
    config, _ = read_runconfig(path)
    assert config is not None
    (finding,) = check_target(str(path), config, ["gpu1"])
    assert (finding.line, finding.column, finding.hint) == (2, 8, "did you mean gpu1?")
    assert check_target(str(path), config, ["gpu"]) == []


def test_clear_text_passwords_are_not_repeated() -> None:
    assert "hunter2" not in render(check_project(CORPUS / "guide-placeholders"))
