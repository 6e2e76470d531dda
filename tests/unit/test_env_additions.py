"""``env add``: a package that is declared already is not declared a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.environments.additions import Added, added
from holdfast.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

CONDA = "aml_config/conda_dependencies.yml"
PYPROJECT = '[project]\nname = "p"\nversion = "1"\ndependencies = ["torch==2.0"]\n'


def add(root: Path, *packages: str) -> Added:
    return added(str(root), None, packages)


@pytest.mark.parametrize(
    ("line", "package", "after"),
    [
        ("torch==2.1", "torch", "torch==2.1"),
        ("Torch", "torch", "Torch"),
        ("torch[cuda]==2.1", "torch", "torch[cuda]==2.1"),
        ("torch", "torch==2.1", "torch==2.1"),
        ("torch==2.0", "torch>=2.1,<3", "torch>=2.1,<3"),
        ("torch", "torch[cuda]", "torch[cuda]"),
        ("torch @ https://example.org/torch-2.0-py3-none-any.whl", "torch==2.1", "torch==2.1"),
        ("numpy", "torch", "numpy\ntorch"),
    ],
)
def test_requirements_line_is_kept_or_changed(tmp_path: Path, line: str, package: str, after: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"# ours\n{line}  # why\n")
    found = add(tmp_path, package)
    expected = f"{line}  # why\n{package}" if after.startswith(f"{line}\n") else f"{after}  # why"
    assert found.text == f"# ours\n{expected}\n"
    assert found.is_changed == (after != line)


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("torch==2.0 ; python_version < '3.9'", "torch==2.1"),
        ("torch==2.0 --hash=sha256:" + "0" * 64, "torch==2.1"),
        ("torch[extra]==2.0", "torch==2.1"),
        ("torch==2.0", "torch[extra]"),
        ("torch==2.0\ntorch==2.1 ; python_version < '3.9'", "torch==2.2"),
        ("-r more.txt", "torch==2.1"),
    ],
    ids=["marker", "hash", "extra", "extra without version", "two lines", "in another file"],
)
def test_line_that_says_more_is_refused(tmp_path: Path, text: str, package: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"{text}\n")
    (tmp_path / "more.txt").write_text("torch==2.0\n")
    with pytest.raises(ConfigError, match="torch is declared already, as torch") as refused:
        add(tmp_path, package)
    assert refused.value.hint == "change that line in an editor"


def test_conda_file(tmp_path: Path) -> None:
    file = tmp_path / CONDA
    file.parent.mkdir()
    file.write_text("dependencies:\n- numpy=1.20\n- pip:\n  - torch  # why\n")
    assert not add(tmp_path, "numpy", "torch").is_changed
    found = add(tmp_path, "torch==2.1", "pandas")
    assert found.text == "dependencies:\n- numpy=1.20\n- pip:\n  - torch==2.1  # why\n  - pandas\n"
    assert found.notes == [f"{CONDA}:4: torch==2.1 (was torch)", f"{CONDA}: pandas"]
    with pytest.raises(ConfigError, match=r"numpy is declared already, as numpy=1\.20") as refused:
        add(tmp_path, "numpy==1.26")
    assert "it is a conda package" in (refused.value.hint or "")


def test_pyproject_is_left_to_its_tool(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    assert not add(tmp_path, "torch").is_changed
    for package in ("torch==2.1", "numpy"):
        with pytest.raises(ConfigError) as refused:
            add(tmp_path, package)
        assert f"uv add {package}" in (refused.value.hint or "")


def test_package_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="torch is given twice"):
        add(tmp_path, "torch", "Torch==2.1")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_stay(tmp_path: Path, end: str) -> None:
    (tmp_path / "requirements.txt").write_bytes(f"six  # ours{end}numpy{end}".encode())
    change = add(tmp_path, "numpy==2.0", "yarl")
    assert change.text == f"six  # ours{end}numpy==2.0{end}yarl{end}"
